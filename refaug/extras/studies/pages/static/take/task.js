/** One task: a conversation and then its rating, or something to read and rate; skipping, taking back, finishing. */

import { element, fill } from "../dom.js";
import { createChat } from "./chat.js";
import { itemOf } from "./dialogues.js";
import { createForm } from "./forms.js";
import { act, drafts } from "./session.js";
import { markableText } from "./spans.js";
import { say } from "./words.js";

const isChat = (kind) => kind === "chat" || kind === "chat-pair";

/** Return the view of a task: `{node, update, press}`. */
export function createTask(state, { onTrouble, onWaiting }) {
  const { study } = state;
  let task = state.task, isFinishing = false;
  const forms = [], ofReplies = new Map(); // forms of the replies of a chat, by their rows
  const addForm = (more) => {
    const form = createForm(task.form, { ...more, onAnswer: (key, value, isTyping) => answer(form, more, key, value, isTyping) });
    forms.push(form);
    return form;
  };
  const heading = element("h1", { tabindex: "-1" }, isChat(task.kind) ? say("conversation") : say("rate"));
  const trouble = element("p", { class: "bad", role: "alert", hidden: true });
  const finish = element("button", { type: "button", class: "primary large", id: "finish", onclick: () => finishTask() }, say("finish"));
  const aboutReplies = element("p", { class: "notice", id: "about-replies", hidden: true }, say("rate_replies"));
  const formBox = element("section", { class: "panel form-box", "aria-label": say("rate") });
  const close = element("button", { type: "button", id: "close-chat", onclick: () => showForm(true, true) }, say("close_and_rate"));
  const back = element("button", { type: "button", class: "small", id: "back-to-chat", onclick: () => showForm(false, true) }, say("back_to_chat"));
  const chat = isChat(task.kind) ? createChat(task, study, { onTrouble, onChange: ({ canClose, isEnough, isWaiting }) => { close.disabled = !canClose; close.classList.toggle("primary", isEnough); onWaiting(isWaiting); } }) : null;
  const item = chat ? chat.node : element("div", { class: "item" }, itemOf(task, turnForm));
  buildForms();
  const node = element("div", { class: `task ${task.kind}` }, heading, aboutReplies, element("div", { class: "task-parts" }, item, formBox));
  chat?.end.append(close);
  if (chat) showForm(drafts.get(`${task.id}/screen`) === "form" && chat.canClose(), false);
  update(state);
  forms.forEach(restoreTyped);

  /** Return what is asked about a turn, and its text where parts of that can be marked. */
  function turnForm(turn, side) {
    const questions = task.form.questions.filter(({ scope }) => scope === "turn");
    if (turn.role !== "bot" || !questions.length) return null;
    const text = questions.some(({ type }) => type === "spans") ? markableText(turn.text) : null;
    const form = addForm({ scopes: ["turn"], prefix: `${side && task.sides.length > 1 ? `${side}/` : ""}${turn.n}/`, turn: turn.n, ...(side ? { side } : {}), text });
    return { form, node: form.node, text: text?.node };
  }

  /** Ask about the replies of a chat while it is rated. */
  function askAboutReplies(isForm) {
    for (const { node: row, text, message, side } of chat.replies(isForm)) {
      if (isForm && !ofReplies.has(row)) {
        const made = turnForm(message, side);
        if (!made) return;
        row.append(made.node);
        ofReplies.set(row, { ...made, plain: text });
        made.form.update(task.answers ?? {});
        restoreTyped(made.form);
      }
      const asked = ofReplies.get(row);
      if (!asked) continue;
      asked.node.hidden = !isForm;
      if (asked.text) (isForm ? asked.plain : asked.text).replaceWith(isForm ? asked.text : asked.plain);
    }
    aboutReplies.hidden = !isForm || !ofReplies.size;
  }

  function buildForms() {
    const whole = addForm({ scopes: ["task"] });
    const sides = task.sides.length > 1 ? task.sides.map(({ side }) => side) : [];
    const ofSides = sides.map((side) => ({ side, form: addForm({ scopes: ["side"], prefix: `${side}/`, side }) })).filter(({ form }) => !form.isEmpty);
    const single = sides.length ? null : addForm({ scopes: ["side"] });
    fill(formBox, element("div", { class: "row apart" }, element("h2", { tabindex: "-1", id: "form-title" }, say("rate")), chat && back), whole.node, single && !single.isEmpty && single.node,
      ofSides.length > 0 && element("div", { class: "sides" }, ofSides.map(({ side, form }) => element("section", { class: "panel", "aria-label": say(side) }, element("h3", {}, say(side)), form.node))),
      trouble, element("div", { class: "row form-end" }, finish));
  }

  /** Show the form beside the conversation, or the conversation alone. */
  function showForm(isForm, isAsked) {
    formBox.hidden = !isForm;
    close.hidden = isForm;
    node.classList.toggle("rating", isForm);
    askAboutReplies(isForm);
    if (!isAsked) return;
    drafts.set(`${task.id}/screen`, isForm ? "form" : "chat");
    if (isForm && ofReplies.size) heading.focus(); else if (isForm) { formBox.querySelector("#form-title").focus(); formBox.scrollIntoView({ block: "nearest" }); } else chat.focus();
  }

  function answer(form, { side, turn }, key, value, isTyping) {
    if (isTyping) { drafts.set(`${task.id}/answer/${key}`, value); return; }
    trouble.hidden = true;
    const name = key.slice(key.lastIndexOf("/") + 1);
    act(`tasks/${task.id}/answers`, { answers: { [name]: value }, ...(side ? { side } : {}), ...(turn === undefined ? {} : { n: turn }) }).then(() => {
      form.acknowledge(key, value);
      if (drafts.get(`${task.id}/answer/${key}`) === value) drafts.drop(`${task.id}/answer/${key}`);
    }, (error) => { if (!isFinishing) onTrouble(error); });
  }

  /** Put back what was typed here and never reached the study. */
  function restoreTyped(form) {
    for (const key of form.typedKeys) {
      const typed = drafts.get(`${task.id}/answer/${key}`);
      if (typed && task.answers?.[key] !== typed) form.restore(key, typed);
    }
  }

  async function finishTask() {
    document.activeElement?.blur?.(); // what is being typed counts
    const shown = forms.filter((form) => form.node.isConnected && !form.node.closest("[hidden]")).sort((one, other) => (one.node.compareDocumentPosition(other.node) & Node.DOCUMENT_POSITION_FOLLOWING ? -1 : 1));
    const open = shown.map((form) => form.missing().length).reduce((sum, count) => sum + count, 0);
    if (open > 0) {
      trouble.hidden = false;
      trouble.textContent = say("answer_some", { count: open });
      shown.toReversed().forEach((form) => form.showMissing()); // the first one that is open has the focus in the end
      return;
    }
    isFinishing = true;
    finish.disabled = true;
    try {
      await act(`tasks/${task.id}/finish`);
      drafts.keepOnly("none");
    } catch (error) {
      isFinishing = false;
      finish.disabled = false;
      onTrouble(error);
    }
  }

  function update(next) {
    task = next.task;
    chat?.update(task);
    if (chat && !formBox.hidden) askAboutReplies(true);
    for (const form of forms) form.update(task.answers ?? {});
  }

  return {
    node, update,
    focus: () => heading.focus(),
    press(digit) {
      if (formBox.hidden) return false;
      const form = forms.find((one) => one.node.contains(document.activeElement)) ?? forms.find((one) => one.hasOpen());
      const pressed = form?.press(digit);
      if (!pressed) return false;
      if (pressed === "answered" && !form.hasOpen()) forms.find((one) => one.hasOpen())?.focusOpen();
      return true;
    },
  };
}
