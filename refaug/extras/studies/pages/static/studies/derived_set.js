/** People's weights of references become those of a frozen set: ΔBLEU by people is one study. */

import { address, download, listAll, post } from "../api.js";
import { element, fill } from "../dom.js";
import { countOf } from "../format.js";
import { showProblem } from "../frame.js";
import { field, select } from "./fields.js";

/** Return the questions of a form whose answers are numbers: one of them says what a reference weighs. */
const scales = (form) => form.questions.filter((question) => ["likert", "slider"].includes(question.type));

export function derivedSetSection(study) {
  const node = element("div", { id: "derived-set" }), state = element("div", { id: "derived-state", role: "status" });
  const sets = select([]), question = select(scales(study.protocol.form).map(({ id, text }) => [id, text.length > 60 ? `${text.slice(0, 60)} …` : text]));
  const make = element("button", { type: "submit", class: "primary", id: "make-set" }, "Make the set");
  const form = element("form", { onsubmit: async (event) => {
    event.preventDefault();
    make.disabled = true;
    showProblem(state, null);
    try {
      const lines = await download(`/v1/studies/${study.id}/export?format=weights&question=${encodeURIComponent(question.value)}`);
      const people = lines.split("\n").filter(Boolean).map((line) => JSON.parse(line));
      const made = await post(`/v1/reference-sets/${sets.value}/derive`, { people });
      fill(state, element("p", {}, "Set ", element("a", { href: address(`/service#set=${made.id}`), id: "derived-link" }, element("code", {}, made.id)),
        ` has the weights of ${countOf(people.length, "reference")} by people${made.new === false ? "; it was there already" : ""}. `, element("code", {}, `refaug sets score ${made.id.slice(0, 8)} REPLIES --metric delta-bleu`)));
    } catch (error) {
      showProblem(state, error);
    }
    make.disabled = false;
  } }, element("div", { class: "fields" }, field("derive-from", "Set with these references", sets), scales(study.protocol.form).length > 1 && field("derive-question", "Question that weighs them", question)),
  element("div", { class: "row start-row" }, make));
  const show = async () => {
    try {
      const rows = (await listAll("/v1/reference-sets", "sets")).filter((row) => !row.withdrawn);
      fill(sets, rows.map((row) => element("option", { value: row.id }, `${row.id.slice(0, 8)}: ${countOf(row.items ?? 0, "item")}, ${row.purpose ?? ""}`)));
      fill(node, rows.length ? form : element("p", { class: "empty" }, "No set is frozen yet: ", element("code", {}, "refaug sets freeze ITEMS --purpose test"), " makes one of the items of this study."), state);
    } catch (error) {
      showProblem(node, error);
    }
  };
  show();
  return [element("p", {}, "The mean rating of each reference becomes its weight, from −1 to 1, in a new set; the other references of the set keep theirs."), node];
}
