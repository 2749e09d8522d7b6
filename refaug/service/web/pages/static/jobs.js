/** Jobs: a list, one of them with live progress and log, cancelling, and trying again. */

import { ENDED, address, events, get, post, remove } from "./api.js";
import { emptyState, stateBadge } from "./components/states.js";
import { renewRows } from "./renewed_rows.js";
import { table } from "./components/tables.js";
import { byId, element, fill, printable, userText } from "./dom.js";
import { bytes, count, duration, time } from "./format.js";
import { moment, showProblem } from "./frame.js";

const SHOWN = 25, MOST_SHOWN = 200, LOG_LINES = 200, LOOK_MS = 3_000, IDLE_MS = 30_000, MOST_MS = 60_000, REFUSED = new Set([401, 403]);
let looking = 0, isDue = false, failures = 0, listing = new AbortController(), isAdmin = false, refreshAll = () => undefined, watching = new AbortController(), opened = "", shown = SHOWN;

export const jobLink = (id, what) => [element("a", { href: `#job=${id}` }, `${what}job ${id.slice(-6)}`), " "];

export function setUpJobs(mayAct, refresh) {
  isAdmin = mayAct;
  refreshAll = refresh;
}

// ── the list ──────────────────────────────────────────────────────────────────────────────────────────────────────────

/** List the jobs, and again after a while: soon while one waits or runs, later where the service gives no answer, never where it refuses one. */
export async function loadJobs() {
  clearTimeout(looking);
  isDue = false;
  listing.abort();
  listing = new AbortController();
  const { signal } = listing, place = byId("jobs"), state = byId("job-state").value;
  try {
    const page = await get(`/v1/jobs?limit=${shown}${state ? `&state=${state}` : ""}`, { signal });
    showJobs(place, page, state);
    failures = 0;
    lookAfter(page.jobs.some((job) => !ENDED.has(job.state)) ? LOOK_MS : IDLE_MS);
  } catch (error) {
    if (signal.aborted) return;
    if (REFUSED.has(error.status)) showProblem(place, error);
    else {
      failures += 1;
      if (!place.querySelector("table")) showProblem(place, error);
      fill(byId("jobs-trouble"), element("p", { class: "warn" }, "The list is not up to date: ", userText(error.message), ". It is asked for again by itself, less and less often."));
      lookAfter(Math.min(LOOK_MS * 2 ** failures, MOST_MS));
    }
  }
  place.removeAttribute("aria-busy");
}

/** Look again later; a page that nobody sees waits until it is seen. */
function lookAfter(pause) {
  looking = setTimeout(() => {
    isDue = document.visibilityState === "hidden";
    if (!isDue) loadJobs();
  }, pause);
}

function showJobs(place, { jobs, next }, state) {
  fill(byId("jobs-trouble"));
  byId("jobs-more").hidden = next === null || shown >= MOST_SHOWN;
  const before = place.querySelector("table");
  if (!jobs.length) fill(place, emptyState(state ? `No job is ${state}` : "No job has run yet", state ? "" : "“New job” starts one; a schedule starts one every night."));
  else if (before) renewRows(before, jobTable(jobs).querySelector("table"));
  else fill(place, jobTable(jobs));
}

function jobTable(jobs) {
  const made = table(["Job", "State", "Outcome", "What", { name: "Asked for", isMinor: true }, { name: "Took", isNumber: true }], jobs.map((job) => [
    element("a", { href: `#job=${job.id}` }, job.kind), stateBadge(job.state),
    job.state === "running" ? userText(progressOf(job.progress)) : element("span", { class: job.error ? "bad" : null }, userText(shortened(job.outcome ?? "–"))),
    whatOf(job), [moment(job.created), askedBy(job)], job.started ? duration(job.started, job.finished) : "–"]));
  [...made.querySelector("tbody").rows].forEach((row, place) => { row.dataset.key = jobs[place].id; });
  return made;
}

/** Return what a job is about; an evaluation has a page of its scores. */
const whatOf = (job) => (["score", "meta"].includes(job.kind) ? element("a", { href: address(`/evaluate#e=${job.id}`) }, userText(job.order?.name || "its evaluation")) : userText(job.resources.join(", ") || "–"));
const askedBy = (job) => (job.schedule ? [" by schedule ", userText(job.schedule)] : job.requested_by && job.requested_by !== "anonymous" ? [" by ", userText(job.requested_by)] : "");
const shortened = (text) => (text.length > 160 ? `${text.slice(0, 160)}…` : text);

// ── one job ───────────────────────────────────────────────────────────────────────────────────────────────────────────

export async function openJob(id, takesFocus = true) {
  watching.abort();
  watching = new AbortController();
  opened = id;

  const { signal } = watching, box = byId("job-box");
  box.hidden = false;
  try {
    const job = await get(`/v1/jobs/${id}`, { signal });
    const parts = draw(job);
    if (takesFocus) {
      box.focus({ preventScroll: true });
      box.scrollIntoView({ block: "nearest" });
    }
    await follow(job, parts, signal);
  } catch (error) {
    if (error.name !== "AbortError") showProblem(byId("job"), error);
  }
}

function draw(job) {
  byId("job-title").textContent = `Job ${job.kind}`;
  const parts = { state: element("span", { role: "status" }), bar: element("progress", { "aria-label": "progress of this stage", max: 1 }), stage: element("p", { class: "faint" }), log: element("ol", { class: "log", tabindex: 0, "aria-label": "Log of the job" }), actions: element("div", { class: "row" }), outcome: element("div"), waiting: [] };
  fill(byId("job"),
    element("dl", { class: "facts" }, element("dt", {}, "State"), element("dd", {}, parts.state), element("dt", {}, "Id"), element("dd", { class: "mono" }, job.id),
      element("dt", {}, "Asked for"), element("dd", {}, moment(job.created), askedBy(job))),
    parts.bar, parts.stage, parts.actions, parts.outcome,
    element("details", {}, element("summary", {}, "Order"), element("pre", { tabindex: 0 }, printable(JSON.stringify(job.order, null, 2)))),
    element("h3", {}, "Log"), parts.log);
  update(job, parts);
  return parts;
}

function update(job, parts) {
  fill(parts.state, stateBadge(job.state), job.cancel_requested && !job.finished ? " asked to stop" : "", job.started ? `, ${duration(job.started, job.finished)}` : "");
  parts.bar.hidden = job.state !== "running";
  if (job.finished) parts.stage.textContent = "";
  const act = (label, path, method) => element("button", { type: "button", onclick: async (event) => {
    event.target.disabled = true;
    try {
      await (method === "POST" ? post(path) : remove(path));
      await loadJobs();
      await openJob(job.id);
    } catch (error) {
      showProblem(parts.outcome, error);
      event.target.disabled = false;
    }
  } }, label);
  fill(parts.actions, isAdmin && !job.finished && !job.cancel_requested && act("Cancel", `/v1/jobs/${job.id}`, "DELETE"),
    isAdmin && ["failed", "cancelled"].includes(job.state) && act("Try again", `/v1/jobs/${job.id}/retry`, "POST"));
  fill(parts.outcome, job.error && element("div", { class: "notice bad" }, element("p", {}, element("strong", {}, job.error.code ?? "error"), ": ", userText(job.error.message ?? "")), job.error.remedy && element("p", {}, "What helps: ", userText(job.error.remedy))),
    job.outcome && !job.error && element("p", { class: "outcome" }, userText(job.outcome)),
    job.result && [facts(job.result), element("details", {}, element("summary", {}, "Result as JSON"), element("pre", { tabindex: 0 }, printable(JSON.stringify(job.result, null, 2).slice(0, 20_000))))]);
}

const DEEPEST = 2, MOST_FACTS = 24;

/** Return what a job has found out as a list of facts; what lies deeper, and long lists, are told by their size. */
function facts(found, depth = 0) {
  const told = Object.entries(found).filter(([, value]) => value !== null && value !== "" && !(Array.isArray(value) && !value.length)).slice(0, MOST_FACTS);
  return element("dl", { class: "facts" }, told.flatMap(([name, value]) => [element("dt", {}, printable(name.replaceAll("_", " "))), element("dd", {}, factOf(name, value, depth))]));
}

function factOf(name, value, depth) {
  if (typeof value === "boolean") return value ? "yes" : "no";
  if (typeof value === "number") return name.endsWith("bytes") ? bytes(value) : Number.isInteger(value) ? count(value) : String(Number(value.toPrecision(4)));
  if (typeof value === "string") return userText(shortened(value));
  if (Array.isArray(value)) return value.length <= 10 && value.every((one) => typeof one !== "object") ? userText(value.join(", ")) : count(value.length);
  return depth < DEEPEST ? facts(value, depth + 1) : count(Object.keys(value).length);
}

async function follow(job, parts, signal) {
  for await (const event of events(job.id, { signal })) {
    if (signal.aborted) return;
    if (event.type === "progress") showProgress(event.data, parts);
    else addLine(event, parts);
    if (event.type === "state") update(await get(`/v1/jobs/${job.id}`, { signal }), parts);
  }
  if (signal.aborted) return;
  const ended = await get(`/v1/jobs/${job.id}`, { signal });
  update(ended, parts);
  if (!ENDED.has(job.state)) refreshAll();
}

function showProgress(progress, parts) {
  const { done, total } = progress;
  if (typeof total === "number" && total > 0) parts.bar.value = Math.min(1, (done ?? 0) / total);
  else parts.bar.removeAttribute("value");
  parts.stage.textContent = progressOf(progress);
}

/** Return where a job is, in words: its stage, how much of it is done, and how long the rest takes at this pace. */
export function progressOf(progress) {
  if (!progress) return "";
  const { stage, done, total, unit, since } = progress;
  const isCounted = typeof total === "number" && total > 0;
  const amount = typeof done === "number" && (isCounted || done > 0) ? `${count(done)}${isCounted ? ` of ${count(total)}` : ""} ${unit ?? ""}`.trim() : "";
  return [[stage, amount].filter(Boolean).join(": "), isCounted && since && leftOf(done, total, since)].filter(Boolean).join(", ");
}

function leftOf(done, total, since) {
  const passed = Date.now() - Date.parse(since);
  if (!(done > 0) || done >= total || passed < 2_000) return "";
  const minutes = (passed * (total - done)) / done / 60_000;
  return minutes < 1 ? "less than a minute left" : minutes < 90 ? `${Math.round(minutes)} min left` : `${Math.round(minutes / 60)} h left`;
}

/** Add a line to the log, soon: many events that come at once are drawn at once, and only the last lines are drawn. */
function addLine(event, parts) {
  parts.waiting.push(event);
  if (parts.waiting.length > LOG_LINES) parts.waiting.shift();
  parts.timer ??= setTimeout(() => drawLines(parts), 50);
}

function drawLines(parts) {
  const { log, waiting } = parts;
  parts.timer = undefined;
  const isAtEnd = log.scrollHeight - log.scrollTop - log.clientHeight < 40; // a reader who has scrolled up stays there
  log.append(...waiting.splice(0).map(line));
  while (log.childElementCount > LOG_LINES) log.firstElementChild.remove();
  if (isAtEnd) log.scrollTop = log.scrollHeight;
}

function line(event) {
  const { at, message, stage, state, why, error, ...more } = event.data;
  const said = [state ?? message ?? stage ?? "", why && `because ${why}`, error?.message].filter(Boolean).join(": ");
  const rest = Object.entries(more).map(([name, value]) => `${name} ${typeof value === "object" ? JSON.stringify(value) : value}`).join(", ");
  const text = said + (rest ? ` (${rest})` : "");
  return element("li", {}, element("time", { datetime: at, title: time(at), class: "faint" }, new Date(at).toLocaleTimeString()), element("span", { class: event.type === "warning" ? "warn" : "" }, event.type === "warning" ? "warning: " : "", userText(text || event.type)));
}

byId("job-state").addEventListener("change", loadJobs);
byId("jobs-more").addEventListener("click", async () => {
  shown = MOST_SHOWN;
  await loadJobs();
  byId("jobs").querySelectorAll("tbody tr")[SHOWN]?.querySelector("a").focus(); // the button is gone: to the first of those that came
});
document.addEventListener("visibilitychange", () => { if (isDue && document.visibilityState === "visible") loadJobs(); });
window.addEventListener("pagehide", () => { clearTimeout(looking); listing.abort(); watching.abort(); });
window.addEventListener("pageshow", ({ persisted }) => { // back from another page, as it was left
  if (!persisted) return;
  loadJobs();
  if (!byId("job-box").hidden) openJob(opened, false);
});
byId("job-close").addEventListener("click", () => {
  watching.abort();
  byId("job-box").hidden = true;
  const link = [...byId("jobs").querySelectorAll("a")].find((one) => one.hash === location.hash);
  history.replaceState(null, "", location.pathname);
  (link ?? byId("job-state")).focus(); // where the reader came from, not the top of the page
});
