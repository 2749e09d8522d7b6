/** Tables: columns of numbers stand to the right, wherever a table is made, and a table that is wider than its card scrolls in it. */

import { element } from "../dom.js";
import { count } from "../format.js";

const NUMBER = /^[<≤>≥~]?\s?[+−-]?[\d.,\u00a0\u202f]+\s?(%|‰|×|k?B|[MGT]B|ms|s|min|h|days?)?(\s\d+\s?(s|min|h))?$/u;
const NOTHING = /^[–—-]?$/u;

/** Return whether the cells of a column are numbers: all that hold anything, and at least one of them. */
function isColumnOfNumbers(cells) {
  let isFound = false;
  for (const cell of cells) {
    const text = cell.textContent.trim();
    if (NOTHING.test(text)) continue;
    if (cell.tagName === "TH" || !NUMBER.test(text) || cell.querySelector("bdi, button, input, select, time")) return false;
    isFound = true;
  }
  return isFound;
}

/** Mark the columns of numbers of a table, heads included; columns that are marked already stay so. */
export function alignNumbers(table) {
  const heads = [...(table.tHead?.rows ?? [])].filter((row) => [...row.cells].every((cell) => cell.colSpan === 1)).at(-1);
  if (!heads) return;
  const rows = [...table.tBodies].flatMap((body) => [...body.rows]).filter((row) => row.cells.length === heads.cells.length);
  [...heads.cells].forEach((head, place) => {
    const cells = rows.map((row) => row.cells[place]);
    const isMarked = head.classList.contains("number") || cells.some((cell) => cell.classList.contains("number"));
    if (!isMarked && !isColumnOfNumbers(cells)) return;
    for (const cell of [head, ...cells]) if (!cell.classList.contains("actions")) cell.classList.add("number");
  });
}

// A part that scrolls is reached by the Tab key; one that does not is no stop on the way.
const watched = new WeakSet();
const sizes = new ResizeObserver((entries) => new Set(entries.map((entry) => entry.target.closest(".scroll"))).forEach(markScrolling));

function markScrolling(box) {
  if (box === null) return;
  if (box.scrollWidth > box.clientWidth) box.tabIndex = 0;
  else box.removeAttribute("tabindex");
}

function setUpTable(table) {
  alignNumbers(table);
  if (watched.has(table)) return;
  watched.add(table);
  const box = table.closest(".scroll");
  if (box === null) return;
  box.setAttribute("role", "group");
  box.setAttribute("aria-label", table.caption?.textContent || table.closest("section, figure, details")?.querySelector("h2, h3, b, summary")?.textContent || "Table");
  sizes.observe(table);
  sizes.observe(box);
  markScrolling(box); // the observer speaks with the next frame, and a table that replaces another is there at once
}

/** Look after the tables below an element: those that are there, and those that come or change. */
export function watchTables(place) {
  for (const table of place.querySelectorAll("table")) setUpTable(table);
  new MutationObserver((changes) => {
    const changed = new Set();
    for (const change of changes) {
      const table = change.target.closest?.("table");
      if (table) changed.add(table);
      else for (const node of change.addedNodes) if (node.nodeType === Node.ELEMENT_NODE) for (const one of node.matches("table") ? [node] : node.querySelectorAll("table")) changed.add(one);
    }
    changed.forEach(setUpTable);
  }).observe(place, { childList: true, subtree: true });
}

/**
 * Return a table in a part that scrolls. A column is its name, or `{name, isNumber, isMinor, title}`: phones leave minor
 * columns out, and the column without a name has what can be done. The first cell of a row names the row.
 */
export function table(columns, rows, { id = null, caption = null, most = Infinity } = {}) {
  const named = columns.map((column) => (typeof column === "string" ? { name: column } : column));
  const className = ({ name, isNumber, isMinor }) => [name === "" && "actions", isNumber && "number", isMinor && "minor"].filter(Boolean).join(" ") || null;
  return element("div", { class: "scroll" }, element("table", { id },
    caption && element("caption", { class: "visually-hidden" }, caption),
    element("thead", {}, element("tr", {}, named.map((column) => element("th", { scope: "col", class: className(column), title: column.title ?? null }, column.name || element("span", { class: "visually-hidden" }, "Acts"))))),
    element("tbody", {}, rows.slice(0, most).map((cells) => element("tr", {}, cells.map((cell, place) => (place === 0
      ? element("th", { scope: "row" }, cell)
      : element("td", { dataset: { name: named[place].name }, class: className(named[place]) }, cell))))))),
  rows.length > most && element("p", { class: "faint" }, `the first ${count(most)} of ${count(rows.length)} rows`));
}
