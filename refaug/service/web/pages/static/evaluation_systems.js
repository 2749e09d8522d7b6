/** The systems of an evaluation: scores with intervals, paired differences, distributions, and any two metrics against each other. */

import { get } from "./api.js";
import { histogramFigure, intervalFigure, scatterFigure, SERIES } from "./charts.js";
import { element, fill, printable, userText } from "./dom.js";
import { count, score, signed } from "./format.js";
import { showProblem } from "./frame.js";

const interval = (pair) => (pair ? `${score(pair[0])} to ${score(pair[1])}` : "–");
/** Return the name of a metric, and of several with one name the settings that tell them apart. */
export function namesOf(metrics) {
  const short = metrics.map((metric) => metric.metric);
  return short.map((name, place) => {
    if (short.filter((other) => other === name).length === 1) return name;
    const parts = metrics[place].signature.split("|").filter((part) => !part.startsWith("full:") && !part.startsWith("refaug:"));
    const alike = metrics.filter((_, other) => short[other] === name && other !== place).map((metric) => new Set(metric.signature.split("|")));
    const own = parts.slice(1).filter((part) => alike.some((signature) => !signature.has(part)));
    return own.length ? `${name} (${own.join(", ")})` : `${name} (${place + 1})`;
  });
}

/** Return the table of all systems under all metrics. */
export function systemsTable({ systems, metrics }) {
  const names = namesOf(metrics);
  const best = metrics.map((metric) => metric.systems.reduce((top, row) => (row.corpus !== null && (top === null || (row.corpus > top) === metric.higher_is_better) ? row.corpus : top), null));
  const cell = (metric, system, place) => {
    const row = metric.systems.find((candidate) => candidate.system === system);
    if (!row) return "–";
    const reasons = Object.entries(row.unscored_by_reason ?? {}).map(([code, number]) => `${count(number)} ${code.replaceAll("_", " ")}`).join(", ");
    return [element(row.corpus !== null && row.corpus === best[place] && systems.length > 1 ? "b" : "span", { class: "figures" }, score(row.corpus)), row.interval && element("div", { class: "faint" }, `[${interval(row.interval)}]`), row.interval_note && element("div", { class: "faint" }, userText(row.interval_note)), row.unscored > 0 && element("div", { class: "warn" }, `${count(row.unscored)} without a score${reasons ? `: ${reasons}` : ""}`)];
  };
  return element("div", { class: "scroll" }, element("table", { id: "systems-table" },
    element("caption", { class: "visually-hidden" }, "Corpus scores of all systems with their intervals"),
    element("thead", {}, element("tr", {}, element("th", { scope: "col" }, "System"), metrics.map((metric, place) => element("th", { scope: "col", class: "number", title: printable(metric.signature) }, names[place], metric.higher_is_better ? "" : " (less is better)")))),
    element("tbody", {}, systems.map((system) => element("tr", {}, element("th", { scope: "row" }, userText(system)), metrics.map((metric, place) => element("td", { class: "number", dataset: { name: names[place] } }, cell(metric, system, place))))))));
}

/** The parts of the recommended metric with their names. */
export const PARTS = [["gold", "Like a gold"], ["words", "Words of a gold"], ["turn", "Like the last turn"], ["turns", "Like the last three turns"], ["retrieved", "Like what people answered"], ["copied", "Copied from a turn"], ["order", "Order of its words"]];

/** Return a table of what the recommended metric is made of, in the mean of each system's replies; null without it. */
export function partsTable({ metrics }) {
  return metrics.filter((metric) => metric.systems.some((row) => row.parts)).map((metric) => {
    const parts = PARTS.filter(([part]) => metric.systems.some((row) => typeof row.parts?.[part] === "number"));
    return [element("h3", {}, `Parts of ${metric.metric}`), element("p", { class: "faint" }, "Means over the replies. For likeness more is better, but likeness to the turns only up to that of true replies; copying and an odd order only take off."),
      element("div", { class: "scroll" }, element("table", { class: "parts-table" },
        element("caption", { class: "visually-hidden" }, `Means of the parts of ${metric.metric} by system`),
        element("thead", {}, element("tr", {}, ["System", "Score", ...parts.map(([, name]) => name)].map((name, place) => element("th", { scope: "col", class: place ? "number" : "" }, name)))),
        element("tbody", {}, metric.systems.map((row) => element("tr", {}, element("th", { scope: "row" }, userText(row.system)), element("td", { class: "number" }, score(row.mean)), parts.map(([part]) => element("td", { class: "number" }, score(row.parts?.[part]))))))))];
  });
}

/** Return whether a difference is shown, in words and with the sign of its colour. */
export function verdict(comparison, higherIsBetter) {
  if (comparison.difference === null || comparison.is_shown === null) return ["no test", "unclear"];
  if (!comparison.is_shown) return ["not shown", "unclear"];
  return (comparison.difference > 0) === higherIsBetter ? ["better", "good"] : ["worse", "bad"];
}

export const pValue = (number) => (typeof number !== "number" ? "–" : number < 0.001 ? "< 0.001" : number.toFixed(3));
export const difference = (number) => signed(number, 3);

function differencesTable({ metrics }) {
  const names = namesOf(metrics), columns = ["System", "Metric", "Difference", "Interval", "p", "It is"];
  const rows = metrics.flatMap((metric, place) => (metric.comparisons ?? []).map((comparison) => ({ comparison, place, metric })));
  return element("div", { class: "scroll" }, element("table", { id: "differences-table" },
    element("caption", { class: "visually-hidden" }, "Paired differences to the baseline"),
    element("thead", {}, element("tr", {}, columns.map((name, place) => element("th", { scope: "col", class: place > 1 && place < 5 ? "number" : "" }, name)))),
    element("tbody", {}, rows.map(({ comparison, place, metric }) => {
      const [words, sign] = verdict(comparison, metric.higher_is_better);
      return element("tr", {}, element("th", { scope: "row" }, userText(comparison.system)), element("td", { dataset: { name: "Metric" } }, names[place]),
        element("td", { class: "number", dataset: { name: "Difference" } }, difference(comparison.difference)), element("td", { class: "number", dataset: { name: "Interval" } }, interval(comparison.interval)),
        element("td", { class: "number", dataset: { name: "p" } }, pValue(comparison.p_randomisation)),
        element("td", { dataset: { name: "It is" } }, element("span", { class: `badge ${sign === "unclear" ? "" : sign}` }, words), comparison.note && element("div", { class: "faint" }, userText(comparison.note)), comparison.left_out > 0 && element("div", { class: "faint" }, `${count(comparison.left_out)} repl${comparison.left_out === 1 ? "y" : "ies"} left out`)));
    }))));
}

/** Return the section of paired differences; without a baseline it says how to get them. */
export function differences(summary) {
  const { resampling, metrics, systems } = summary;
  if (systems.length < 2) return null;
  const baseline = resampling.baseline ?? metrics.find((metric) => metric.comparisons?.length)?.comparisons[0].baseline;
  if (!baseline) return element("p", { class: "empty" }, "No system was chosen to compare the others with. Choose one under “Compare all systems with” when you start an evaluation.");
  return [element("p", {}, "Each system less ", element("b", {}, userText(baseline)), `, on the replies that both have a score for. “Not shown”: at this number of replies, chance alone may make such a difference.`), differencesTable(summary)];
}

const choice = (id, label, choices, onchange) => {
  const control = element("select", { id, onchange: () => onchange(Number(control.value)) }, choices.map((name, place) => element("option", { value: place }, name)));
  return [element("div", {}, element("label", { for: id }, label), control), control];
};

/** Return the drawings of one metric at a time. */
export function metricCharts(summary) {
  const names = namesOf(summary.metrics), place = element("div");
  const show = (number) => {
    const metric = summary.metrics[number], baseline = metric.comparisons?.[0]?.baseline, least = metric.systems.length;
    fill(place, histograms(metric, names[number]), element("div", { class: "charts" },
      intervalFigure({ title: `${names[number]}, corpus`, note: metric.systems.some((row) => row.interval) ? `${Math.round(100 * summary.resampling.confidence)} % intervals of ${count(summary.resampling.draws)} draws` : "no intervals", rows: metric.systems.map((row) => ({ label: row.system, value: row.corpus, low: row.interval?.[0] ?? null, high: row.interval?.[1] ?? null })) }),
      metric.comparisons?.length > 0 && intervalFigure({ title: `${names[number]}, less ${printable(baseline)}`, note: "grey: not shown", zero: true, least, names: ["", "Difference", "from", "to"], rows: metric.comparisons.map((row) => ({ label: row.system, value: row.difference, low: row.interval?.[0] ?? null, high: row.interval?.[1] ?? null, sign: verdict(row, metric.higher_is_better)[1] })) })));
  };
  const [box] = choice("chart-metric", "Metric", names, show);
  show(0);
  return element("div", { id: "metric-charts" }, summary.metrics.length > 1 && element("div", { class: "tools-row" }, box), place);
}

function histograms(metric, name) {
  const { low, high, bins, systems } = metric.histogram ?? {};
  if (!systems?.length || !systems.some((row) => row.counts.some(Boolean))) return element("p", { class: "faint" }, "No reply has a score by this metric.");
  const edges = Array.from({ length: bins + 1 }, (_, place) => low + ((high - low) * place) / bins), missing = systems.reduce((sum, row) => sum + (row.missing ?? 0), 0);
  const most = 12;
  return histogramFigure({ title: `${name}, single replies`, note: `${systems.length > most ? `the first ${most} systems; ` : ""}${missing ? `${count(missing)} without a score` : "how many replies have which score"}`, series: systems.slice(0, most).map((row) => ({ label: row.system, counts: row.counts })), edges });
}

/** Return the drawing of two metrics against each other; a point that is picked opens its reply. */
export function scatter(evaluation, summary, onPick) {
  if (summary.metrics.length < 2) return null;
  const names = namesOf(summary.metrics), place = element("div", { id: "scatter-drawing" });
  const scored = summary.metrics.flatMap((metric, at) => (metric.systems.some((row) => row.corpus !== null) ? [at] : [])); // the others have no points
  let [x, y] = scored.length > 1 ? scored : [0, 1], asking = new AbortController();
  const show = async () => {
    asking.abort();
    asking = new AbortController();
    place.setAttribute("aria-busy", "true");
    try {
      const { points, systems, system_of: owner, total, is_sampled: isSampled } = await get(`/v1/evaluations/${evaluation.id}/points?x=${x}&y=${y}&limit=2000`, { signal: asking.signal });
      const groups = systems.map((label, number) => ({ label, points: points.filter((_, at) => owner[at] === number).map(([reply, px, py]) => [px, py, reply]) })).filter((group) => group.points.length);
      const shown = groups.length > SERIES ? [{ label: `all ${groups.length} systems`, points: groups.flatMap((group) => group.points) }] : groups;
      fill(place, points.length ? scatterFigure({ title: `${names[y]} by ${names[x]}`, note: `${isSampled ? `${count(points.length)} of ${count(total)} replies, drawn by a seed` : `${count(points.length)} replies`}; press a point to see its reply`, x: names[x], y: names[y], groups: shown, onPick, columns: ["System", names[x], names[y]] })
        : element("p", { class: "faint" }, "No reply has a score by both metrics."));
    } catch (error) {
      showProblem(place, error);
    }
    place.removeAttribute("aria-busy");
  };
  const [xBox, xSelect] = choice("scatter-x", "To the right", names, (number) => { x = number; show(); });
  const [yBox, ySelect] = choice("scatter-y", "Upwards", names, (number) => { y = number; show(); });
  xSelect.value = String(x);
  ySelect.value = String(y);
  show();
  return element("div", {}, element("div", { class: "tools-row" }, xBox, yBox), place);
}
