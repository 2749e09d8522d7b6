/** The dry run of the chosen files, and the form that starts an evaluation of them. */

import { get, listAll, post } from "./api.js";
import { byId, debounced, element, fill, userText } from "./dom.js";
import { chosen, inputs, loadEarlier, setUpFiles, showFiles, showMapping, showUnrecognised } from "./evaluate_files.js";
import { count, score } from "./format.js";
import { showProblem } from "./frame.js";
import { RETRIEVAL } from "./settings.js";
import { DEFAULT_RETRIEVAL, retrievalOf } from "./state.js";

const OFFERED = [["refaug-1", "recommended: golds, turns, and what the index has"], ["bleu", "the first gold"], ["multi-bleu", "all golds"], ["upsilon-bleu", "the gold and what is found in the log"], ["chrf", "letters"], ["rouge-l", "longest common words"], ["rater", "the network alone"]];
let catalogue = { metrics: [], indexes: [], raters: [], recommended: {} }, retrieval = { ...DEFAULT_RETRIEVAL }, asking = new AbortController(), started = () => undefined;

// ── dry run ───────────────────────────────────────────────────────────────────────────────────────────────────────────

/** Ask how refaug reads the files, and show it. */
async function dryRun() {
  asking.abort();
  asking = new AbortController();
  const place = byId("preview"), form = byId("score-form"), files = inputs();
  showProblem(byId("start-problem"), null);
  if (typeof files === "string") {
    form.hidden = true;
    showMapping(null);
    fill(place, chosen.files.length > 0 && element("p", { class: "notice" }, `Next: ${files}.`));
    return;
  }
  place.setAttribute("aria-busy", "true");
  try {
    const seen = await post("/v1/uploads/preview", files, { signal: asking.signal });
    showMapping(seen.table);
    fill(place, previewOf(seen));
    form.hidden = !seen.counts.items;
    if (seen.counts.items) showForm(seen);
  } catch (error) {
    if (error.name === "AbortError") return;
    form.hidden = true;
    showProblem(place, error);
    await showUnrecognised();
    // The remedy names options of the command; here the form above is the remedy.
    if (byId("mapping").firstChild && /no column is called/.test(error.document?.detail ?? "")) {
      fill(place, element("p", { class: "notice" }, "Next: say above what each column holds. At least one holds replies, and one gold replies or utterances."), element("p", { class: "faint" }, userText(error.document.detail)));
    }
  }
  place.removeAttribute("aria-busy");
}

function previewOf({ items, counts, systems, bad_rows: bad, more_bad_rows: more, warnings }) {
  const sum = [`${count(counts.items)} item${counts.items === 1 ? "" : "s"}`, `${count(counts.replies)} repl${counts.replies === 1 ? "y" : "ies"} of ${count(systems.length)} system${systems.length === 1 ? "" : "s"}`, counts.ratings > 0 && `${count(counts.ratings)} ratings`, counts.bad > 0 && `${count(counts.bad)} bad row${counts.bad === 1 ? "" : "s"}`].filter(Boolean).join(", ");
  return [
    element("h3", {}, "As refaug reads it"),
    element("p", {}, element("b", {}, counts.is_partial ? `${sum} so far` : sum), counts.is_partial ? ": the beginning was read; the evaluation reads all of it." : "."),
    warnings.length > 0 && element("div", { class: "notice warn" }, element("ul", {}, warnings.map((warning) => element("li", {}, userText(warning))))),
    badRows(bad, more),
    counts.items === 0 && element("p", { class: "notice bad" }, "No item could be read. Say above what the columns hold, or mend the rows."),
    items.length > 0 && element("ol", { class: "plain items" }, itemOf(items[0])), // the form below has to be in sight
    items.length > 1 && element("details", {}, element("summary", {}, items.length === 2 ? "One more item" : `${items.length - 1} more items`), element("ol", { class: "plain items", start: 2 }, items.slice(1).map(itemOf))),
  ];
}

/** Return the rows that could not be read, with their places; null where there is none. */
export function badRows(rows, more) {
  if (!rows.length) return null;
  const names = ["File", "Line", "Item", "Field", "What is wrong"], texts = (row) => [row.file, row.line, row.item, row.field, row.message];
  return element("details", { open: rows.length <= 10 }, element("summary", { class: "warn" }, `${count(rows.length + (more ?? 0))} bad row${rows.length + (more ?? 0) === 1 ? " is" : "s are"} left out; the rest goes on`),
    element("div", { class: "scroll" }, element("table", {}, element("thead", {}, element("tr", {}, names.map((name) => element("th", { scope: "col" }, name)))),
      element("tbody", {}, rows.map((row) => element("tr", {}, texts(row).map((text, place) => element("td", { dataset: { name: names[place] } }, text === null || text === undefined ? "–" : typeof text === "number" ? count(text) : userText(text)))))))),
    more > 0 && element("p", { class: "faint" }, `and ${count(more)} more`));
}

function itemOf(item) {
  const turns = item.turns?.length ? item.turns : [item.utterance];
  const lines = [...turns.filter((turn) => turn !== null && turn !== undefined).map((turn, at, all) => [at === all.length - 1 ? "utterance" : "earlier turn", turn]), ...item.references.slice(0, 3).map((reference) => [typeof reference.weight === "number" && reference.weight !== 1 ? `gold (${score(reference.weight)})` : "gold", reference.text]),
    ...Object.entries(item.replies).slice(0, 6).flatMap(([system, replies]) => [replies].flat().slice(0, 2).map((reply) => [system, reply]))];
  return element("li", {}, element("div", { class: "faint" }, userText(item.id)), element("dl", { class: "facts" }, lines.map(([name, text]) => [element("dt", {}, userText(name)), element("dd", {}, userText(text))])));
}

// ── the order ─────────────────────────────────────────────────────────────────────────────────────────────────────────

const field = (id, label, control, help) => element("div", { class: "field" }, element("label", { for: id }, label), control, help && element("p", { class: "faint" }, help));
const select = (id, choices) => element("select", { id }, choices.map(([value, label]) => element("option", { value }, label)));

function showForm(seen) {
  const form = byId("score-form"), before = form.firstChild ? read() : null;
  const hasGold = seen.items.some((item) => item.references.length > 0), hasIndex = catalogue.indexes.length > 0, hasRater = catalogue.raters.length > 0;
  const recommended = catalogue.recommended[catalogue.indexes[0]] ?? null;
  const suits = { "refaug-1": recommended !== null, bleu: hasGold, "multi-bleu": hasGold, chrf: hasGold, "rouge-l": hasGold, "upsilon-bleu": hasIndex, rater: hasRater && hasGold };
  const preset = new Set(["refaug-1", "multi-bleu", "upsilon-bleu", "rater"].filter((name) => suits[name]));
  const boxes = OFFERED.filter(([name]) => suits[name]).map(([name, words]) => {
    const value = name === "refaug-1" ? recommended : name, box = element("input", { type: "checkbox", name: "metric", value });
    box.checked = before === null ? preset.has(name) : before.metrics.includes(value);
    return element("label", { class: "inline" }, box, element("span", {}, element("b", {}, value), element("span", { class: "faint" }, ` ${words}`)));
  });
  const more = element("input", { id: "more-metrics", spellcheck: "false", autocomplete: "off", list: "metric-names", placeholder: "upsilon-chrf greedy:vectors=NAME" });
  const hasRatings = seen.counts.ratings > 0;
  const kind = hasRatings && select("order-kind", [["score", "score the replies"], ["meta", "compare metrics with the ratings"]]);
  const baseline = select("baseline", [["", "none"], ...seen.systems.map((system) => [system, system])]);
  const versions = (plural) => [...catalogue[plural].map((name) => [name, name]), ["", "none"]];
  fill(form,
    element("h3", {}, "What to do with it"),
    element("div", { class: "fields" },
      hasRatings && field("order-kind", "Task", kind, "There are ratings: metrics can be compared with them."),
      field("order-name", "Name (may be left out)", element("input", { id: "order-name", maxlength: 200, autocomplete: "off" })),
      seen.systems.length > 1 && element("div", { class: "field", id: "baseline-field" }, element("label", { for: "baseline" }, "Compare all systems with"), baseline),
      hasIndex && field("order-index", "Index", select("order-index", versions("indexes"))), hasRater && field("order-rater", "Rater", select("order-rater", versions("raters")))),
    element("fieldset", {}, element("legend", {}, "Metrics"), boxes.length ? element("div", { class: "choices" }, boxes) : element("p", { class: "faint" }, "Without golds, index and rater no common metric has anything to look at; name one below.")),
    element("div", { class: "fields" }, element("div", { class: "field wide-field" }, element("label", { for: "more-metrics" }, "Further metrics, as the command names them"), more, element("datalist", { id: "metric-names" }, catalogue.metrics.map((metric) => element("option", { value: metric.name }))))),
    element("details", {}, element("summary", {}, "Further settings"), element("div", { class: "fields" },
      field("order-draws", "Draws of the bootstrap", element("input", { id: "order-draws", type: "number", min: 0, max: 100_000, step: 1, placeholder: "1000" }), "0: no intervals"),
      field("order-confidence", "Confidence", element("input", { id: "order-confidence", type: "number", min: 0.5, max: 0.999, step: "any", placeholder: "0.95" })),
      field("order-seed", "Seed", element("input", { id: "order-seed", type: "number", min: 0, step: 1, placeholder: "1" })),
      field("order-language", "Language (en, ja, …)", element("input", { id: "order-language", maxlength: 40, autocomplete: "off" })),
      hasIndex && Object.entries(RETRIEVAL).map(([name, [label, choices]]) => {
        const control = select(`retrieval-${name}`, choices);
        control.value = retrieval[name];
        control.addEventListener("change", () => { retrieval[name] = control.value; });
        return field(`retrieval-${name}`, label, control);
      }))),
    element("div", { class: "row start-row" }, element("button", { type: "submit", class: "primary", id: "start-button" }, "Start")));
  baseline.value = seen.systems[0] ?? "";
  if (before !== null) restore(before);
  const showKind = () => { if (byId("baseline-field")) byId("baseline-field").hidden = byId("order-kind")?.value === "meta"; };
  kind && kind.addEventListener("change", showKind);
  showKind();
}

const KEPT = ["order-kind", "order-name", "baseline", "order-index", "order-rater", "more-metrics", "order-draws", "order-confidence", "order-seed", "order-language"];
const read = () => ({ metrics: [...document.querySelectorAll("#score-form [name=metric]:checked")].map((box) => box.value), fields: Object.fromEntries(KEPT.map((id) => [id, byId(id)?.value ?? ""])) });
function restore(before) {
  for (const [id, text] of Object.entries(before.fields)) {
    const control = byId(id);
    if (control && (control.tagName !== "SELECT" || [...control.options].some((option) => option.value === text))) control.value = text;
  }
}

/** Return whether a metric looks at references that are found and weighed; those weighed by people, as of delta-bleu, come with the file. A key that may not read the catalogue goes by the name. */
function usesFound(metric) {
  const name = metric.split(":")[0], about = catalogue.metrics.find((row) => row.name === name);
  return about ? about.references === "weighted" : name === "refaug-1" || name.startsWith("upsilon-");
}

function orderOf(files) {
  const { metrics, fields } = read(), isMeta = fields["order-kind"] === "meta";
  const text = (id) => fields[id].trim() || undefined, number = (id) => (fields[id] === "" ? undefined : Number(fields[id]));
  const asked = [...metrics, ...fields["more-metrics"].split(/[\s;]+/).filter(Boolean)];
  // An index that no metric looks at is an error of the order, not a setting without effect.
  const looksFurther = asked.some((metric) => usesFound(metric)), isRecommended = asked.some((metric) => metric.split(":")[0] === "refaug-1");
  const asksRater = (looksFurther && !isRecommended) || asked.some((metric) => metric.split(":")[0] === "rater");
  const settings = looksFurther ? retrievalOf({ retrieval }, catalogue.recommended[fields["order-index"]] ?? null, isRecommended) : {};
  const common = { name: text("order-name"), metrics: asked.length ? asked : undefined, index: looksFurther ? text("order-index") : undefined, rater: asksRater ? text("order-rater") : undefined, settings: Object.keys(settings).length ? settings : undefined, draws: number("order-draws"), confidence: number("order-confidence"), seed: number("order-seed"), language: text("order-language") };
  if (!isMeta) return { kind: "score", ...files, ...common, baseline: text("baseline") };
  const { items, ...how } = files;
  return { kind: "meta", data: [items], ...how, ...common };
}

async function begin(event) {
  event.preventDefault();
  const files = inputs(), button = byId("start-button");
  if (typeof files === "string") return;
  button.disabled = true;
  showProblem(byId("start-problem"), null);
  try {
    const evaluation = await post("/v1/evaluations", orderOf(files));
    Object.assign(chosen, { files: [], map: null, shape: "", encoding: "" });
    showFiles();
    fill(byId("preview"));
    showMapping(null);
    byId("score-form").hidden = true;
    started(evaluation);
  } catch (error) {
    showProblem(byId("start-problem"), error);
  }
  button.disabled = false;
}

/** Ask what can be chosen; a key that may not read lists leaves the fields out. */
export async function loadChoices() {
  const stored = (kind) => listAll(`/v1/artefacts/${kind}`, "artefacts", 200).then((rows) => rows.filter((row) => row.current ?? row.published ?? true)).catch(() => []);
  const [ready, metrics, indexes, raters] = await Promise.all([get("/readyz").catch(() => ({ versions: {} })), get("/v1/metrics").then((answer) => answer.metrics).catch(() => []), stored("index"), stored("rater")]);
  const servedFirst = (kind, all) => [...new Set([...Object.keys(ready.versions[kind] ?? {}), ...all.map((row) => row.name)])];
  catalogue = { metrics, indexes: servedFirst("index", indexes), raters: servedFirst("rater", raters), recommended: Object.fromEntries(indexes.map((row) => [row.name, row.published?.metric ?? null])) };
  await loadEarlier();
}

/** Set up the form; `onStart(evaluation)` hears what has been started. */
export function setUpOrder(onStart) {
  started = onStart;
  setUpFiles(debounced(dryRun, 150));
  byId("score-form").addEventListener("submit", begin);
}
