/** The service over time: its figures of each hour as small lines, its backups, and who did what. */

import { get } from "./api.js";
import { lineFigure } from "./components/line_chart.js";
import { emptyState, moment } from "./components/states.js";
import { table } from "./components/tables.js";
import { byId, element, fill, userText } from "./dom.js";
import { bytes, count } from "./format.js";
import { showProblem } from "./frame.js";

const ROWS = 10, MOST_ROWS = 100;

// ── charts ────────────────────────────────────────────────────────────────────────────────────────────────────────────

export const milliseconds = (seconds) => (seconds < 1 ? `${count(Math.round(seconds * 1_000))} ms` : `${seconds < 10 ? seconds.toFixed(1) : Math.round(seconds)} s`);
const percent = (share) => `${Number((share * 100).toFixed(1))} %`;
const isMeasured = ({ points }) => points.some(([, value]) => value !== null);

/** Return the figures of the last hours as charts of equal height; what was never measured has none. */
export function charts(figures) {
  const line = (label, values) => ({ label, points: figures.begins.map((begin, place) => [begin, values[place] ?? null]) });
  const ofIndexes = (name) => Object.entries(figures.indexes).map(([index, found]) => line(index, found[name])).filter(isMeasured);
  // the running step is no whole one: it would end every line with a fall
  const whole = (values) => (values.slice(0, -1).some((value) => value > 0) ? [...values.slice(0, -1), null] : values);
  const step = figures.step_hours === 1 ? "an hour" : `in ${figures.step_hours} hours`;
  const always = [
    { title: `Requests ${step}`, series: [line("requests", whole(figures.requests))] },
    { title: `Failures ${step}`, series: [line("requests", whole(figures.failures)), line("jobs", whole(figures.jobs_failed))] },
  ];
  const latency = { title: "Time until an answer", format: milliseconds, series: [line("median", figures.median_s), line("95 of 100", figures.p95_s)] };
  const drift = { title: "Drift of a reply\u2019s score", format: (number) => number.toFixed(3), series: ofIndexes("drift") };
  const sizes = [
    { title: "Recall of the published index", format: percent, fromZero: false, series: ofIndexes("recall") }, drift,
    { title: "Size of the published index", format: bytes, series: ofIndexes("bytes") },
    { title: "Size of the database", format: bytes, series: [line("database", figures.database_bytes)] },
    { title: "Free on the disk", format: bytes, series: [line("free", figures.disk_free_bytes)] },
  ];
  const shown = [...always, ...[latency, ...sizes].filter(({ series }) => series.some(isMeasured))];
  return element("div", { class: "charts small" }, shown.map(lineFigure));
}

/** Draw the figures of the hours that the reader has chosen. */
export async function loadFigures() {
  const place = byId("figures");
  try {
    const figures = await get(`/v1/figures?hours=${byId("figures-hours").value}`);
    fill(place, charts(figures));
    fill(byId("backups"), backups(figures.backups));
  } catch (error) {
    showProblem(place, error);
  }
  for (const id of ["figures", "backups"]) byId(id).removeAttribute("aria-busy");
}

function backups(rows) {
  if (!rows.length) return emptyState("No backup yet", ["No page can make one: a backup belongs on another disk, and is made on the server by ", element("code", {}, "refaug admin backup"), ". Its age then stands here, and in the alerts."]);
  return table(["Backup", "Made", "Size", { name: "Damaged files", isNumber: true }],
    rows.map((row) => [userText(row.name), moment(row.at), bytes(row.bytes), row.damaged ? element("span", { class: "bad" }, count(row.damaged)) : "0"]));
}

// ── who did what ──────────────────────────────────────────────────────────────────────────────────────────────────────

/** List the newest acts of the audit log, for those who may read it. */
export async function loadAudit(isAdmin, shown = ROWS) {
  const place = byId("audit");
  byId("audit-box").hidden = !isAdmin;
  if (!isAdmin) { place.removeAttribute("aria-busy"); return; }
  try {
    const { entries, next } = await get(`/v1/audit?newest=true&limit=${shown}`);
    fill(place, entries.length ? table(["When", "Who", "Did", "To", { name: "More", isMinor: true }], entries.map(act)) : emptyState("Nothing yet", "Who publishes, removes, erases, queues jobs or makes keys is noted here, and stays."),
      next !== null && shown < MOST_ROWS && element("button", { type: "button", class: "small", onclick: () => loadAudit(isAdmin, MOST_ROWS) }, "Show more"));
  } catch (error) {
    showProblem(place, error);
  }
  place.removeAttribute("aria-busy");
}

const act = ({ at, actor, action, subject, details }) => [moment(at), userText(actor), userText(action), linked(subject), element("span", { class: "faint" }, userText(detailsOf(details)))];

/** Return what an act was about; a job leads to what became of it. */
function linked(subject) {
  const [, job] = /^job ([0-9a-z]{26})$/.exec(subject) ?? [];
  return job ? element("a", { href: `#job=${job}` }, userText(subject)) : userText(subject);
}

const detailsOf = (details) => Object.entries(details).map(([name, value]) => `${name} ${typeof value === "object" && value !== null ? Object.values(value).join(", ") : name === "bytes" ? bytes(value) : value}`).join(", ");

export function setUpOverTime(refresh) {
  byId("figures-hours").addEventListener("change", refresh);
}
