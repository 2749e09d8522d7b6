/** Texts of dialogues as they are: text nodes, each isolated in its direction, nothing of them ever markup. */

import { element } from "../dom.js";
import { say } from "./words.js";

// Control characters have no picture; everything else is shown as it was written.
const CONTROL = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/gu;

/** Return a text of somebody as an element. */
export const spoken = (text, attributes = {}) => element("bdi", { dir: "auto", class: "spoken", ...attributes }, String(text ?? "").replace(CONTROL, "\ufffd"));

/** Return paragraphs of a plain text: lines that begin with # are headings, with - list items. */
export function paragraphs(text, level = 3) {
  return String(text ?? "").split(/\n\s*\n/u).map((block) => {
    const lines = block.split("\n").filter((line) => line.trim());
    if (!lines.length) return null;
    if (lines.every((line) => /^\s*[-*] /u.test(line))) return element("ul", {}, lines.map((line) => element("li", { dir: "auto" }, line.replace(/^\s*[-*] /u, ""))));
    const heading = /^#{1,6} (.*)$/u.exec(lines[0]);
    const rest = heading ? lines.slice(1) : lines;
    return [heading && element(`h${level}`, { dir: "auto" }, heading[1]), rest.length > 0 && paragraphOrList(rest)];
  });
}

function paragraphOrList(lines) {
  const at = lines.findIndex((line) => /^\s*[-*] /u.test(line));
  if (at < 0) return element("p", { dir: "auto", class: "lines" }, lines.join("\n"));
  return [at > 0 && element("p", { dir: "auto", class: "lines" }, lines.slice(0, at).join("\n")), element("ul", {}, lines.slice(at).map((line) => element("li", { dir: "auto" }, line.replace(/^\s*[-*] /u, ""))))];
}

/** Return the turns of a dialogue; `marked` names the speaker that is asked about, `extra` asks about a turn. */
export function turnList(turns, { label, marked = "", extra = () => null }) {
  return element("ol", { class: "turns", "aria-label": label }, (turns ?? []).map((turn) => {
    const isBot = turn.role === "bot", asked = extra(turn);
    return element("li", { class: `message ${isBot ? "bot" : "participant"} ${isBot && marked ? "marked" : ""}` },
      element("span", { class: "speaker" }, isBot ? marked || say("bot") : say("guest")), asked?.text ?? spoken(turn.text), asked?.node);
  }));
}

const box = (title, ...content) => element("section", { class: "panel", "aria-label": title }, element("h2", {}, title), content);

/** Return what a task shows of its item: dialogues as its sides, or a context with what may follow it. */
export function itemOf({ sides, payload }, extra) {
  const text = (title, words) => element("section", { class: "panel candidate", "aria-label": title }, element("h2", {}, title), element("p", {}, spoken(words)));
  if (payload?.turns) {
    const { turns, replies, reply, reference } = payload;
    return [box(say("conversation"), turnList(turns, { label: say("conversation") })),
      replies && element("div", { class: "sides" }, text(say("reply_left"), replies.left), text(say("reply_right"), replies.right)),
      reply !== undefined && text(say("reply"), reply), reference !== undefined && text(say("reference"), reference)];
  }
  if (sides.length === 1) return [box(say("conversation"), turnList(sides[0].messages, { label: say("conversation"), extra }))];
  return [element("div", { class: "sides" }, sides.map(({ side, messages }) => box(say(`conversation_${side}`), turnList(messages, { label: say(`conversation_${side}`), marked: say(`speaker_${side}`), extra: (turn) => extra?.(turn, side) }))))];
}
