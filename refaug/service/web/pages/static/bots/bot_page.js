/** One bot: a conversation with it, how it does, what it has cost, what it is, and which studies use it. */

import { post } from "../api.js";
import { byId, drawing, element, fill, userText } from "../dom.js";
import { count, countOf } from "../format.js";
import { allows, moment, problemBox } from "../frame.js";
import { KINDS, describedFields, isOfMessage, reasonOf, titleOf } from "./bot_kinds.js";
import { costOf, milliseconds, stateBadge, tokensOf } from "./bot_states.js";
import { usersOf } from "./bot_users.js";
import { conversation } from "./conversation.js";

const GREETING = "Hello! How are you?";
const DAYS = 30;

/** Return the view of a bot; `refresh` fetches its figures anew, `remove` asks whether it is to go. */
export function botPage({ bot, use, bots, own, refresh, remove }) {
  const isAdmin = allows(own, "admin"), mayAsk = allows(own, "score");
  const others = bots.filter((other) => other.name !== bot.name);
  return [
    element("p", { class: "back" }, element("a", { href: "#" }, "Bots")),
    element("div", { class: "row apart" }, element("h1", { id: "bot-title", tabindex: -1 }, userText(bot.name)),
      isAdmin && element("span", { class: "row" }, KINDS[bot.kind] && element("a", { class: "button", id: "bot-change", href: `#change=${bot.name}` }, "Change"), element("button", { type: "button", class: "danger", id: "bot-remove", onclick: remove }, "Remove"))),
    element("p", { class: "lead" }, titleOf(bot.kind)),
    element("div", { class: "bot-columns" },
      element("section", { class: "card", "aria-labelledby": "talk-title" }, element("h2", { id: "talk-title" }, "Try it"),
        mayAsk ? conversation(bot, others, refresh) : element("p", { class: "faint" }, "Trying a bot takes a key with the scope ", element("code", {}, "score"), ", which yours lacks.")),
      element("div", {},
        element("section", { class: "card", "aria-labelledby": "health-title", id: "health" }, healthOf(bot, use, mayAsk, refresh)),
        element("section", { class: "card", "aria-labelledby": "spending-title", id: "spending" }, spendingOf(bot, use)),
        element("section", { class: "card", "aria-labelledby": "what-title" }, element("h2", { id: "what-title" }, "What it is"), element("dl", { class: "facts" },
          describedFields(bot).flatMap(([label, text]) => [element("dt", {}, label), element("dd", {}, userText(text))]),
          element("dt", {}, "Hash"), element("dd", {}, element("code", { title: bot.sha256 }, bot.sha256.slice(0, 12))))),
        element("section", { class: "card", "aria-labelledby": "users-title", id: "users" }, element("h2", { id: "users-title" }, "Studies with it"), element("div", { id: "user-list" }, element("p", { class: "faint" }, "asking …"))))),
  ];
}

/** Show the figures of a bot anew, and leave the conversation alone. */
export function showFigures({ bot, use, own, refresh }) {
  fill(byId("health"), healthOf(bot, use, allows(own, "score"), refresh));
  fill(byId("spending"), spendingOf(bot, use));
}

// ── health ────────────────────────────────────────────────────────────────────────────────────────────────────────────

function healthOf(bot, use, mayAsk, refresh) {
  const outcome = element("div", { id: "check-outcome", role: "status" });
  return [
    element("div", { class: "row apart" }, element("h2", { id: "health-title" }, "Health"), stateBadge(use)),
    element("dl", { class: "facts" },
      element("dt", {}, "Last reply"), element("dd", {}, use?.replied ? moment(use.replied) : "none so far"),
      element("dt", {}, "Last failure"), element("dd", {}, use?.failure ? [moment(use.failure.at), element("div", {}, reasonOf(use.failure.problem)), use.failure.detail && element("div", { class: "faint" }, userText(use.failure.detail))] : "none"),
      element("dt", {}, "Failures so far"), element("dd", {}, use?.requests ? `${count(use.failures)} of ${countOf(use.requests, "request")}` : "–")),
    mayAsk && element("button", { type: "button", id: "bot-check", onclick: (event) => check(bot, event.target, outcome, refresh) }, "Check now"), outcome,
  ];
}

/** Ask for one new reply: with a seed of its own no stored answer stands in for it. */
async function check(bot, button, outcome, refresh) {
  button.disabled = true;
  fill(outcome, element("p", { class: "faint" }, "asking …"));
  const seed = crypto.getRandomValues(new Uint32Array(1))[0];
  let told;
  try {
    const { replies: [reply] } = await post(`/v1/bots/${bot.name}/replies`, { dialogues: [{ turns: [GREETING], seed }] });
    if (reply.reply !== null) told = element("p", { class: "good" }, reply.stored ? "It has answered this before: its endpoint was not asked." : `It replied in ${milliseconds(reply.ms)}.`);
    else if (isOfMessage(reply.problem)) told = element("p", {}, `It works, and has no reply to “${GREETING}”: ${reasonOf(reply.problem)}.`);
    else told = element("p", { class: "bad" }, `It failed: ${reasonOf(reply.problem)}. `, userText(reply.detail ?? ""));
  } catch (error) {
    told = problemBox(error);
  }
  await refresh();
  const place = byId("check-outcome");
  if (place) fill(place, told);
  button.disabled = false;
}

// ── spending ──────────────────────────────────────────────────────────────────────────────────────────────────────────

function spendingOf(bot, use) {
  const head = element("h2", { id: "spending-title" }, "Use");
  if (!use?.requests) return [head, element("p", { class: "faint" }, use ? "Nothing so far: it counts what this service and its jobs ask, and not what commands do." : "It cannot be read now.")];
  const budget = bot.specification.budget, cost = costOf(use), isEndpoint = tokensOf(use) > 0;
  const facts = [
    ["Requests", count(use.requests)], ["Without a reply", count(use.unanswered)], ["Time of a reply", `${milliseconds(use.mean_ms)} in the mean`],
    isEndpoint && ["Tokens", `${count(use.prompt_tokens)} in, ${count(use.answer_tokens)} out`], use.lost_tokens > 0 && ["Tokens of tries that broke off", `up to ${count(use.lost_tokens)}`],
    use.stored > 0 && ["Answered before", `${count(use.stored)}, which cost nothing`], cost !== null && ["Cost", cost],
    budget && ["Limit of one request or job", [budget.tokens && `${count(budget.tokens)} tokens`, budget.money !== undefined && `${budget.money} ${bot.specification.price?.currency ?? "USD"}`].filter(Boolean).join(", ")],
  ].filter(Boolean);
  return [head, element("dl", { class: "facts" }, facts.flatMap(([label, text]) => [element("dt", {}, label), element("dd", {}, text)])), dayBars(use.days)];
}

/** Return the requests of the last days as small bars, with a sentence for those who do not see them. */
function dayBars(days) {
  const today = Date.parse(`${new Date().toISOString().slice(0, 10)}T00:00:00Z`), byDay = new Map(days.map((day) => [day.day, day]));
  const most = Math.max(1, ...days.map((day) => day.requests)), width = 300, height = 48, step = width / DAYS;
  const bars = Array.from({ length: DAYS }, (_, place) => {
    const name = new Date(today - (DAYS - 1 - place) * 86_400_000).toISOString().slice(0, 10), day = byDay.get(name);
    if (!day) return null;
    const all = Math.max(2, (day.requests / most) * height), failed = (day.failures / most) * height;
    const bar = (size, sort, from = 0) => drawing("rect", { x: (place * step + 1).toFixed(1), y: (height - from - size).toFixed(1), width: (step - 2).toFixed(1), height: size.toFixed(1), class: sort });
    return drawing("g", {}, drawing("title", {}, `${name}: ${countOf(day.requests, "request")}${day.failures ? `, ${count(day.failures)} failed` : ""}${day.tokens ? `, ${count(day.tokens)} tokens` : ""}`), bar(all, "asked"), failed > 0 && bar(failed, "failed"));
  });
  const total = days.reduce((sum, day) => sum + day.requests, 0);
  return element("figure", { class: "figure" }, element("figcaption", { class: "faint" }, "Requests of the last 30 days"),
    drawing("svg", { class: "day-bars", viewBox: `0 0 ${width} ${height}`, role: "img", preserveAspectRatio: "none", "aria-label": `${countOf(total, "request")} on ${countOf(days.length, "day")} of the last ${DAYS}, at most ${count(most)} a day` }, drawing("line", { x1: 0, x2: width, y1: height, y2: height }), bars));
}

// ── studies ───────────────────────────────────────────────────────────────────────────────────────────────────────────

/** Show which studies use the bot, as far as the key may know. */
export async function showUsers(bot, own) {
  const place = byId("user-list");
  const users = await usersOf(bot, own).catch((error) => error);
  if (!place.isConnected) return;
  if (users instanceof Error) fill(place, problemBox(users));
  else if (users === null) fill(place, element("p", { class: "faint" }, allows(own, "study") ? "Studies are not installed here." : ["Seeing studies takes the scope ", element("code", {}, "study"), "."]));
  else if (!users.length) fill(place, element("p", { class: "faint" }, "None."));
  else fill(place, element("ul", { class: "plain" }, users.map((study) => element("li", { class: "row apart study-row" }, element("a", { href: `${document.body.dataset.root}/studies#study=${study.id}` }, userText(study.name)), element("span", { class: "badge" }, study.state)))));
}
