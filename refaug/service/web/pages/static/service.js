/** What serves, since when, and what last night's job did; the service over time; versions, logs, jobs, schedules and sets. */

import { get, listAll, untilAnswered } from "./api.js";
import { showVersions } from "./artefacts.js";
import { byId, element, fill, printable, userText } from "./dom.js";
import { bytes, count, countOf } from "./format.js";
import { allows, dueMoment, empty, moment, ownKey, showProblem, start } from "./frame.js";
import { emptyState, stateBadge } from "./components/states.js";
import { jobLink, loadJobs, openJob, setUpJobs } from "./jobs.js";
import { newJob, setUpOrders } from "./orders.js";
import { loadAudit, loadFigures, setUpOverTime } from "./over_time.js";
import { setUpSchedules, showSchedules } from "./schedules.js";

let own = null;

/** Put rows or a word about their absence into a section; who stands in it stays where they were. */
async function section(id, make) {
  const place = byId(id);
  try {
    const made = await make(), held = place.contains(document.activeElement) ? signOf(document.activeElement) : null;
    fill(place, made);
    if (held) [...place.querySelectorAll("a, button, summary, [tabindex]")].find((node) => signOf(node) === held)?.focus({ preventScroll: true });
  } catch (error) {
    showProblem(place, error);
  }
  place.removeAttribute("aria-busy");
}

const signOf = (node) => [node.tagName, node.getAttribute("href"), node.getAttribute("aria-label"), node.closest("tr")?.cells[0].textContent, node.textContent].join("\n");

// ── now ───────────────────────────────────────────────────────────────────────────────────────────────────────────────

async function now() {
  const [ready, indexes, raters, schedules, failed, { backups }] = await Promise.all([
    get("/readyz").catch((error) => (error.code === "not_ready" ? { versions: {}, troubles: {}, missing: error.document.missing } : Promise.reject(error))),
    listAll("/v1/artefacts/index", "artefacts"), listAll("/v1/artefacts/rater", "artefacts"), listAll("/v1/schedules", "schedules"), lastFailure(), get("/v1/figures?hours=1"),
  ]);
  const facts = [];
  const fact = (name, ...content) => facts.push(element("dt", {}, name), element("dd", {}, ...content));
  fact("Answers", ready.missing ? element("b", { class: "warn" }, `not yet: ${ready.missing.join(", ")}`) : element("b", { class: "good" }, "yes"));
  for (const [kind, rows] of [["index", indexes], ["rater", raters]]) {
    const serving = ready.versions[kind] ?? {};
    for (const [name, version] of Object.entries(serving)) {
      const { published, published_at: since } = rows.find((row) => row.name === name) ?? {};
      fact(`Serves ${kind}`, element("b", {}, `${name}@${version}`), since ? [", published ", moment(since)] : "", published?.created ? element("div", { class: "faint" }, "made ", moment(published.created)) : "",
        published && published.version !== version ? element("div", { class: "warn" }, `published is ${published.version}; it is being opened, or cannot be`) : "");
    }
    if (!Object.keys(serving).length) fact(`Serves ${kind}`, element("span", { class: "warn" }, "none is published"));
  }
  for (const [what, why] of Object.entries(ready.troubles ?? {})) fact("Trouble", element("span", { class: "bad" }, userText(`${what}: ${why}`)));
  for (const why of ready.degraded ?? []) fact("Degraded", element("span", { class: "warn" }, userText(why)));
  const nights = await Promise.all(schedules.slice(0, 20).map((schedule) => get(`/v1/schedules/${encodeURIComponent(schedule.name)}`).catch(() => null)));
  for (const night of nights.filter((row) => row !== null)) fact(`Schedule ${printable(night.name)}`, await lastFiring(night));
  if (!nights.length) fact("Schedules", "none: nothing runs by itself");
  const whole = backups.find((one) => !one.damaged), damaged = backups[0]?.damaged;
  fact("Last backup", whole ? moment(whole.at) : element("span", { class: "warn" }, "none is known"), damaged ? element("div", { class: "warn" }, `a later one has ${countOf(damaged, "damaged file")}`) : "");
  if (failed) fact("Last failure", jobLink(failed.id, `${failed.kind}, `), moment(failed.finished), element("div", {}, userText(failed.error?.message ?? "")));
  return element("dl", { class: "facts" }, facts);
}

const FAILURES = 100, ORDERS = 20, LATER = 100; // newest ones that are looked through

/** Return the newest failed job whose order did not go well later; null where all of them did. */
async function lastFailure() {
  const { jobs } = await get(`/v1/jobs?state=failed&limit=${FAILURES}`), looked = new Set();
  for (const job of jobs) {
    const order = orderOf(job);
    if (looked.has(order)) continue; // of one order, the newest failure tells for all
    if (looked.size === ORDERS) break;
    if (!(await wasDoneSince(job))) return job;
    looked.add(order);
  }
  return null;
}

/** Return what tells whether two jobs do the same: their kind and the things that they change, or all that was ordered. */
const orderOf = ({ kind, resources, order }) => JSON.stringify([kind, resources.length ? [...resources].sort() : order]);

/** Return whether a later job of the same order ended well; an erasure keeps no names, and each stands for itself. */
async function wasDoneSince(failed) {
  if (failed.kind === "erase") return false;
  const of = failed.resources.length ? `&resource=${encodeURIComponent(failed.resources[0])}` : "";
  const { jobs } = await get(`/v1/jobs?state=done&kind=${failed.kind}${of}&limit=${LATER}`);
  return jobs.some((job) => job.finished > failed.finished && orderOf(job) === orderOf(failed));
}

async function lastFiring(schedule) {
  const [last] = schedule.firings;
  const next = schedule.enabled ? (schedule.next[0] ? ["next ", dueMoment(schedule.next[0], schedule.timezone)] : "no next time is known") : "paused";
  if (!last) return ["has not run yet; ", next];
  if (!last.job) return [element("span", { class: "warn" }, "did not run "), moment(last.due), ": ", userText(last.note ?? ""), "; ", next];
  if (last.state === null) return ["ran ", moment(last.due), "; its job was removed since; ", next];
  const job = await get(`/v1/jobs/${last.job}`);
  return [stateBadge(job.state), " ", jobLink(job.id, `${job.kind}, `), moment(last.due), job.state === "done" ? element("div", {}, userText(job.outcome)) : "",
    job.error ? element("div", { class: "bad" }, "Why: ", userText(job.error.message), job.error.remedy ? [" What helps: ", userText(job.error.remedy)] : "") : "",
    element("div", { class: "faint" }, next)];
}

/** Return what an empty place offers: a form of a job, for those who may start one. */
const order = (label, filled) => (allows(own, "admin") ? { label, act: () => newJob(refresh, filled).catch((error) => showProblem(byId("page-problem"), error)) } : null);

// ── logs and sets ─────────────────────────────────────────────────────────────────────────────────────────────────────

async function logs() {
  const rows = await listAll("/v1/logs", "logs");
  if (!rows.length) return emptyState("No log yet", "A log holds the dialogues in which references are found. Programs post them, or a job reads a file of the server’s inbox.", order("Ingest a file", { kind: "ingest" }));
  return element("div", { class: "scroll" }, element("table", {},
    element("thead", {}, element("tr", {}, ["Log", "Pairs", "Dialogues", "Size", "Changed", "Growth"].map((name) => element("th", { scope: "col", class: name === "Changed" || name === "Log" ? null : "number" }, name)))),
    element("tbody", {}, rows.map((row) => element("tr", {},
      element("th", { scope: "row" }, userText(row.name), row.problem ? element("div", { class: "bad" }, userText(row.problem)) : ""),
      ...[["Pairs", row.pairs], ["Dialogues", row.dialogues]].map(([name, number]) => element("td", { class: "number", dataset: { name } }, number === null ? "–" : count(number))),
      element("td", { class: "number", dataset: { name: "Size" } }, bytes(row.bytes)), element("td", { dataset: { name: "Changed" } }, moment(row.updated)),
      element("td", { class: "actions" }, growthButton(row.name)))))));
}

function growthButton(name) {
  const button = element("button", { type: "button", class: "small", "aria-expanded": "false", "aria-label": `Growth of ${printable(name)}`, onclick: async () => {
    const next = button.closest("tr").nextElementSibling;
    if (next?.classList.contains("growth")) { next.remove(); button.setAttribute("aria-expanded", "false"); return; }
    const place = element("td", { colspan: 6 });
    button.closest("tr").after(element("tr", { class: "growth" }, place));
    button.setAttribute("aria-expanded", "true");
    try {
      const ingests = await listAll(`/v1/logs/${encodeURIComponent(name)}/ingests`, "ingests");
      fill(place, ingests.length ? growth(ingests) : empty(element("p", {}, "Nothing was ingested yet.")));
    } catch (error) {
      showProblem(place, error);
    }
  } }, "Show");
  return button;
}

/** Return how many rows, turns and dialogues a run has left out, for whatever reason. */
const leftOut = ({ counts }) => Object.entries(counts).reduce((sum, [name, number]) => (/^(bad|dropped):/.test(name) ? sum + number : sum), 0);

function growth(ingests) {
  const rows = ingests.slice(-30);
  return [element("p", { class: "faint" }, `${countOf(ingests.length, "run")}; the last ${count(rows.length)}, newest first`),
    element("table", {}, element("thead", {}, element("tr", {}, ["When", "Files", "Size", "Dialogues", "Turns", "Left out"].map((name) => element("th", { scope: "col", class: name === "When" ? null : "number" }, name)))),
      element("tbody", {}, rows.reverse().map((ingest) => element("tr", {}, element("td", {}, moment(ingest.at)),
        [count(ingest.sources), bytes(ingest.bytes), count(ingest.counts.dialogues ?? 0), count(ingest.counts.turns ?? 0), count(leftOut(ingest))].map((number) => element("td", { class: "number" }, number))))))];
}

async function sets() {
  const rows = await listAll("/v1/reference-sets", "sets");
  if (!rows.length) return emptyState("No set is frozen yet", "A set keeps references and weights, so that scores keep their meaning.", order("Freeze a file", { kind: "freeze" }));
  return element("div", { class: "scroll" }, element("table", {},
    element("thead", {}, element("tr", {}, ["Set", "Purpose", "Items", "Frozen"].map((name) => element("th", { scope: "col", class: name === "Items" ? "number" : null }, name)))),
    element("tbody", {}, rows.map((row) => element("tr", { id: `set-${row.id}`, tabindex: -1 },
      element("th", { scope: "row", class: "mono" }, row.id, row.withdrawn ? element("span", { class: "bad" }, " withdrawn") : ""),
      element("td", { dataset: { name: "Purpose" } }, userText(row.purpose ?? "–")), element("td", { class: "number", dataset: { name: "Items" } }, typeof row.items === "number" ? count(row.items) : "–"),
      element("td", { dataset: { name: "Frozen" } }, moment(row.created)))))));
}

// ── start ─────────────────────────────────────────────────────────────────────────────────────────────────────────────

function refresh() {
  return Promise.all([
    section("now", now), section("versions", () => showVersions(allows(own, "admin"), refresh)), section("logs", logs),
    section("schedules", () => showSchedules(allows(own, "admin"), refresh)), section("sets", sets), loadJobs(), loadFigures(), loadAudit(allows(own, "admin")),
  ]);
}

async function load() {
  showProblem(byId("page-problem"), null);
  try {
    own = await untilAnswered(ownKey);
    const isAdmin = allows(own, "admin");
    for (const id of ["new-job", "new-schedule"]) {
      byId(id).disabled = !isAdmin;
      byId(id).title = isAdmin ? "" : "this needs a key with the scope admin";
    }
    setUpJobs(isAdmin, refresh);
    await refresh();
    const match = /^#job=([0-9a-z]{26})$/.exec(location.hash);
    if (match) await openJob(match[1]);
    showSet();
  } catch (error) {
    showProblem(byId("page-problem"), error);
  }
}

/** Put the focus on the set that the address names. */
function showSet() {
  const id = /^#set=([0-9a-f]{6,64})$/.exec(location.hash)?.[1];
  const row = id ? byId(`set-${id}`) : null;
  row?.scrollIntoView({ block: "center" });
  row?.focus({ preventScroll: true });
}

window.addEventListener("hashchange", () => {
  const match = /^#job=([0-9a-z]{26})$/.exec(location.hash);
  if (match) openJob(match[1]);
  showSet();
});
setUpOrders(refresh);
setUpOverTime(() => loadFigures());
setUpSchedules(refresh);
start(load);
