/** How a bot does: never asked, without a reply so far, replying, or failing since its last reply; and the words that say so. */

import { element } from "../dom.js";
import { count, countOf } from "../format.js";

/** Return the state of a bot by its use: `{name, sign}`; the sign is the class of a badge. */
export function stateOf(use) {
  if (!use) return { name: "unknown", sign: "" };
  if (use.failure !== null && (use.replied === null || use.failure.at > use.replied)) return { name: "failing", sign: "bad" };
  if (use.replied !== null) return { name: "replies", sign: "good" };
  return { name: use.used === null ? "not asked yet" : "no reply yet", sign: "" };
}

export function stateBadge(use) {
  const { name, sign } = stateOf(use);
  return element("span", { class: `badge ${sign}` }, name);
}

/** Return milliseconds as people say them. */
export const milliseconds = (ms) => (ms === null || ms === undefined ? "–" : ms < 1_000 ? `${ms < 10 ? ms.toFixed(1) : Math.round(ms)}\u00a0ms` : `${(ms / 1_000).toFixed(1)}\u00a0s`);

/** Return what was paid, with its currency; null where there are no prices. */
export function costOf(use) {
  if (use?.money === null || use?.money === undefined) return null;
  if (use.money > 0 && use.money < 0.0001) return `under 0.0001 ${use.currency}`;
  return `${use.money.toFixed(use.money < 1 ? 4 : 2)} ${use.currency}`;
}

export const tokensOf = (use) => use.prompt_tokens + use.answer_tokens + use.lost_tokens;

/** Return what a reply took: time, tokens, and whether it was asked for at all. */
export function timeAndTokens(reply) {
  const parts = [reply.stored ? "answered before, not asked again" : milliseconds(reply.ms)];
  if (reply.prompt_tokens !== null && reply.prompt_tokens !== undefined) parts.push(`${countOf(reply.prompt_tokens, "token")} in, ${count(reply.answer_tokens ?? 0)} out`);
  return parts.join(" · ");
}
