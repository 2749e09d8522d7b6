/** How far metrics agree with people: what `refaug agreement` measures, with its drawings. */

import { intervalFigure, scatterFigure, SERIES } from "./charts.js";
import { element, fill, printable, userText } from "./dom.js";
import { count, countOf, score } from "./format.js";
import { pValue } from "./evaluation_systems.js";

const CORRELATIONS = [["spearman", "Spearman"], ["pearson", "Pearson"], ["kendall", "Kendall"], ["partial_spearman", "Spearman, length held fixed"]];
const range = (figure) => (figure?.interval ? `[${score(figure.interval[0])} to ${score(figure.interval[1])}]` : null);
const label = (row) => ({ human: "people themselves", length: "length of the reply" })[row.name] ?? row.name;

/** Return the sections of an agreement document: one for each rated set, and the mean over several. */
export function agreementSections({ sets, mean, settings, warnings }) {
  return [
    warnings.length > 0 && element("div", { class: "notice warn" }, element("ul", {}, warnings.map((warning) => element("li", {}, userText(warning))))),
    sets.map((set) => setSection(set, settings, sets.length > 1)),
    mean && element("section", { class: "card" }, element("h2", {}, "Mean over the sets"), agreementTable(mean.rows, settings), correlationFigure(mean.rows, "Mean Spearman correlation", settings)),
  ];
}

function setSection(set, settings, hasTitle) {
  const { counts, rows } = set;
  const left = Object.entries(counts.unrated ?? {}).map(([why, number]) => `${count(number)} ${why}`);
  return [
    element("section", { class: "card" }, element("h2", {}, hasTitle ? ["Agreement with people: ", userText(set.name)] : "Agreement with people"),
      element("p", {}, `${countOf(counts.used, "reply", "replies")} of ${countOf(counts.systems, "system")} to ${countOf(counts.contexts, "context")} ${counts.used === 1 ? "has" : "have"} a rating and all scores${counts.used < counts.replies ? `, of ${count(counts.replies)}` : ""}. `, left.length > 0 && `Without a rating: ${left.join(", ")}. `, element("b", {}, "It is"), " says whether the agreement differs from that of ", element("b", {}, userText(settings.baseline ?? "the first metric")), "."),
      agreementTable(rows, settings),
      element("div", { class: "charts" }, correlationFigure(rows, "Spearman correlation with the ratings", settings), differenceFigure(rows, settings)), groupsFigure(rows)),
    set.annotators && element("section", { class: "card" }, element("h2", {}, "Agreement among people"), annotators(set.annotators)),
    systemsSection(rows),
  ];
}

function agreementTable(rows, settings) {
  const names = ["Metric", ...CORRELATIONS.map(([, name]) => name), "p", "It is"];
  const shown = (row) => {
    const p = row.p_holm?.spearman, change = row.difference?.spearman?.value;
    if (row.baseline) return ["the baseline", ""];
    if (typeof p !== "number" || typeof change !== "number") return ["–", ""];
    return p < 1 - settings.confidence ? (change > 0 ? ["better", "good"] : ["worse", "bad"]) : ["not shown", ""];
  };
  return element("div", { class: "scroll" }, element("table", { id: "agreement-table" },
    element("caption", { class: "visually-hidden" }, "Correlation of each metric with the ratings"),
    element("thead", {}, element("tr", {}, names.map((name, place) => element("th", { scope: "col", class: place && place < 6 ? "number" : "" }, name)))),
    element("tbody", {}, rows.map((row) => {
      const [words, sign] = shown(row);
      return element("tr", {}, element("th", { scope: "row" }, userText(label(row)), row.turned ? element("div", { class: "faint" }, "turned: less is better") : ""),
        CORRELATIONS.map(([kind, name]) => element("td", { class: "number", dataset: { name } }, score(row[kind]?.value), range(row[kind]) && element("div", { class: "faint" }, range(row[kind])), row[kind]?.why && element("div", { class: "faint wrap-text" }, userText(row[kind].why)))),
        element("td", { class: "number", dataset: { name: "p" } }, pValue(row.p_holm?.spearman)), element("td", { dataset: { name: "It is" } }, words === "–" ? words : element("span", { class: `badge ${sign}` }, words)));
    }))));
}

const drawn = (rows, of) => rows.filter((row) => typeof of(row)?.value === "number").map((row) => ({ label: label(row), value: of(row).value, low: of(row).interval?.[0] ?? null, high: of(row).interval?.[1] ?? null }));

function correlationFigure(rows, title, settings) {
  return intervalFigure({ title, note: `${Math.round(100 * settings.confidence)} % intervals`, zero: true, names: ["", "Correlation", "from", "to"], rows: drawn(rows, (row) => row.spearman) });
}

function differenceFigure(rows, settings) {
  const list = drawn(rows, (row) => row.difference?.spearman);
  return list.length > 0 && intervalFigure({ title: `Spearman, less that of ${printable(settings.baseline ?? "the baseline")}`, note: "right of 0: it agrees better", zero: true, least: drawn(rows, (row) => row.spearman).length, names: ["", "Difference", "from", "to"], rows: list });
}

function groupsFigure(rows) {
  const sizes = [...new Set(rows.flatMap((row) => (row.groups ?? []).map((group) => group.size)))].filter((size) => size > 1);
  const list = sizes.flatMap((size) => rows.filter((row) => row.kind === "metric").flatMap((row) => (row.groups ?? []).filter((group) => group.size === size && typeof group.spearman?.value === "number").map((group) => ({ label: `${label(row)}, ${size}`, value: group.spearman.value, low: group.spearman.interval?.[0] ?? null, high: group.spearman.interval?.[1] ?? null }))));
  return list.length > 0 && list.length <= 40 && intervalFigure({ title: "Spearman of means over groups of replies", note: `how agreement grows when ${sizes.join(", ")} replies are averaged`, zero: true, names: ["", "Correlation", "from", "to"], rows: list });
}

function annotators(people) {
  const alpha = people.alpha?.ordinal ?? people.alpha?.interval, half = people.split_half?.spearman, icc = people.icc?.forms?.["ICC(2,k)"];
  const fact = (name, ...content) => [element("dt", {}, name), element("dd", {}, ...content)];
  return element("dl", { class: "facts" }, fact("People", count(people.kept.length), people.dropped.length ? `, ${count(people.dropped.length)} dropped` : ""),
    people.ratings_a_reply?.length ? fact("Ratings a reply", [...new Set(people.ratings_a_reply)].map(count).join(" to ")) : null,
    typeof alpha?.value === "number" ? fact("Krippendorff’s alpha", score(alpha.value), ` (${alpha.level})`) : null,
    typeof people.kappa?.mean === "number" ? fact("Mean kappa of pairs", score(people.kappa.mean)) : null,
    typeof icc?.value === "number" ? fact("ICC(2,k)", score(icc.value), ` [${score(icc.low)} to ${score(icc.high)}]`) : null,
    typeof half?.stepped_up === "number" ? fact("Split-half reliability", score(half.stepped_up), ` [${score(half.low)} to ${score(half.high)}]: no metric can agree much better`) : null);
}

/** Return a drawing of the systems by a metric and by people, a metric at a time. */
function systemsSection(rows) {
  const metrics = rows.filter((row) => row.kind === "metric" && row.system_level?.systems?.length > 1);
  if (!metrics.length) return null;
  const place = element("div", { class: "narrow-figure" });
  const show = (number) => {
    const row = metrics[number], { systems, spearman } = row.system_level, groups = systems.map((system) => ({ label: system.system, points: [[system.score, system.rating, null]] }));
    fill(place, scatterFigure({ title: `Systems: rating by ${label(row)}`, note: typeof spearman?.value === "number" ? `Spearman ${score(spearman.value)}` : spearman?.why ?? null, x: label(row), y: "rating", groups: groups.length > SERIES ? [{ label: "systems", points: groups.flatMap((group) => group.points) }] : groups, rows: () => systems.map((system) => [printable(system.system), system.score, system.rating]), columns: ["System", label(row), "rating"] }));
  };
  const control = element("select", { id: "system-level-metric", onchange: () => show(Number(control.value)) }, metrics.map((row, number) => element("option", { value: number }, label(row))));
  show(0);
  return element("section", { class: "card" }, element("h2", {}, "Systems"), metrics.length > 1 && element("div", { class: "tools-row" }, element("div", {}, element("label", { for: "system-level-metric" }, "Metric"), control)), place);
}
