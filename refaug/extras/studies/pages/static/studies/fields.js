/** Fields of the studies' forms, and small parts that several of their sections have. */

import { element } from "../dom.js";

/** Return a labelled control with a line of help. */
export function field(id, label, control, help = null, { isWide = false } = {}) {
  control.id = id;
  if (help) control.setAttribute("aria-describedby", `${id}-help`);
  return element("div", { class: isWide ? "field wide-field" : "field" }, element("label", { for: id }, label), control, help && element("p", { class: "faint", id: `${id}-help` }, help));
}

/** Return the columns and rows of a table without the columns that have nothing but dashes. */
export function withoutDashes(columns, rows) {
  const isShown = (_, place) => rows.some((row) => row[place] !== "–");
  return [columns.filter(isShown), rows.map((row) => row.filter(isShown))];
}

export const text = (attributes = {}) => element("input", { type: "text", autocomplete: "off", ...attributes });
export const number = (value, least, most, attributes = {}) => element("input", { type: "number", value: value ?? "", min: least, max: most, step: 1, ...attributes });
export const area = (value = "", attributes = {}) => { const node = element("textarea", { rows: 4, dir: "auto", ...attributes }); node.value = value; return node; };
export const select = (choices, attributes = {}) => element("select", attributes, choices.map(([value, shown]) => element("option", { value }, shown)));

/** Return a box with its label; `box.input` is the control. */
export function box(id, label, isChecked = false) {
  const input = element("input", { type: "checkbox", id, checked: isChecked });
  return Object.assign(element("label", { class: "inline", for: id }, input, label), { input });
}

/** Return a table with a caption for screen readers; cells of `rows` are nodes or texts. */
export function table(names, rows, { id = null, isNumber = () => false } = {}) {
  return element("div", { class: "scroll" }, element("table", { id },
    element("thead", {}, element("tr", {}, names.map((name, place) => element("th", { scope: "col", class: isNumber(place) ? "number" : null }, name || element("span", { class: "visually-hidden" }, "Acts"))))),
    element("tbody", {}, rows.map((cells) => element("tr", {}, cells.map((cell, place) => (place === 0
      ? element("th", { scope: "row" }, cell)
      : element("td", { dataset: { name: names[place] }, class: names[place] === "" ? "actions" : isNumber(place) ? "number" : null }, cell))))))));
}

export const figure = (value, digits = 2) => (typeof value === "number" ? value.toFixed(digits).replace("-", "−") : "–");

/** Let the browser keep a text as a file. */
export function saveText(content, name, type = "text/plain") {
  const link = element("a", { href: URL.createObjectURL(content instanceof Blob ? content : new Blob([content], { type })), download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}
