/** The list of bots: how each does, when it was asked last and what it cost; and the invitation to add the first one. */

import { element, userText } from "../dom.js";
import { count } from "../format.js";
import { moment } from "../frame.js";
import { KINDS, titleOf } from "./bot_kinds.js";
import { costOf, milliseconds, stateBadge, tokensOf } from "./bot_states.js";

const hasEndpoint = (bot) => bot.kind === "openai" || bot.kind === "http" || (bot.kind === "degraded" && hasEndpoint({ kind: bot.specification.bot?.kind, specification: bot.specification.bot ?? {} }));

/** Return the table of all bots, or what to do where there is none. */
export function botList(bots, uses, { mayAdd }) {
  if (!bots.length) return noBots(mayAdd);
  const heads = [["Bot"], ["State"], ["Last asked"], ["Requests", "number"], ["Time of a reply", "number minor"], ["Tokens", "number minor"], ["Cost", "number"]];
  return element("section", { class: "card", "aria-label": "All bots" }, element("div", { class: "scroll" }, element("table", { id: "bot-table" },
    element("thead", {}, element("tr", {}, heads.map(([name, sort = ""]) => element("th", { scope: "col", class: sort || null }, name)))),
    element("tbody", {}, bots.map((bot) => row(bot, uses.get(bot.name)))))));
}

function row(bot, use) {
  const cell = (content, sort = "") => element("td", { class: sort || null }, content);
  return element("tr", {},
    element("th", { scope: "row" }, element("a", { href: `#bot=${bot.name}` }, userText(bot.name)), element("div", { class: "faint bot-kind" }, titleOf(bot.kind))),
    cell(stateBadge(use)), cell(use?.used ? moment(use.used) : element("span", { class: "faint" }, use ? "never" : "–")),
    cell(use ? count(use.requests) : "–", "number"), cell(milliseconds(use?.mean_ms), "number minor"),
    cell(use && hasEndpoint(bot) ? count(tokensOf(use)) : "–", "number minor"), cell(costOf(use) ?? "–", "number"));
}

function noBots(mayAdd) {
  return element("div", { class: "empty empty-state" },
    element("p", { class: "empty-title" }, "No bot yet"),
    element("p", {}, "A bot replies in studies, in files of items and in conversations with other bots. What shall the first one be?"),
    mayAdd && element("ul", { class: "plain kind-choices" }, Object.entries(KINDS).slice(0, 4).map(([kind, { title, about }]) =>
      element("li", {}, element("a", { class: "kind-card", href: `#new=${kind}` }, element("b", {}, title), element("span", { class: "faint" }, about))))));
}

/** Return how much of the day's tokens is spent; null is what cannot be read. */
export function dayLimit(spent, most) {
  if (spent === null) return element("p", { class: "faint day-limit" }, "How many tokens were spent today cannot be read now; the server's log says why.");
  const share = Math.min(100, Math.round((spent / most) * 100));
  return element("div", { class: "day-limit" },
    element("label", { for: "day-tokens" }, "Tokens of all endpoints today"),
    element("progress", { id: "day-tokens", max: most, value: Math.min(spent, most) }),
    element("p", { class: spent >= most ? "bad" : "faint" }, `${count(spent)} of ${count(most)} (${share} %)`, spent >= most ? ": bots behind an address are not asked before midnight, UTC" : ""));
}
