/** What the service says of a new study, beside the field that it is about. */

import { byId, element, userText } from "../../dom.js";

/** The fields of the form by those of the protocol, and the step that has each. */
const FIELDS = {
  name: ["what", "study-name"], title: ["what", "study-title"], kind: ["what", "study-kind"], language: ["what", "study-language"], bots: ["bots", "study-bots"], items: ["bots", "study-items"], target: ["bots", "study-target"], ratings_per_item: ["bots", "study-ratings"],
  per_participant: ["bots", "study-tasks"], min_turns: ["bots", "study-min"], max_turns: ["bots", "study-max"], delay: ["bots", "study-delay"], form: ["questions", "study-form"], routing: ["people", "study-routing"], consent: ["people", "study-consent"], guidelines: ["people", "study-guidelines"], translations: ["people", "add-language"],
  training: ["people", "add-practice"], checks: ["people", "study-attention"], exclude: ["people", "study-attention"], completion: ["people", "study-back"], pay: ["people", "study-pay"], stop: ["people", "study-stop"], retention_days: ["people", "study-retention"],
};

/** Take away what was said before. */
export function clearFaults(form) {
  for (const node of form.querySelectorAll(".field-fault")) node.remove();
  for (const node of form.querySelectorAll("[aria-invalid]")) node.removeAttribute("aria-invalid");
}

/** Show a problem beside its field, and open the step that has it; return whether there is such a field. */
export function showFault(error, form, walk) {
  const { detail = "", remedy = "", code, errors = [] } = error.document ?? {}, [first] = errors;
  const path = first?.field ?? (/^(?:protocol(?:, |\.))?([a-z_]+)/.exec(detail)?.[1] ?? "");
  const name = code === "conflict" && /name|already|there is a study/i.test(detail) ? "name" : path.replace(/^(body|protocol)[., ]+/, "").split(/[.,[: ]/)[0];
  if (!(name in FIELDS)) return false;
  const [step, id] = FIELDS[name], control = byId(id), said = first?.message ?? detail.replace(/^protocol, /, "");
  const fault = element("p", { class: "field-fault bad", id: `${id}-fault`, role: "alert" }, userText(said), remedy && [": ", userText(remedy)]);
  control.after(fault);
  control.setAttribute("aria-invalid", "true");
  for (let part = control.closest("details"); part && form.contains(part); part = part.parentElement.closest("details")) part.open = true;
  walk.show(step);
  control.focus();
  return true;
}
