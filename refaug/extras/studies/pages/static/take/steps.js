/** The steps around the tasks: consent, practice, what to do, and every way in which a study ends. */

import { element, fill } from "../dom.js";
import { itemOf, paragraphs } from "./dialogues.js";
import { createForm } from "./forms.js";
import { act, forgetAll, resumeLink } from "./session.js";
import { say, studyLanguage } from "./words.js";

const heading = (text) => element("h1", { tabindex: "-1" }, text);
const ownWords = (text) => element("div", { class: "own-words", lang: studyLanguage() }, paragraphs(text, 2));

/** Return a view without anything to change. */
const plain = (...content) => {
  const node = element("div", { class: "step" }, content);
  return { node, update: () => undefined, focus: () => node.querySelector("h1")?.focus() };
};

/** What to do, open where it is read for the first time. */
export function guidelines(study, isOpen, isBeside = false) {
  if (!study.guidelines) return null;
  const text = ownWords(study.guidelines);
  if (isBeside) text.tabIndex = 0; // it scrolls by itself
  return element("details", { class: isBeside ? "panel guidelines beside" : "panel guidelines", open: isOpen }, element("summary", {}, say("guidelines")), text);
}

// ── consent and screening ─────────────────────────────────────────────────────────────────────────────────────────────

export function consentStep(state, { onTrouble }) {
  const { consent } = state;
  const agree = element("input", { type: "checkbox", id: "agree", onchange: () => { problem.hidden = true; } });
  const problem = element("p", { class: "bad problem", id: "agree-problem", role: "alert", hidden: true }, say("agree_first"));
  const screening = createForm({ questions: consent.screening ?? [] }, { onAnswer: () => undefined });
  const button = element("button", { type: "submit", class: "primary large", id: "begin" }, say("begin"));
  const decline = element("button", { type: "button", class: "link", id: "decline", onclick: () => { forgetAll(); fill(node, heading(say("declined")), element("p", {}, say("declined_text"))); node.querySelector("h1").focus(); } }, say("decline"));
  const form = element("form", { onsubmit: async (event) => {
    event.preventDefault();
    if (screening.showMissing() > 0) return;
    problem.hidden = agree.checked;
    if (!agree.checked) { agree.focus(); return; }
    button.disabled = true;
    try {
      await act("consent", { sha256: consent.sha256, agree: true, screening: screening.values() });
    } catch (error) {
      onTrouble(error);
    }
    button.disabled = false;
  }, novalidate: true }, !screening.isEmpty && screening.node,
  element("label", { class: "option agree", for: "agree" }, agree, element("span", { class: "option-text" }, say("agree"))), problem,
  element("div", { class: "row form-end" }, button, decline));
  const node = element("div", { class: "step" }, heading(say("consent")), state.study.texts?.welcome && ownWords(state.study.texts.welcome), element("div", { class: "panel" }, ownWords(consent.text)), factsOf(state.study), linkBox(), form);
  return { node, update: () => undefined, focus: () => node.querySelector("h1").focus(), press: (digit) => screening.press(digit) };
}

/** Return the link to go on elsewhere, which nobody can look up later. */
function linkBox() {
  const link = resumeLink();
  return link && element("details", { class: "panel", id: "keep-link" }, element("summary", {}, say("keep_link")), element("p", {}, say("elsewhere_text")), element("pre", { tabindex: 0, id: "start-link", dir: "ltr", "aria-label": say("keep_link") }, link));
}

/** Return what one should know beforehand, and what the protocol says of it. */
function factsOf({ pay, adult_content: isAdult }) {
  const money = pay && new Intl.NumberFormat(studyLanguage(), { style: "currency", currency: pay.currency }).format(pay.amount);
  return [pay && element("p", { id: "pay" }, say(pay.minutes > 0 ? "pay_minutes" : "pay", { money, minutes: pay.minutes })), isAdult && element("p", { class: "notice warn" }, say("adult"))];
}

// ── practice ──────────────────────────────────────────────────────────────────────────────────────────────────────────

export function trainingStep(state, { onTrouble, onward }) {
  const { training, study } = state;
  const form = createForm(training.form, { scopes: ["task", "side"], onAnswer: () => undefined });
  const result = element("div", { role: "status" });
  const button = element("button", { type: "submit", class: "primary large", id: "check" }, say("check_answers"));
  const box = element("form", { novalidate: true, class: "panel form-box", onsubmit: async (event) => {
    event.preventDefault();
    if (form.showMissing() > 0) return;
    button.disabled = true;
    view.isHeld = true; // until the result is read
    try {
      const { done, state: next } = await act("training", { item: training.item.id, answers: form.values() });
      showResult(done?.feedback ?? next.training?.feedback ?? null, next);
    } catch (error) {
      view.isHeld = false;
      onTrouble(error);
      button.disabled = false;
    }
  } }, element("h2", {}, say("rate")), form.node, result, element("div", { class: "row form-end" }, button));

  function showResult(feedback, next) {
    if (feedback === null) { onward(next); return; }
    const { right, text, answers } = feedback;
    form.showResult(answers);
    const go = element("button", { type: "button", class: "primary large", id: "go-on", onclick: () => onward(next) }, say("go_on"));
    fill(result, element("p", { class: right ? "good" : "bad" }, say(right ? "all_right" : "not_all_right")), text && element("p", { lang: studyLanguage(), dir: "auto" }, text));
    button.replaceWith(go);
    go.focus();
  }

  const node = element("div", { class: "step" }, heading(say("training")),
    element("p", { class: "faint" }, `${training.position} / ${training.of}`),
    training.attempt > 1 ? element("p", { class: "notice warn" }, say("training_again")) : element("p", { class: "lead" }, say("training_text")),
    guidelines(study, training.position === 1), element("div", { class: "task-parts" }, element("div", { class: "item" }, itemOf(training.item)), box));
  const view = { node, isHeld: false, update: () => undefined, focus: () => node.querySelector("h1").focus(), press: (digit) => form.press(digit) };
  return view;
}

// ── between tasks ─────────────────────────────────────────────────────────────────────────────────────────────────────

export function readyStep(state, { onTrouble }) {
  const isFirst = (state.progress?.done ?? 0) === 0;
  const button = element("button", { type: "button", class: "primary large", id: "start-task", onclick: async () => {
    button.disabled = true;
    try {
      await act("tasks/next");
    } catch (error) {
      onTrouble(error);
    }
    button.disabled = false;
  } }, isFirst ? say("start_task") : say("next_task"));
  return plain(heading(isFirst ? say("ready_first") : say("ready")), guidelines(state.study, isFirst), element("div", { class: "row form-end" }, button));
}

// ── ends ──────────────────────────────────────────────────────────────────────────────────────────────────────────────

export const doneStep = ({ study, completion }) => plain(heading(say("done")), study.texts?.thanks ? ownWords(study.texts.thanks) : element("p", {}, say("done_text")), completionBox(completion));

/** Return the code and the way back, as recruiting services want them. */
function completionBox(completion) {
  const { code, return_url: back } = completion ?? {};
  const shown = element("code", { id: "code", class: "code" }, code ?? "");
  const copy = element("button", { type: "button", id: "copy-code", onclick: async () => {
    try {
      await navigator.clipboard.writeText(code);
      copy.textContent = say("copied");
    } catch {
      getSelection().selectAllChildren(shown); // it can be copied by hand
    }
  } }, say("copy"));
  return [code && element("section", { class: "panel", "aria-label": say("code") }, element("h2", {}, say("code")), element("p", {}, shown), element("p", { class: "faint" }, say("code_text")), copy),
    isWebAddress(back) && element("p", {}, element("a", { href: back, id: "return", class: "button", rel: "noreferrer" }, say("return")))];
}

function isWebAddress(text) {
  try {
    return ["https:", "http:"].includes(new URL(text).protocol);
  } catch {
    return false;
  }
}

/** A step that only says how things stand, in words of the study where it has some. */
export function wordsStep({ step, study, completion }) {
  const own = study.texts?.[step];
  return plain(heading(say(step)), own ? ownWords(own) : element("p", {}, say(`${step}_text`)), step === "screened_out" && completionBox(completion));
}

/** The link does not lead anywhere, or there is none. */
export function linkStep(error) {
  const { detail, remedy } = error?.document ?? {}, isUnknown = error?.status !== 401 && detail;
  return plain(heading(say("link_bad")), element("p", {}, isUnknown ? sentence(detail) : say("link_missing")), isUnknown && remedy ? element("p", {}, sentence(remedy)) : null);
}

const sentence = (text) => `${text[0].toUpperCase()}${text.slice(1)}${/[.!?]$/.test(text) ? "" : "."}`;
