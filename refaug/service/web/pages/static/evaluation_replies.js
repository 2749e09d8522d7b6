/** The replies of an evaluation: sorting, filtering, searching, one of them in full, and notes. */

import { address, get, put } from "./api.js";
import { debounced, element, fill, printable, userText } from "./dom.js";
import { count, score } from "./format.js";
import { moment, showProblem } from "./frame.js";
import { PARTS, namesOf } from "./evaluation_systems.js";
import { blank, linkOf } from "./state.js";
import { VirtualTable } from "./virtual_table.js";

const MOST_REFERENCES = 100;
const SORTS = [["place", "as in the file"], ["score", "by the score"], ["disagreement", "by how much two metrics disagree"], ["other", "by the other score"], ["length", "by length"], ["item", "by item"]];
const MOST_METRICS = 8;

/** Return the section of replies, and `open(place)` for links from elsewhere on the page. */
export function repliesSection(evaluation, summary, { mayNote }) {
  const { metrics, systems } = summary, names = namesOf(metrics), shown = metrics.slice(0, MOST_METRICS);
  const query = { metric: 0, other: metrics.length > 1 ? 1 : null, sort: "place", order: "ascending", system: "", search: "", low: "", high: "", has_note: "" };
  const problem = element("div", { "aria-live": "polite" }), total = element("p", { class: "faint", role: "status" });
  const pathOf = (offset, limit) => {
    const parts = Object.entries(query).filter(([, text]) => text !== "" && text !== null).map(([name, text]) => `${name}=${encodeURIComponent(text)}`);
    return `/v1/evaluations/${evaluation.id}/replies?${parts.join("&")}&offset=${offset}&limit=${limit}`;
  };
  const columns = () => {
    const sorted = (sort) => (query.sort === sort ? query.order : null);
    const head = (name, className, sort, prepare = () => undefined) => ({ name, className, sort: sorted(sort), onSort: () => { const isSame = query.sort === sort; prepare(); query.order = isSame && query.order === "ascending" ? "descending" : "ascending"; query.sort = sort; controls.sort.value = sort; controls.order.value = query.order; refresh(); } });
    return [head("Item", "name", "item"), { name: "System", className: "name" }, { name: "Reply", className: "text" },
      ...shown.map((_, place) => (place === query.metric ? head(names[place], "number", "score") : { name: names[place], className: "number", onSort: () => { query.metric = place; if (query.other === place) query.other = metrics.findIndex((__, other) => other !== place); controls.metric.value = String(place); if (query.other !== null) controls.other.value = String(query.other); query.sort = "score"; query.order = "ascending"; controls.sort.value = "score"; controls.order.value = "ascending"; refresh(); } })),
      ...(metrics.length > 1 ? [head("Disagree", "number", "disagreement")] : []), { name: "Note", className: "note" }];
  };
  const table = new VirtualTable({
    label: "Replies",
    load: async (offset, limit) => { const page = await get(pathOf(offset, limit)); showProblem(problem, null); return { rows: page.replies, total: page.total }; },
    draw: (row) => [printable(row.item), printable(row.system), printable(row.reply), ...shown.map((_, place) => score(row.scores[place])),
      ...(metrics.length > 1 ? [typeof row.disagreement === "number" ? row.disagreement.toFixed(2) : "–"] : []), row.has_note ? "✎" : ""],
    open: (row, position) => openReply(row.place, position),
    onProblem: (error) => showProblem(problem, error),
    onTotal: (number) => { total.textContent = number ? `${count(number)} repl${number === 1 ? "y" : "ies"}. The arrow keys move, Enter opens a reply in full.` : "No reply is like this. Take a filter away to see more."; table.node.hidden = !number; },
  });
  const refresh = () => { table.setColumns(columns()); table.reset(); };
  const control = (id, label, node) => element("div", {}, element("label", { for: id }, label), node);
  const select = (id, choices, name, value) => {
    const node = element("select", { id, onchange: () => { query[name] = name === "metric" || name === "other" ? Number(node.value) : node.value; refresh(); } }, choices.map(([choice, label]) => element("option", { value: choice }, label)));
    node.value = value;
    return node;
  };
  const typed = (id, name, attributes) => {
    const later = debounced(() => { query[name] = node.value.trim(); refresh(); }, 250);
    const node = element("input", { id, autocomplete: "off", spellcheck: "false", oninput: later, ...attributes });
    return node;
  };
  const places = names.map((name, place) => [String(place), name]);
  const controls = {
    search: typed("reply-search", "search", { type: "search", maxlength: 200 }),
    system: select("reply-system", [["", "all"], ...systems.map((system) => [system, printable(system)])], "system", ""),
    sort: select("reply-sort", SORTS.filter(([sort]) => metrics.length > 1 || !["disagreement", "other"].includes(sort)), "sort", "place"),
    order: select("reply-order", [["ascending", "upwards"], ["descending", "downwards"]], "order", "ascending"),
    metric: select("reply-metric", places, "metric", "0"),
    other: metrics.length > 1 ? select("reply-other", places, "other", "1") : null,
    low: typed("reply-low", "low", { type: "number", step: "any" }),
    high: typed("reply-high", "high", { type: "number", step: "any" }),
    noted: select("reply-noted", [["", "all"], ["true", "only with a note"], ["false", "only without"]], "has_note", ""),
  };
  const dialog = element("dialog", { class: "wide", id: "reply-dialog", "aria-labelledby": "reply-title" });
  dialog.addEventListener("close", () => { if (location.hash !== hashOf(null)) history.replaceState(null, "", hashOf(null)); table.node.focus({ preventScroll: true }); });
  const hashOf = (place) => `#e=${evaluation.id}${place === null ? "" : `&reply=${place}`}`;

  async function openReply(place, position = null) {
    const content = element("div", { "aria-busy": "true" }, element("p", { class: "faint" }, "asking …"));
    const step = (by, label) => position !== null && element("button", { type: "button", class: "small", disabled: position + by < 0 || position + by >= table.total, onclick: () => table.go(position + by) }, label);
    fill(dialog, element("div", { class: "row apart" }, element("h2", { id: "reply-title" }, `Reply ${count(place + 1)}`), element("span", { class: "row" }, step(-1, "Previous"), step(1, "Next"), element("button", { type: "button", class: "small", onclick: () => dialog.close() }, "Close"))), content);
    if (!dialog.open) dialog.showModal();
    history.replaceState(null, "", hashOf(place));
    try {
      const reply = await get(`/v1/evaluations/${evaluation.id}/replies/${place}`);
      if (content.isConnected) fill(content, fullReply(reply));
    } catch (error) {
      showProblem(content, error);
    }
    content.removeAttribute("aria-busy");
  }

  function fullReply(reply) {
    const turns = reply.turns?.length ? reply.turns : [reply.utterance].filter((turn) => turn !== null && turn !== undefined);
    const golds = reply.references.filter((reference) => (reference.source ?? "gold") === "gold");
    const playground = linkOf({ ...blank(), turns: turns.length ? turns : [""], gold: golds.map((reference) => reference.text.replaceAll("\n", " ")).join("\n"), replies: [reply.reply, ...reply.others.map((other) => other.reply)].slice(0, 10) }, address("/"));
    return [
      element("dl", { class: "facts" }, element("dt", {}, "Item"), element("dd", {}, userText(reply.item)), element("dt", {}, "System"), element("dd", {}, userText(reply.system)),
        turns.map((turn, at) => [element("dt", {}, turns.length > 1 ? `Turn ${at + 1}` : "Utterance"), element("dd", {}, userText(turn))]), element("dt", {}, "Reply"), element("dd", {}, element("strong", {}, userText(reply.reply)))),
      element("h3", {}, "Scores"),
      element("div", { class: "scroll" }, element("table", {}, element("thead", {}, element("tr", {}, element("th", { scope: "col" }, "Metric"), element("th", { scope: "col", class: "number" }, userText(reply.system)), reply.others.map((other) => element("th", { scope: "col", class: "number" }, userText(other.system))))),
        element("tbody", {}, reply.scores.map((row, at) => element("tr", {}, element("th", { scope: "row", title: printable(row.signature ?? "") }, names[at] ?? row.metric), element("td", { class: "number", dataset: { name: printable(reply.system) } }, element("b", {}, score(row.score)), row.problem && element("div", { class: "warn" }, userText(row.message ?? row.problem))), reply.others.map((other) => element("td", { class: "number", dataset: { name: printable(other.system) } }, score(other.scores[at])))))))),
      reply.scores.filter((row) => row.metric.startsWith("refaug-1") && row.parts).map((row) => [element("h3", {}, `Parts of ${row.metric}`), element("dl", { class: "facts-line" }, PARTS.filter(([part]) => typeof row.parts[part] === "number").map(([part, name]) => element("div", {}, element("dt", {}, name), element("dd", {}, score(row.parts[part])))))]),
      reply.others.length > 0 && [element("h3", {}, "Replies of other systems"), element("dl", { class: "facts" }, reply.others.map((other) => [element("dt", {}, userText(other.system)), element("dd", {}, userText(other.reply))]))],
      reply.references.length > 0 && [element("h3", {}, "References"), element("div", {}, referencesTable(reply.references))],
      element("p", { class: "row" }, element("a", { href: playground }, "See in the playground why")),
      noteForm(reply),
    ];
  }

  function noteForm(reply) {
    if (!mayNote) return null;
    const state = element("p", { class: "faint", role: "status" }, reply.note?.author ? ["by ", userText(reply.note.author), ", "] : "", reply.note ? moment(reply.note.changed) : "");
    const area = element("textarea", { id: "note-text", rows: 3, maxlength: 4_000, dir: "auto" }), trouble = element("div", { "aria-live": "assertive" });
    area.value = reply.note?.text ?? "";
    return element("form", { id: "note-form", onsubmit: async (event) => {
      event.preventDefault();
      try {
        const note = await put(`/v1/evaluations/${evaluation.id}/notes/${reply.place}`, { text: area.value });
        fill(state, note.text ? "The note is kept with the evaluation." : "There is no note any more.");
        showProblem(trouble, null);
        table.change((row) => row.place === reply.place, { has_note: Boolean(note.text) });
      } catch (error) {
        showProblem(trouble, error);
      }
    } }, element("label", { for: "note-text" }, "Note"), area, state, trouble, element("div", { class: "row" }, element("button", { type: "submit" }, "Keep the note")));
  }

  refresh();
  const section = element("div", { id: "replies-section" },
    element("div", { class: "tools-row" }, control("reply-search", "Search", controls.search), control("reply-system", "System", controls.system), control("reply-sort", "Sort", controls.sort), control("reply-order", "Order", controls.order)),
    element("details", {}, element("summary", {}, "Further filters"), element("div", { class: "tools-row" }, control("reply-metric", "Metric", controls.metric), controls.other && control("reply-other", "It is set against", controls.other), control("reply-low", "Score from", controls.low), control("reply-high", "to", controls.high), control("reply-noted", "Notes", controls.noted))),
    metrics.length > 1 && element("div", { class: "row hint" }, element("button", { type: "button", id: "most-disagreement", onclick: () => { Object.assign(query, { sort: "disagreement", order: "descending" }); controls.sort.value = "disagreement"; controls.order.value = "descending"; refresh(); } }, "Where two metrics disagree most"), element("span", { class: "faint" }, `compares the ranks that ${names[0]} and ${names[1]}, or two others chosen under “Further filters”, give the replies`)),
    metrics.length > shown.length && element("p", { class: "faint" }, `The first ${shown.length} of ${metrics.length} metrics have columns; a reply in full has all scores.`),
    problem, total, table.node, dialog);
  return { section, openReply, again: () => table.again() };
}

function referencesTable(references, most = 10) {
  const hasSimilarity = references.some((reference) => typeof reference.similarity === "number");
  return [element("div", { class: "scroll" }, element("table", {}, element("thead", {}, element("tr", {}, element("th", { scope: "col", class: "number" }, "Weight"), hasSimilarity && element("th", { scope: "col", class: "number" }, "Similarity"), element("th", { scope: "col" }, "From"), element("th", { scope: "col" }, "Text"))),
    element("tbody", {}, references.slice(0, most).map((reference) => element("tr", {}, element("td", { class: "number", dataset: { name: "Weight" } }, score(reference.weight)), hasSimilarity && element("td", { class: "number", dataset: { name: "Similarity" } }, score(reference.similarity)), element("td", { dataset: { name: "From" } }, printable(reference.source ?? "gold")), element("td", { dataset: { name: "Text" } }, userText(reference.text))))))),
  references.length > most && (most < MOST_REFERENCES ? element("button", { type: "button", class: "small", onclick: (event) => fill(event.target.parentNode, referencesTable(references, MOST_REFERENCES)) }, references.length > MOST_REFERENCES ? `Show ${MOST_REFERENCES}` : `Show all ${count(references.length)}`)
    : element("p", { class: "faint" }, `and ${count(references.length - most)} more`))];
}
