/** The job of an evaluation while it waits and runs: progress, the last lines of its log, cancelling and trying again. */

import { ENDED, Problem, events, get, post, untilAnswered, wait } from "./api.js";
import { element, fill, userText } from "./dom.js";
import { count, duration } from "./format.js";
import { moment, showProblem } from "./frame.js";

const LINES = 50;

/**
 * Show the job of an evaluation in a place and follow it; `onEnd(evaluation)` is called once when it has ended. Events
 * that come faster than the browser draws are drawn together, and a key that may not read events asks again instead.
 */
export async function watchEvaluation(place, evaluation, { mayFollow, signal, onEnd }) {
  const parts = {
    state: element("p", { role: "status" }), bar: element("progress", { "aria-label": "progress of this stage", max: 1 }), stage: element("p", { class: "faint" }),
    actions: element("div", { class: "row" }), problem: element("div", { "aria-live": "assertive" }), log: element("ol", { class: "log", tabindex: 0, "aria-label": "Log of the job" }),
  };
  fill(place, parts.state, parts.bar, parts.stage, parts.problem, parts.actions, mayFollow && element("details", {}, element("summary", {}, "Log"), parts.log));
  const again = (changed) => watchEvaluation(place, changed, { mayFollow, signal, onEnd });
  const show = (changed) => { if (!signal.aborted) showState(changed, parts, again); };
  show(evaluation);
  if (ENDED.has(evaluation.state)) return;
  const ended = mayFollow ? await follow(evaluation.id, parts, show, signal) : await poll(evaluation.id, parts, show, signal);
  if (ended !== null && !signal.aborted) onEnd(ended);
}

const ask = (id, signal) => untilAnswered(() => get(`/v1/evaluations/${id}`, { signal }), { signal });

async function follow(id, parts, show, signal) {
  const waiting = { progress: null, lines: [], isScheduled: false };
  const draw = () => {
    waiting.isScheduled = false;
    if (signal.aborted) return;
    if (waiting.progress !== null) showProgress(waiting.progress, parts);
    parts.log.append(...waiting.lines.slice(-LINES).map(lineOf));
    while (parts.log.childElementCount > LINES) parts.log.firstElementChild.remove();
    waiting.progress = null;
    waiting.lines = [];
  };
  for await (const event of events(id, { signal })) {
    if (signal.aborted) return null;
    if (event.type === "progress") waiting.progress = event.data;
    else waiting.lines.push(event);
    if (waiting.lines.length > 2 * LINES) waiting.lines.splice(0, LINES);
    if (!waiting.isScheduled) { waiting.isScheduled = true; requestAnimationFrame(draw); }
    if (event.type === "state" && !ENDED.has(event.data.state)) show(await ask(id, signal));
  }
  if (signal.aborted) return null;
  const ended = await ask(id, signal);
  show(ended);
  return ENDED.has(ended.state) ? ended : null;
}

async function poll(id, parts, show, signal) {
  for (let pause = 500; !signal.aborted; pause = Math.min(4_000, pause * 1.3)) {
    const now = await ask(id, signal);
    show(now);
    if (now.progress) showProgress(now.progress, parts);
    if (ENDED.has(now.state)) return now;
    await wait(pause, signal);
  }
  return null;
}

function showState(job, parts, again) {
  const isOver = ENDED.has(job.state);
  const words = { queued: "waits for its turn", running: "runs", done: "done", failed: "failed", cancelled: "cancelled" };
  fill(parts.state, element("strong", { class: { failed: "bad", done: "good" }[job.state] ?? "" }, words[job.state] ?? job.state),
    job.cancel_requested && !isOver ? "; it is asked to stop" : "", ", asked for ", moment(job.created), job.started && isOver ? `, took ${duration(job.started, job.finished)}` : "");
  parts.bar.hidden = job.state !== "running";
  parts.stage.hidden = isOver;
  const act = (label, send) => element("button", { type: "button", onclick: async (event) => {
    event.target.disabled = true;
    try {
      const changed = await send();
      showProblem(parts.problem, null);
      if (isOver) await again(changed);
      else event.target.textContent = "Asked to stop";
    } catch (error) {
      if (error instanceof Problem && error.status === 409 && !isOver) return; // it ended meanwhile, and its end is coming
      showProblem(parts.problem, error);
      event.target.disabled = false;
    }
  } }, label);
  fill(parts.actions, !isOver && !job.cancel_requested && act("Cancel", () => post(`/v1/evaluations/${job.id}/cancel`)),
    ["failed", "cancelled"].includes(job.state) && act("Try again", () => post(`/v1/evaluations/${job.id}/retry`)));
  if (job.error) fill(parts.problem, element("div", { class: "notice bad" }, element("p", {}, userText(job.error.message ?? job.error.code ?? "")), job.error.remedy && element("p", {}, "What helps: ", userText(job.error.remedy))));
}

function showProgress({ stage, done, total, unit }, parts) {
  if (typeof total === "number" && total > 0) parts.bar.value = Math.min(1, (done ?? 0) / total);
  else parts.bar.removeAttribute("value");
  parts.stage.textContent = `${stage ?? ""}${typeof done === "number" ? `: ${count(done)}${typeof total === "number" ? ` of ${count(total)}` : ""} ${unit ?? ""}` : ""}`;
}

function lineOf({ type, data }) {
  const { at, message, stage, state, why, error } = data;
  const words = [state ?? message ?? stage ?? type, why && `because ${why}`, error?.message].filter(Boolean).join(": ");
  return element("li", {}, element("time", { datetime: at, class: "faint" }, new Date(at).toLocaleTimeString()), element("span", { class: type === "warning" ? "warn" : "" }, type === "warning" ? "warning: " : "", userText(words)));
}
