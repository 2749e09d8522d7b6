/** The form of a bot: one kind, its fields, and what the service has against them, each beside its field. */

import { Problem, listAll, put } from "../api.js";
import { byId, element, fill, userText } from "../dom.js";
import { showProblem } from "../frame.js";
import { KINDS, fieldsOf, heldIn } from "./bot_kinds.js";

const NAME = /^[a-z0-9][a-z0-9._-]{0,63}$/;
const idOf = (name) => `bot-${name.replaceAll(/[._]/g, "-")}`;

/**
 * Return the form; `old` is the bot that it changes, if it changes one. `onSent(stored)` follows a bot that was stored,
 * `confirm(store)` may ask before an old one is changed.
 */
export function botForm({ kind, old = null, bots, onSent, confirm }) {
  const fields = element("div", {}), problem = element("div", { id: "bot-problem", "aria-live": "assertive" });
  const form = element("form", { id: "bot-form", novalidate: true });
  let chosen = old?.kind ?? kind;
  const name = old === null && nameField(bots);
  const kinds = old === null && element("fieldset", { class: "kinds" }, element("legend", {}, "What it is"), element("div", { class: "kind-choices" },
    Object.entries(KINDS).map(([one, { title, about }]) => element("label", { class: "kind-card" },
      element("input", { type: "radio", name: "kind", value: one, checked: one === chosen, onchange: () => { chosen = one; show(); } }), element("b", {}, title), element("span", { class: "faint" }, about)))));
  const show = () => { clearMarks(form); fill(fields, fieldsOfKind(chosen, old?.specification ?? {}, bots, old?.name)); };
  show();
  form.append(...[name, kinds].filter(Boolean), fields, problem, element("div", { class: "row form-ends" },
    element("button", { type: "submit", class: "primary", id: "bot-send" }, old === null ? "Add the bot" : "Save the change"),
    element("a", { class: "button", href: old === null ? "#" : `#bot=${old.name}` }, "Cancel")));
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    clearMarks(form);
    showProblem(problem, null);
    const called = old?.name ?? byId("bot-name").value.trim();
    if (old === null && !isFree(called, bots)) return;
    const bad = [...form.elements].find((control) => control.validity.badInput); // its value reads as empty
    if (bad) {
      mark(bad.id, "a number was expected");
      return;
    }
    const order = { specification: read(chosen, old?.specification ?? {}), ...(old === null ? {} : { expected_sha256: old.sha256 }) };
    const store = async () => onSent(await put(`/v1/bots/${called}`, order));
    const send = byId("bot-send");
    send.disabled = true;
    try {
      if (old !== null && confirm) await confirm(store);
      else await store();
    } catch (error) {
      showFault(error, problem, chosen);
    }
    send.disabled = false;
  });
  return form;
}

function nameField(bots) {
  const names = new Set(bots.map((bot) => bot.name));
  const input = element("input", { id: "bot-name", autocomplete: "off", spellcheck: "false", required: true, maxlength: 64, "aria-describedby": "bot-name-help", placeholder: names.has("small") ? "" : "small",
    oninput: () => clearMark(input) });
  return element("div", { class: "field name-field" }, element("label", { for: "bot-name" }, "Name"), input,
    element("p", { class: "faint", id: "bot-name-help" }, "Small letters, digits, dots and dashes. Participants never see it."));
}

function isFree(name, bots) {
  if (!NAME.test(name)) return mark("bot-name", name ? `“${name}” is not a name: it begins with a small letter or digit, and has only such, dots, dashes and underscores` : "a bot needs a name");
  if (bots.some((bot) => bot.name === name)) return mark("bot-name", `there is a bot “${name}” already: choose another name, or open that one to change it`);
  return true;
}

// ── fields ────────────────────────────────────────────────────────────────────────────────────────────────────────────

function fieldsOfKind(kind, specification, bots, ownName) {
  const { fields, further } = KINDS[kind];
  const isOpen = further.some((field) => heldIn(specification, field.name) !== undefined);
  return [
    element("div", { class: "fields bot-fields" }, fields.map((field) => fieldOf(field, heldIn(specification, field.name), bots, ownName))),
    further.length > 0 && element("details", { open: isOpen }, element("summary", {}, "Further settings"), element("div", { class: "fields bot-fields" }, further.map((field) => fieldOf(field, heldIn(specification, field.name), bots, ownName)))),
  ];
}

function fieldOf(field, value, bots, ownName) {
  const isKept = field.kind === "lines" && Boolean(value?.some((one) => !one || one !== one.trim() || /[\r\n]/.test(one)));
  const id = idOf(field.name), help = isKept ? "They stay as they are: some are empty, have line breaks, or spaces at an end, which one line each cannot show. refaug bots add --replace changes them." : field.help ?? null;
  const control = controlOf(field, id, value, bots, ownName);
  control.disabled = isKept;
  control.addEventListener("input", () => clearMark(control));
  if (help) control.setAttribute("aria-describedby", `${id}-help`);
  if (field.isRequired) control.required = true;
  const box = element("div", { class: field.isWide ? "field wide-field" : "field" });
  if (field.kind === "flag") box.append(element("label", { class: "inline", for: id }, control, field.label));
  else box.append(element("label", { for: id }, field.label, field.isRequired ? "" : element("span", { class: "faint" }, " (optional)")), control);
  if (help) box.append(element("p", { class: "faint", id: `${id}-help` }, help));
  return box;
}

function controlOf(field, id, value, bots, ownName) {
  const plain = { id, autocomplete: "off", spellcheck: "false", placeholder: field.example ?? null };
  if (field.kind === "flag") return element("input", { id, type: "checkbox", checked: value === true });
  if (field.kind === "choice") return chosenOf(id, value && !field.choices.some(([one]) => one === value) ? [...field.choices, [value, value]] : field.choices, value ?? "");
  if (field.kind === "bot") {
    const others = bots.filter((bot) => bot.kind !== "degraded" && bot.name !== ownName).map((bot) => [bot.name, bot.name]);
    return value?.kind ? chosenOf(id, [["", `${value.name ?? "the bot"}, as it was`], ...others], "") : chosenOf(id, [["", others.length ? "choose one" : "there is no other bot yet"], ...others], "");
  }
  if (field.kind === "artefact") return artefactOf(field, id, value);
  if (field.kind === "whole" || field.kind === "number") {
    return Object.assign(element("input", { ...plain, type: "number", min: field.least, max: field.most, step: field.kind === "whole" ? 1 : "any", placeholder: field.preset ?? null }), { value: value ?? "" });
  }
  if (field.kind === "text" || field.kind === "lines" || field.kind === "pairs") {
    const written = field.kind === "lines" ? (value ?? []).join("\n") : field.kind === "pairs" ? Object.entries(value ?? {}).map(([name, one]) => `${name} = ${JSON.stringify(one)}`).join("\n") : value ?? "";
    return Object.assign(element("textarea", { ...plain, rows: field.kind === "lines" ? 4 : 3, dir: "auto" }), { value: written });
  }
  return Object.assign(element("input", plain), { value: Array.isArray(value) ? value.join(", ") : value ?? "" });
}

function chosenOf(id, choices, value) {
  const node = element("select", { id }, choices.map(([one, shown]) => element("option", { value: one }, shown)));
  node.value = value;
  return node;
}

/** Return a choice among the artefacts of a kind; what the bot has now comes first. */
function artefactOf(field, id, value) {
  const node = chosenOf(id, value ? [[value, value]] : [["", "asking …"]], value ?? "");
  const fillWith = (choices) => fill(node, choices.map(([one, shown]) => element("option", { value: one }, shown)));
  listAll(`/v1/artefacts/${field.artefact}`, "artefacts").then((rows) => {
    const names = rows.filter((row) => row.current ?? row.published).map((row) => [row.name, `${row.name} (${row.current ?? row.published.version})`]);
    const before = node.value || value || names[0]?.[0] || "";
    fillWith(value ? [[value, `${value}, as now`], ...names] : names.length ? names : [["", `there is no ${field.artefact} yet`]]);
    node.value = before;
  }, () => value || fillWith([["", "the list cannot be read now"]]));
  return node;
}

/** Return the specification that the form says; fields that it does not know stay as they were. */
function read(kind, before) {
  const known = fieldsOf(kind), specification = structuredClone(before);
  specification.kind = kind;
  for (const field of known) {
    if (byId(idOf(field.name)).disabled) continue;
    const content = contentOf(field, byId(idOf(field.name)));
    const path = field.name.split("."), last = path.pop();
    if (field.kind === "bot" && content === undefined && before.bot) continue;
    const inner = path.reduce((table, part) => (table[part] ??= {}), specification);
    if (content === undefined) delete inner[last];
    else inner[last] = content;
  }
  if (specification.url) delete specification.base_url; // another word for it
  for (const table of ["price", "budget"]) if (specification[table] && !Object.keys(specification[table]).length) delete specification[table];
  return specification;
}

function contentOf(field, control) {
  if (field.kind === "flag") return control.checked || undefined;
  const written = control.value.trim();
  if (!written) return undefined;
  if (field.kind === "whole" || field.kind === "number") return Number(written);
  if (field.kind === "lines") return control.value.split("\n").map((line) => line.trim()).filter(Boolean);
  if (field.kind === "words") return written.split(",").map((word) => word.trim()).filter(Boolean);
  if (field.kind === "pairs") return Object.fromEntries(written.split("\n").filter((line) => line.trim()).map(pairOf));
  return written;
}

function pairOf(line) {
  const [name, ...rest] = line.split("="), value = rest.join("=").trim();
  try {
    return [name.trim(), JSON.parse(value)];
  } catch {
    return [name.trim(), value];
  }
}

// ── what the service has against it ───────────────────────────────────────────────────────────────────────────────────

/** Show a refusal beside the field that it is about, or below all of them. */
function showFault(error, place, kind) {
  const fault = error instanceof Problem ? faultOf(error.document, kind) : null;
  if (fault === null || !mark(idOf(fault.field), fault.message, true)) showProblem(place, error);
}

/** Return which field a refusal is about: `bot NAME, FIELD: message`, an artefact that is missing, or a host. */
function faultOf({ detail, remedy, code }, kind) {
  const names = fieldsOf(kind).map((field) => field.name);
  const [, where, message] = /^bot [^\s,:]+, ([\w.[\]]+(?:, [\w.[\]]+)*): (.*)$/s.exec(detail) ?? [];
  const told = (text) => `${text}${remedy ? `. What helps: ${remedy}` : ""}`;
  if (where !== undefined) {
    const path = where.replaceAll(/\[\d+\]/g, "").split(", "), whole = path.join(".");
    const place = /\[(\d+)\]$/.exec(where);
    const field = names.find((name) => name === whole) ?? names.find((name) => name === path[0].split(".")[0]);
    return field ? { field, message: told(place ? `line ${Number(place[1]) + 1}: ${message}` : message) } : null;
  }
  if (code === "not_allowed" && names.includes("url")) return { field: "url", message: told(detail.replace(/^bot [^:]+: /, "")) };
  if (code === "not_found") return { field: names.find((name) => ["index", "vhred", "bot"].includes(name)), message: told(detail) };
  if (/\bmode\b/.test(detail) && names.includes("mode")) return { field: "mode", message: told(detail) };
  const named = names.find((name) => new RegExp(`\\b${name.replaceAll("_", "-")}=`).test(detail));
  return named ? { field: named, message: told(detail) } : null;
}

/** Mark a field as wrong and say why below it; false, for those that wait for a yes, or where there is no such field. */
function mark(id, message, isKnown = false) {
  const control = byId(id);
  if (control === null) return false;
  clearMark(control);
  control.setAttribute("aria-invalid", "true");
  const note = element("p", { class: "bad field-fault", id: `${id}-fault` }, userText(message));
  control.closest(".field").append(note);
  control.setAttribute("aria-describedby", [`${id}-fault`, control.getAttribute("aria-describedby")].filter(Boolean).join(" "));
  const details = control.closest("details");
  if (details) details.open = true;
  control.focus();
  return isKnown;
}

function clearMark(control) {
  if (!control.hasAttribute("aria-invalid")) return;
  control.removeAttribute("aria-invalid");
  const rest = (control.getAttribute("aria-describedby") ?? "").split(" ").filter((id) => id && id !== `${control.id}-fault`).join(" ");
  if (rest) control.setAttribute("aria-describedby", rest);
  else control.removeAttribute("aria-describedby");
  byId(`${control.id}-fault`)?.remove();
}

const clearMarks = (form) => { for (const control of form.querySelectorAll("[aria-invalid]")) clearMark(control); };
