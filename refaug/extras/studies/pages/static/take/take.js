/** The participants' page: it draws the state that the study answers, whichever tab or device has changed it. */

import { byId, element, fill } from "../dom.js";
import { askReason, confirmAct, showData, showLink } from "./asking.js";
import { Refusal, act, begin, drafts, forgetAll, isBusy, onConnection, ownData, refresh, resumeLink } from "./session.js";
import { consentStep, doneStep, guidelines, linkStep, readyStep, trainingStep, wordsStep } from "./steps.js";
import { createTask } from "./task.js";
import { directionOf, say, speak, spokenLanguage } from "./words.js";

const PAUSES_MS = [50, 100, 200, 500, 1_000]; // between two looks for a reply
let view = null, viewKey = "", last = null, polls = 0, timer = 0, isWaiting = false;

const ENDS = new Set(["done", "screened_out", "closed", "withdrawn", "full"]);
const hooks = { onTrouble, onward: (state) => { view.isHeld = false; draw(state); }, onWaiting };

// ── drawing ───────────────────────────────────────────────────────────────────────────────────────────────────────────

const isChat = ({ task }) => task.kind === "chat";
const keyOf = (state) => [state.step, state.step === "task" ? state.task.id : "", state.step === "training" ? `${state.training.item.id}/${state.training.attempt}` : "", state.step === "ready" ? state.progress?.done : ""].join(" ");

function create(state) {
  switch (state.step) {
    case "consent": return consentStep(state, hooks);
    case "training": return trainingStep(state, hooks);
    case "ready": return readyStep(state, hooks);
    case "task": return createTask(state, hooks);
    case "done": return doneStep(state);
    default: return wordsStep(state);
  }
}

async function speakAs({ language, words }) {
  await speak(language, words);
  document.documentElement.lang = spokenLanguage();
  document.documentElement.dir = directionOf(spokenLanguage());
  byId("skip-link").textContent = say("skip_link");
}

function draw(state) {
  last = state;
  showFrame(state);
  if (view?.isHeld && state.step !== "withdrawn") return; // the result of a practice is being read
  const key = keyOf(state);
  if (key === viewKey) { view.update(state); return; }
  const isFirst = view === null;
  if (state.step === "task") drafts.keepOnly(state.task.id);
  if (ENDS.has(state.step)) forgetAll();
  clearNote();
  onWaiting(false);
  viewKey = key;
  view = create(state);
  fill(byId("view"), state.step === "task" && guidelines(state.study, isChat(state) && matchMedia("(min-width: 64rem)").matches, isChat(state)), view.node);
  byId("view").removeAttribute("aria-busy");
  if (!isFirst) { window.scrollTo(0, 0); view.focus(); }
}

/** Show what stands around every step: the study, how far one is, and what one may do at any time. */
function showFrame({ study, step, progress, can_undo: canUndo }) {
  document.title = study.title || say("title");
  byId("take-bar").hidden = false;
  fill(byId("study-title"), element("bdi", {}, study.title || say("title")));
  const { done = 0, of = 0 } = progress ?? {};
  byId("study-progress").textContent = of > 0 && !["consent", "training"].includes(step) ? say("of", { done, of }) : "";
  byId("study-bar").max = Math.max(1, of);
  byId("study-bar").value = done;
  byId("study-bar").hidden = of === 0;
  showFoot(step, canUndo, study.skips_left);
  if (study.state === "paused" && !ENDS.has(step)) note(say("paused"), "warn");
}

function showFoot(step, canUndo, skipsLeft) {
  const foot = byId("take-foot"), inside = !["consent", "withdrawn", "screened_out", "full", "closed"].includes(step);
  const wanted = `${step} ${canUndo} ${skipsLeft}`;
  foot.hidden = !inside;
  if (!inside || foot.dataset.shows === wanted) return;
  const focused = document.activeElement?.id;
  foot.dataset.shows = wanted;
  const button = (id, name, onclick) => element("button", { type: "button", class: "small", id, onclick }, say(name));
  fill(foot,
    canUndo && button("undo", "undo", () => act("undo").catch(onTrouble)),
    step === "task" && skipsLeft !== 0 && button("skip", "skip", () => askReason((reason) => act(`tasks/${last.task.id}/skip`, { reason }).catch(onTrouble))),
    resumeLink() && button("elsewhere", "elsewhere", () => showLink(resumeLink())),
    button("my-data", "my_data", () => ownData().then(showData, onTrouble)),
    step !== "done" && element("span", { class: "foot-end" }, button("withdraw", "withdraw", () => confirmAct({ title: say("withdraw"), text: say("withdraw_text"), yes: say("withdraw_yes"), act: () => act("withdraw").catch(onTrouble) }))));
  if (focused && foot.querySelector(`#${CSS.escape(focused)}`)) byId(focused).focus();
}

// ── notes ─────────────────────────────────────────────────────────────────────────────────────────────────────────────

const note = (text, kind = "warn") => fill(byId("note"), element("p", { class: `notice ${kind}` }, text));
const clearNote = () => fill(byId("note"));

/** Say kindly what was refused, and show how things stand: another tab may have gone on. */
async function onTrouble(error) {
  if (!(error instanceof Refusal)) throw error;
  if (error.status === 401) { showNoLink(error); return; }
  const before = viewKey;
  await refresh().catch(() => undefined);
  const isElsewhere = error.status === 404 || error.status === 409;
  note(viewKey !== before && isElsewhere ? say("changed_elsewhere") : [error.document.detail, error.document.remedy].filter(Boolean).join(" – "));
}

function showNoLink(error) {
  view = linkStep(error);
  viewKey = "link";
  byId("take-foot").hidden = true;
  fill(byId("view"), view.node);
  byId("view").removeAttribute("aria-busy");
}

onConnection((isThere) => {
  byId("connection").hidden = isThere;
  byId("connection").textContent = isThere ? "" : last?.study.texts?.trouble ?? say("away");
});

// ── what happens without an act of this page ──────────────────────────────────────────────────────────────────────────

/** Ask while a reply is being made; the answer comes when it is there. */
function onWaiting(now) {
  if (now && !isWaiting) polls = 0;
  isWaiting = now;
  if (!isWaiting) { clearTimeout(timer); timer = 0; } else if (!timer) timer = setTimeout(poll, PAUSES_MS[Math.min(polls, PAUSES_MS.length - 1)]);
}

async function poll() {
  polls += 1;
  if (!isBusy()) await refresh({ isWaiting: true }).catch((error) => { if (error instanceof Refusal && error.status === 401) showNoLink(error); });
  timer = 0;
  if (isWaiting) onWaiting(true);
}

window.addEventListener("hashchange", () => location.reload()); // another link in the same tab
document.addEventListener("visibilitychange", () => { if (document.visibilityState === "visible" && last && !isBusy()) refresh().catch(() => undefined); });
window.addEventListener("focus", () => { if (last && !isBusy()) refresh().catch(() => undefined); });

document.addEventListener("keydown", (event) => {
  if (!/^[0-9]$/.test(event.key) || event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
  if (event.target.closest?.("textarea, select, input:not([type=radio], [type=checkbox], [type=range])")) return;
  if (view?.press?.(Number(event.key))) event.preventDefault();
});

byId("waiting").textContent = say("waiting");
let spoken = null; // once, before anything is drawn
begin(async (state) => {
  await (spoken ??= speakAs(state.study));
  draw(state);
}).catch(showNoLink);
