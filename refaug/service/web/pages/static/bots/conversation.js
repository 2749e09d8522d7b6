/** A conversation with a bot, or with two beside each other: what each replies, how long it took, and from what. */

import { post } from "../api.js";
import { byId, element, fill, userText } from "../dom.js";
import { score } from "../format.js";
import { problemBox } from "../frame.js";
import { reasonOf, titleOf } from "./bot_kinds.js";
import { timeAndTokens } from "./bot_states.js";

/** Return the conversation with a bot; `others` can be asked beside it, and `onAsked` hears when an answer is there. */
export function conversation(bot, others, onAsked) {
  const columns = [], place = element("div", { class: "talks" });
  let seed = 1;
  const input = element("textarea", { id: "talk-text", rows: 1, dir: "auto", maxlength: 20_000, placeholder: "Where can I buy tea?", onkeydown: (event) => {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) { event.preventDefault(); form.requestSubmit(); }
  } });
  const send = element("button", { type: "submit", class: "primary", id: "talk-send" }, "Send");
  const beside = element("select", { id: "talk-beside", onchange: () => begin() }, element("option", { value: "" }, "no other"), others.map((other) => element("option", {}, other.name)));
  const again = element("button", { type: "button", class: "small", id: "talk-again", onclick: () => begin() }, "Start again");
  const redraw = element("button", { type: "button", class: "small", id: "talk-seed", title: "start again with another seed: replies that are drawn become others", onclick: () => { seed += 1; begin(); } }, "Another seed");
  const form = element("form", { class: "talk-form" },
    element("label", { for: "talk-text", class: "visually-hidden" }, "Message"), input, send);

  const begin = () => {
    columns.splice(0, columns.length, ...[bot, ...others.filter((other) => other.name === beside.value)].map(newColumn));
    fill(place, columns.map((column) => column.node));
    for (const node of [again, redraw]) node.disabled = true;
  };
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const text = input.value.trim();
    if (!text || send.disabled) return;
    input.value = "";
    send.disabled = true;
    await Promise.all(columns.map((column) => ask(column, text, seed)));
    for (const node of [send, again, redraw]) node.disabled = false;
    input.focus();
    onAsked();
  });
  begin();
  return element("div", { id: "talk" }, place, form,
    element("div", { class: "row talk-tools" }, element("span", { class: "row" }, again, redraw), others.length > 0 && element("span", { class: "row" }, element("label", { for: "talk-beside", class: "inline" }, "Beside it"), beside)));
}

function newColumn(bot) {
  const list = element("ol", { class: "plain talk", "aria-label": `Conversation with ${bot.name}`, "aria-live": "polite", tabindex: 0 });
  const column = { bot, list, turns: [], node: null };
  column.node = element("div", { class: "talk-column" }, element("h3", {}, userText(bot.name), element("span", { class: "faint" }, ` ${titleOf(bot.kind).toLowerCase()}`)), list);
  fill(list, element("li", { class: "faint talk-empty" }, "Say something: the whole conversation is sent each time, and nothing of it is kept here."));
  return column;
}

/** Send a message to one bot and show what comes; a message without a reply is no turn of the conversation. */
async function ask(column, text, seed) {
  column.list.querySelector(".talk-empty")?.remove();
  const waiting = element("li", { class: "said bot waiting" }, element("span", { class: "dots", "aria-hidden": "true" }), element("span", { class: "visually-hidden" }, `${column.bot.name} is asked`));
  column.list.append(element("li", { class: "said you" }, userText(text)), waiting);
  column.list.scrollTop = column.list.scrollHeight;
  const turns = [...column.turns, text];
  try {
    const { replies: [reply] } = await post(`/v1/bots/${column.bot.name}/replies`, { dialogues: [{ turns, seed }], ...(column.bot.kind === "retrieval" ? { retrieved: true } : {}) });
    if (reply.reply !== null) column.turns = [...turns, reply.reply];
    waiting.replaceWith(reply.reply === null ? noReply(reply) : replied(reply));
  } catch (error) {
    waiting.replaceWith(element("li", { class: "said bot" }, problemBox(error)));
  }
  column.list.scrollTop = column.list.scrollHeight;
}

const replied = (reply) => element("li", { class: "said bot" }, userText(reply.reply), element("div", { class: "faint" }, timeAndTokens(reply)), candidates(reply));

function noReply(reply) {
  return element("li", { class: "said bot none" }, element("p", {}, "No reply: ", reasonOf(reply.problem), "."), reply.detail && element("p", { class: "faint" }, userText(reply.detail)),
    element("div", { class: "faint" }, element("code", {}, reply.problem), ` · ${timeAndTokens(reply)}`));
}

/** Return what was retrieved, the reply among it marked. */
function candidates(reply) {
  if (!reply.retrieved?.length) return null;
  let isMarked = false;
  return element("details", { class: "retrieved" }, element("summary", {}, `What was retrieved (${reply.retrieved.length})`), element("ol", {}, reply.retrieved.map((one) => {
    const isChosen = !isMarked && one.text === reply.reply;
    isMarked ||= isChosen;
    return element("li", { class: isChosen ? "chosen" : null }, userText(one.text), isChosen && element("span", { class: "badge good" }, "replied"),
      element("div", { class: "faint" }, `${score(one.similarity)} similar`, one.utterance && [" · answered ", userText(one.utterance)], one.log && ` · log ${one.log}`));
  })));
}

/** Put the cursor where a message is written. */
export const focusTalk = () => byId("talk-text")?.focus();
