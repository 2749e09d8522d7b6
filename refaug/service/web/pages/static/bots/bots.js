/** Bots: the list, a form for new ones, and one bot at a time, each under an address of its own. */

import { get, listAll } from "../api.js";
import { byId, element, fill } from "../dom.js";
import { allows, ownKey, showProblem, start } from "../frame.js";
import { botForm } from "./bot_form.js";
import { KINDS } from "./bot_kinds.js";
import { botList, dayLimit } from "./bot_list.js";
import { botPage, showFigures, showUsers } from "./bot_page.js";
import { askChange, askRemoval } from "./bot_users.js";

let own = null, refreshFigures = () => undefined, uses = new Map(), day = null;
const bots = []; // one list for the life of the page: a form that stays sees new names in it

/** Fetch what bots were asked; without it the page shows them all the same. */
async function loadUses() {
  try {
    const { bots: rows, tokens_today: spent, tokens_a_day: most } = await get("/v1/bot-use");
    day = { spent, most };
    uses = new Map(rows.map((row) => [row.name, row]));
  } catch (error) {
    showProblem(byId("page-problem"), error);
  }
}

/** Say which scope the key of this tab lacks for something on this page. */
function missingScopes() {
  const lacks = [["score", "trying a bot"], ["admin", "adding, changing and removing one"]].filter(([scope]) => !allows(own, scope));
  return lacks.length > 0 && element("p", { class: "faint", id: "missing-scopes" }, "With this key you see bots. ", lacks.map(([scope, what], place) => [place ? "; " : "", what, " takes the scope ", element("code", {}, scope)]), ".");
}

function showList() {
  const mayAdd = allows(own, "admin");
  fill(byId("view"),
    element("div", { class: "row apart" }, element("h1", { tabindex: -1 }, "Bots"), mayAdd && element("a", { class: bots.length ? "button primary" : "button", id: "new-bot", href: "#new" }, "Add a bot")),
    element("p", { class: "lead" }, "Systems that reply by themselves: in studies, in files of items, in conversations with each other."),
    missingScopes(),
    botList(bots, uses, { mayAdd }),
    day !== null && bots.some((bot) => bot.kind === "openai" || bot.kind === "degraded") && dayLimit(day.spent, day.most));
}

function showForm(kind, old) {
  fill(byId("view"),
    element("p", { class: "back" }, element("a", { href: old ? `#bot=${old.name}` : "#" }, old ? old.name : "Bots")),
    element("h1", { tabindex: -1 }, old ? `Change ${old.name}` : "Add a bot"),
    element("section", { class: "card text" }, botForm({
      kind, old, bots,
      confirm: (store) => askChange(old, own, store),
      onSent: async (stored) => { await load(); location.hash = `bot=${stored.name}`; },
    })));
}

function showBot(bot) {
  const figures = () => ({ bot, use: uses.get(bot.name), own, refresh });
  refreshFigures = () => { if (byId("bot-title")?.textContent === bot.name) showFigures(figures()); };
  const refresh = async () => { await loadUses(); refreshFigures(); };
  fill(byId("view"), botPage({ ...figures(), bots, remove: () => askRemoval(bot, own, async () => { location.hash = ""; await load(); }).catch((error) => showProblem(byId("page-problem"), error)) }));
  showUsers(bot, own);
}

/** Whether somebody fills a form or talks with a bot: that stays when a key changes or a lost connection is back. */
const isInUse = () => byId("bot-form") !== null || document.querySelector("#talk .said") !== null || Boolean(byId("talk-text")?.value.trim());

/** Show what the address names. */
function show() {
  const [what, name = ""] = location.hash.slice(1).split("="), bot = bots.find((one) => one.name === decodeURIComponent(name));
  if (what === "new" && allows(own, "admin")) showForm(KINDS[name] ? name : "openai", null);
  else if (what === "change" && bot && KINDS[bot.kind] && allows(own, "admin")) showForm(bot.kind, bot);
  else if (what === "bot" && bot) showBot(bot);
  else if (what === "bot" || what === "change") fill(byId("view"), element("h1", { tabindex: -1 }, "Bots"), element("div", { class: "empty empty-state" }, element("p", { class: "empty-title" }, "There is no such bot"), element("p", {}, "It was removed, or the address has another name."), element("a", { class: "button", href: "#" }, "All bots")));
  else showList();
}

async function load() {
  showProblem(byId("page-problem"), null);
  try {
    own = await ownKey();
    const rows = await listAll("/v1/bots", "bots");
    bots.splice(0, bots.length, ...rows);
    await loadUses();
    if (isInUse()) refreshFigures();
    else show();
  } catch (error) {
    if (!isInUse()) fill(byId("view"), element("h1", {}, "Bots"), own !== null && !["read", "study"].some((scope) => allows(own, scope)) && element("p", { class: "faint" }, "Seeing bots takes a key with the scope ", element("code", {}, "read"), " or ", element("code", {}, "study"), "."));
    showProblem(byId("page-problem"), error);
  }
  byId("view").removeAttribute("aria-busy");
}

addEventListener("hashchange", () => { showProblem(byId("page-problem"), null); show(); byId("view").querySelector("h1")?.focus({ preventScroll: true }); scrollTo(0, 0); });
start(load);
