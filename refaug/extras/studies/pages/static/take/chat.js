/** A conversation with one chatbot, or with two side by side: what is said, what is being written, and votes. */

import { drawing, element } from "../dom.js";
import { spoken } from "./dialogues.js";
import { Refusal, act, drafts } from "./session.js";
import { say, studyLanguage } from "./words.js";

const MOST = 2_000; // characters of a message, where the study does not say
const TYPING = { perCharacter: 0.04, before: 0.15, by: 3 }; // seconds of typing: (0.04 a character + 0.15) / 3

const roleOf = (side, role) => (role === "participant" ? say("you") : side === "left" ? say("bot_left") : side === "right" ? say("bot_right") : say("bot"));

/** Return a conversation: `{node, end, update, canClose, replies}`, with `end` the row that stays in sight; `onChange` hears when it may be closed and when enough was said, `onTrouble` of refusals. */
export function createChat(task, study, { onChange, onTrouble }) {
  const isPair = task.sides.length > 1;
  const logs = task.sides.map(({ side }) => ({ side, node: element("div", { class: "log-of-chat", role: "log", "aria-live": "polite", "aria-label": isPair ? roleOf(side, "bot") : say("conversation") }), rows: new Map() }));
  const status = element("p", { class: "faint chat-status", role: "status" });
  const input = element("textarea", { id: "message", rows: 1, dir: "auto", lang: studyLanguage(), autocomplete: "off", "aria-describedby": "message-help", placeholder: say("message"), "aria-label": say("message") });
  const help = element("p", { id: "message-help", class: "faint", role: "status", hidden: true });
  const button = element("button", { type: "submit", class: "primary", id: "send" }, say("send"));
  const end = element("div", { class: "row apart chat-end" }, status);
  const composer = element("form", { class: "composer", onsubmit: (event) => { event.preventDefault(); send(); } }, element("div", { class: "composer-row" }, input, button), help);
  const why = element("p"), ways = element("div", { class: "row" }, element("button", { type: "button", id: "ask-again", onclick: () => askAgain() }, say("ask_again")),
    element("button", { type: "button", id: "other-task", onclick: () => act(`tasks/${current.id}/skip`, { reason: "bot_failed" }).catch(onTrouble) }, say("other_task")));
  const failure = element("div", { class: "notice warn", hidden: true, id: "failure", role: "status" }, why, ways);
  const node = element("div", { class: "chat" },
    element("div", { class: isPair ? "sides" : "one-side" }, logs.map((log) => (isPair ? element("section", { class: "panel", "aria-label": roleOf(log.side, "bot") }, element("h2", {}, roleOf(log.side, "bot")), log.node) : log.node))),
    failure, element("div", { class: "chat-bar" }, composer, end));
  const most = study.max_message_chars ?? MOST;
  let current = task, isFirst = true, pending = null, sentAt = 0;
  const held = new Set(); // replies that are there and not shown yet
  const isPaced = study.delay !== "none";

  // ── what is said ────────────────────────────────────────────────────────────────────────────────────────────────────

  function update(next) {
    current = next;
    if (pending && next.sides.every(({ messages }) => messages.some((message) => message.role === "participant" && message.n >= pending.n))) pending = null;
    for (const log of logs) {
      const { messages } = next.sides.find(({ side }) => side === log.side);
      const places = new Set(messages.map(keyOf));
      for (const [key, row] of log.rows) if (!places.has(key)) { row.node.remove(); log.rows.delete(key); } // taken back
      for (const message of messages) showMessage(log, message);
      showPending(log, messages);
    }
    isFirst = false;
    showState();
  }

  const keyOf = ({ role, n }) => `${role}-${n}`;

  function showMessage(log, message) {
    const key = keyOf(message), row = log.rows.get(key);
    if (message.role === "bot" && ["asked", "failed"].includes(message.state)) return;
    if (row) { row.vote?.(message.vote ?? 0); return; }
    if (message.role === "bot" && isPaced && isAwaited(message.n)) return; // or the quicker bot of a pair would be known by it
    if (message.role === "bot" && !isFirst && !held.has(`${log.side}-${key}`)) {
      const pause = isPaced ? typingMs(message.n) - (performance.now() - sentAt) : 0;
      if (pause > 0) {
        held.add(`${log.side}-${key}`);
        setTimeout(() => { held.delete(`${log.side}-${key}`); addMessage(log, message); showState(); }, pause);
        return;
      }
    }
    if (!held.has(`${log.side}-${key}`)) addMessage(log, message);
  }

  const repliesTo = (n) => current.sides.flatMap(({ messages }) => messages.filter((message) => message.role === "bot" && message.n === n));
  const isAwaited = (n) => repliesTo(n).some(({ state }) => state === "asked");
  /** Return how long a person would have typed: both replies of a pair come together, when the longer one would be there. */
  const typingMs = (n) => ((TYPING.perCharacter * Math.max(...repliesTo(n).map(({ text }) => [...(text ?? "")].length)) + TYPING.before) / TYPING.by) * 1_000;

  function addMessage(log, message) {
    if (log.rows.has(keyOf(message))) return;
    const isBot = message.role === "bot", hasReply = message.state !== "unanswered", votes = isBot && hasReply && study.votes && !isOpening(log.side, message) ? voteButtons(log.side, message) : null;
    const text = hasReply ? spoken(message.text) : element("span", { class: "faint" }, say("no_reply"));
    const row = element("div", { class: `message ${message.role}`, dataset: { n: message.n } }, element("span", { class: "speaker" }, roleOf(log.side, message.role)), text, votes?.node);
    log.rows.set(keyOf(message), { node: row, vote: votes?.show, text, message });
    log.node.querySelector(".pending")?.remove();
    log.node.append(row);
    showDots(log, false);
    if (!isFirst) row.scrollIntoView({ block: "nearest" });
  }

  /** Show that a reply is coming, in each conversation alike, until it is there. */
  function showDots(log, isComing) {
    const dots = log.node.querySelector(".typing");
    if (!isComing) dots?.remove();
    else if (dots) log.node.append(dots);
    else log.node.append(element("div", { class: "typing", "aria-hidden": "true" }, element("span"), element("span"), element("span")));
  }

  function showPending(log, messages) {
    log.node.querySelector(".pending")?.remove();
    if (!pending || messages.some((message) => message.role === "participant" && message.n >= pending.n)) return;
    const row = element("div", { class: "message participant pending" }, element("span", { class: "speaker" }, say("you")), spoken(pending.text), element("span", { class: "faint" }, say("sending")));
    log.node.append(row);
    row.scrollIntoView({ block: "nearest" });
  }

  // ── votes ───────────────────────────────────────────────────────────────────────────────────────────────────────────

  function voteButtons(side, message) {
    let value = message.vote ?? 0;
    const arrow = (points) => drawing("svg", { viewBox: "0 0 16 16", width: 16, height: 16, "aria-hidden": "true", class: "arrow" }, drawing("path", { d: points }));
    const make = (wanted, name, points) => element("button", { type: "button", class: "vote", "aria-label": `${say(name)} (${message.n})`, onclick: () => {
      const before = value;
      show(value === wanted ? 0 : wanted);
      act(`tasks/${current.id}/votes`, { n: message.n, ...(isPair ? { side } : {}), value }).catch((error) => { show(before); onTrouble(error); });
    } }, arrow(points));
    const up = make(1, "up", "M8 2 14 9H10V14H6V9H2Z"), down = make(-1, "down", "M8 14 2 7H6V2H10V7H14Z");
    function show(next) {
      value = next;
      up.setAttribute("aria-pressed", String(value === 1));
      down.setAttribute("aria-pressed", String(value === -1));
    }
    show(value);
    return { node: element("span", { class: "votes" }, up, down), show };
  }

  // ── saying something ────────────────────────────────────────────────────────────────────────────────────────────────

  const lastOf = (role) => current.sides[0].messages.findLast((message) => message.role === role);
  const isOpening = (side, { n }) => !current.sides.find((one) => one.side === side).messages.some((message) => message.role === "participant" && message.n < n);
  const newest = () => current.sides.map(({ messages }) => messages.at(-1)).filter(Boolean);
  const isAsked = () => newest().some((message) => message.role === "participant" || message.state === "asked");
  const hasFailed = () => newest().some((message) => message.state === "failed");
  const isUnanswered = () => newest().length > 0 && newest().every((message) => message.state === "unanswered");
  function turnsDone() { // of those, some bot has a reply
    const replies = current.sides.flatMap(({ messages }) => messages.filter(({ role, n }) => role === "bot" && n > 1));
    const asked = new Set(replies.filter(({ state }) => state === "asked").map(({ n }) => n));
    return new Set(replies.filter(({ state, n }) => state === "answered" && !asked.has(n)).map(({ n }) => n)).size;
  }
  const isAtEnd = () => study.max_turns > 0 && turnsDone() >= study.max_turns;
  const canClose = () => turnsDone() >= (study.min_turns ?? 0) && !pending && !isAsked() && held.size === 0;

  function send() {
    const text = input.value, count = [...text].length;
    if (!text.trim() || count > most || !mayWrite()) { showHelp(); return; }
    pending = { n: Math.max(0, ...newest().map((message) => message.n)) + 1, text };
    sentAt = performance.now();
    input.value = "";
    drafts.drop(`${current.id}/message`);
    update(current);
    act(`tasks/${current.id}/messages`, pending).catch((error) => {
      if (pending && !input.value) input.value = pending.text; // what was refused is not lost
      pending = null;
      update(current);
      onTrouble(error);
      if (error instanceof Refusal && [413, 422].includes(error.status)) showHelp();
    });
  }

  function askAgain() {
    sentAt = performance.now();
    failure.hidden = true;
    act(`tasks/${current.id}/retry`).catch(onTrouble);
  }

  const mayWrite = () => !pending && !isAsked() && held.size === 0 && !isAtEnd() && !hasFailed();

  function showState() {
    const isWriting = Boolean(pending) || isAsked() || held.size > 0, done = turnsDone();
    const isEnough = done >= Math.max(1, study.min_turns ?? 0), mayClose = canClose();
    const turns = done < (study.min_turns ?? 0) ? say("least_turns", { done, least: study.min_turns }) : say("more_turns", { done });
    for (const log of logs) showDots(log, isWriting && !pending);
    failure.hidden = isWriting || !(hasFailed() || isUnanswered());
    ways.hidden = !hasFailed();
    const reason = say(hasFailed() ? "failed" : "unanswered");
    if (why.textContent !== reason) why.textContent = reason;
    const words = isAtEnd() && !isWriting ? say("end", { most: study.max_turns }) : `${turns} · ${isWriting ? `${isPair ? `${say("bot_left")}, ${say("bot_right")}` : say("bot")} ${say("writing")}` : say(isEnough ? "enough" : "your_turn")}`;
    if (status.textContent !== words) status.textContent = words;
    status.classList.toggle("writing", isWriting);
    button.disabled = !mayWrite();
    composer.hidden = isAtEnd() && !isWriting;
    button.classList.toggle("primary", !isEnough); // one of the two invites
    onChange({ canClose: mayClose, isEnough, isWaiting: isAsked() });
  }

  function showHelp() {
    const count = [...input.value].length, isLong = count > most;
    help.hidden = count < most * 0.8;
    const numbers = { count: count.toLocaleString(studyLanguage()), most: most.toLocaleString(studyLanguage()) };
    help.textContent = say(isLong ? "long" : "characters_left", numbers);
    help.classList.toggle("bad", isLong);
    input.setAttribute("aria-invalid", String(isLong));
    button.disabled = isLong || !mayWrite();
  }

  /** Return the replies that may be asked about, while the conversation is rated; a fixed opening is none. */
  function replies(isRating) {
    for (const log of logs) log.node.setAttribute("aria-live", isRating ? "off" : "polite"); // questions are no messages
    return logs.flatMap(({ side, rows }) => [...rows.values()].filter(({ message: { role, n, state } }) => role === "bot" && state === "answered" && !(study.opening === "fixed" && n === 1)).map((row) => ({ side, ...row })));
  }

  input.addEventListener("input", () => { drafts.set(`${current.id}/message`, input.value.slice(0, 20_000)); showHelp(); });
  input.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    send();
  });
  input.value = drafts.get(`${task.id}/message`) ?? "";
  update(task);
  return { node, end, update, canClose, replies, focus: () => input.focus() };
}

