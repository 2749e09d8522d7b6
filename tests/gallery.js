/** Every component of the pages with made-up content, a section each: for pictures, and for tests of the components. */

import { intervalFigure } from "./static/charts.js";
import { forestPlot } from "./static/components/forest_plot.js";
import { lineFigure } from "./static/components/line_chart.js";
import { badge, dueMoment, emptyState, moment, stateBadge } from "./static/components/states.js";
import { steps } from "./static/components/steps.js";
import { table, watchTables } from "./static/components/tables.js";
import { tabs } from "./static/components/tabs.js";
import { byId, element, fill } from "./static/dom.js";

const NOW = Date.now(), HOUR = 3_600_000;
const ago = (hours) => new Date(NOW - hours * HOUR).toISOString();
const field = (id, label, attributes) => element("div", { class: "field" }, element("label", { for: id }, label), element("input", { id, ...attributes }));
const wave = (place, size) => Math.round(size * (1.5 + Math.sin(place / 4) + Math.sin(place / 1.7) / 3));
const hours = Array.from({ length: 48 }, (_, place) => NOW - (47 - place) * HOUR);

const COMPONENTS = {
  sizes: () => ["title", "large", "body", "small"].map((size) => element("p", { class: `sample-${size}` }, `${size}: a reply gets a score`)),
  buttons: () => element("div", { class: "row" }, element("button", { type: "button", class: "primary" }, "Make the study"), element("button", { type: "button" }, "Copy"), element("button", { type: "button", class: "small" }, "Show"), element("button", { type: "button", class: "danger" }, "Remove"), element("button", { type: "button", class: "link" }, "All studies")),
  badges: () => element("div", { class: "row" }, ["open", "running", "paused", "failed", "draft"].map(stateBadge), badge("+819 pairs", "good"), badge("nothing new")),
  moments: () => element("dl", { class: "facts" }, [["Made", moment(ago(0.4))], ["Changed", moment(ago(75))], ["Next", dueMoment(ago(-5), "Europe/Berlin")]].map(([name, node]) => [element("dt", {}, name), element("dd", {}, node)])),
  tables: () => table(["System", "State", "Replies", "Score", "Share", { name: "Made", isMinor: true }, ""],
    [["retrieval", "done", 1200, 0.412, 98], ["generic", "failed", 87, 0.05, 7], ["people", "running", 1200, 0.633, 100]].map(([name, state, replies, score, share], place) =>
      [name, stateBadge(state), replies.toLocaleString("en"), score.toFixed(3), `${share} %`, moment(ago(place * 30 + 1)), element("button", { type: "button", class: "small" }, "Open")])),
  notices: () => [element("div", { class: "notice" }, element("p", {}, "A link has filled this page.")), element("div", { class: "notice warn" }, element("p", {}, "Fewer than ten participants: no interval is shown.")), element("div", { class: "notice bad" }, element("p", {}, element("strong", {}, "Unknown index"), ": no index has this name."))],
  "empty-states": () => emptyState("No bot yet", "A bot is what people chat with: an endpoint, an index or a script.", { label: "Add a bot", isPrimary: true, act: () => undefined }),
  tabs: () => tabs("Parts of the study", ["Overview", "Links", "Responses", "Report"].map((title, place) => ({ name: title.toLowerCase(), title, count: place === 2 ? 128 : undefined, draw: (panel) => fill(panel, element("p", {}, `Here is the part “${title}”.`)) }))),
  steps: () => steps("Steps of a study", [
    { name: "what", title: "What", node: field("gallery-title", "Title", { value: "Talking with machines", required: true }), summary: () => [["Title", byId("gallery-title").value]] },
    { name: "people", title: "People", node: field("gallery-people", "Participants", { type: "number", value: 60, min: 1 }), summary: () => [["Participants", byId("gallery-people").value]] },
  ], { title: "Check", label: "Make the study", act: () => undefined }),
  "line-charts": () => element("div", { class: "charts small" },
    lineFigure({ title: "Requests", note: "an hour", series: [{ label: "requests", points: hours.map((at, place) => [at, wave(place, 400)]) }] }),
    lineFigure({ title: "Latency", format: (value) => `${Math.round(value)} ms`, limit: 150, series: [{ label: "median", points: hours.map((at, place) => [at, place > 20 && place < 25 ? null : 30 + wave(place, 9)]) }, { label: "95th percentile", points: hours.map((at, place) => [at, place > 20 && place < 25 ? null : 80 + wave(place, 20)]) }] })),
  "forest-plots": () => forestPlot({ title: "How good was the chat?", note: "mean with its 95 % interval", series: ["all", "without exclusions"], unit: "1 (bad) to 7 (good)", rows: [
    { label: "retrieval", estimates: [{ value: 4.62, low: 4.31, high: 4.93 }, { value: 4.81, low: 4.5, high: 5.12 }] },
    { label: "vectors", estimates: [{ value: 3.9, low: 3.52, high: 4.28 }, { value: 4.02, low: 3.66, high: 4.38 }] },
    { label: "generic", estimates: [{ value: 2.4, low: 2.11, high: 2.69 }, { value: null, why: "too few" }] },
  ] }),
  intervals: () => intervalFigure({ title: "Scores", note: "with 95 % intervals", rows: [{ label: "people", value: 0.63, low: 0.6, high: 0.66 }, { label: "retrieval", value: 0.41, low: 0.37, high: 0.45 }, { label: "generic", value: 0.05, low: 0.03, high: 0.07 }] }),
};

fill(byId("main"), element("h1", {}, "Components"), Object.entries(COMPONENTS).map(([name, make]) => element("section", { class: "card", dataset: { component: name } }, element("h2", {}, name), make())));
watchTables(document.body);
document.body.dataset.ready = "yes";
