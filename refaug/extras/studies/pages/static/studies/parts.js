/** Small parts that several tabs of a study have: cards, texts to copy, and lists as CSV. */

import { element, fill } from "../dom.js";
import { copyText } from "../frame.js";

/** Return a card with a heading. */
export const card = (id, title, ...content) => element("section", { class: "card", "aria-labelledby": id }, element("h2", { id }, title), content);

/** Return a button that copies a text and says so. */
export function copyButton(label, textOf, attributes = {}) {
  const button = element("button", { type: "button", class: "small", ...attributes, onclick: async () => { button.textContent = (await copyText(textOf())) ? "Copied" : "Select it, and copy"; } }, label);
  return button;
}

const cellOf = (cell) => (/[",\r\n]/.test(String(cell)) ? `"${String(cell).replaceAll('"', '""')}"` : String(cell));

/** Return rows as CSV. */
export const csvOf = (rows) => rows.map((row) => `${row.map(cellOf).join(",")}\r\n`).join("");

/** Return a place in which the preview of a protocol stands as soon as the modules of the participants' page are here. */
export function laterPreview(protocol) {
  const place = element("div", { "aria-busy": "true" });
  import("./preview.js").then(({ previewOf }) => { fill(place, previewOf(protocol)); place.removeAttribute("aria-busy"); });
  return place;
}
