/** Title, consent and guidelines in further languages, which participants choose among. */

import { element, fill } from "../../dom.js";
import { area, field, text } from "../fields.js";
import { templateOf } from "../templates.js";

let last = 0;

/** Return the editor of further languages; `translations` returns what is written, as a protocol has it. */
export function translationEditor(onChange) {
  const list = element("div", { id: "translations" });
  let cards = [];
  const draw = () => { fill(list, cards.map((card) => card.node)); onChange(); };
  const add = (language = "", words = {}) => {
    const id = `language-${last += 1}`, tag = text({ value: language, maxlength: 12, required: true, spellcheck: "false", list: "languages" }), title = text({ maxlength: 200, value: words.title ?? "" }), consent = area(words.consent ?? "", { rows: 6 }), guidelines = area(words.guidelines ?? "");
    tag.addEventListener("change", () => { const template = templateOf(tag.value || "-"); for (const [name, input] of Object.entries({ title, consent, guidelines })) if (!input.value.trim()) input.value = template[name]; onChange(); });
    const card = { tag, title, consent, guidelines, node: element("fieldset", { class: "question-card" }, element("legend", {}, "A further language"), element("div", { class: "fields study-fields" }, field(id, "Language", tag, "such as en or de"), field(`${id}-title`, "Title", title), field(`${id}-consent`, "Consent in this language", consent, null, { isWide: true }), field(`${id}-guidelines`, "What to do, in this language", guidelines, null, { isWide: true })),
      element("div", { class: "row" }, element("button", { type: "button", class: "small danger", onclick: () => { cards = cards.filter((one) => one !== card); draw(); } }, "Remove"))) };
    cards.push(card);
    draw();
    return card;
  };
  const more = element("button", { type: "button", id: "add-language", onclick: () => add().tag.focus() }, "Add a language");
  return {
    node: element("div", { class: "wide-field" }, list, element("div", { class: "row start-row" }, more)),
    set: (translations) => { cards = []; Object.entries(translations).forEach(([language, words]) => add(language, words)); draw(); },
    translations: () => Object.fromEntries(cards.map(({ tag, ...fields }) => [tag.value.trim(), Object.fromEntries(["title", "consent", "guidelines"].map((name) => [name, fields[name].value]).filter(([, words]) => words.trim()))])),
  };
}
