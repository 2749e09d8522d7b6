/** Which studies use a bot, and the questions before one is changed or removed. */

import { get, listAll, remove } from "../api.js";
import { element, userText } from "../dom.js";
import { countOf } from "../format.js";
import { allows } from "../frame.js";
import { ask } from "../question.js";

const RUNNING = new Set(["pilot", "open", "paused"]);

/** Return the studies with a bot, newest first; null where the key may not see studies, or there are none to see here. */
export async function usersOf(bot, own) {
  const hasStudies = document.querySelector('header nav a[href$="/studies"]') !== null;
  if (!hasStudies || !(allows(own, "study") || allows(own, "study-read"))) return null;
  const users = [];
  for (const row of await listAll("/v1/studies", "studies", Infinity)) {
    if (row.state === "closed") continue;
    const study = await get(`/v1/studies/${row.id}`); // one after the other: a key has a rate
    const { bots = [], checks } = study.protocol;
    if (study.bots.some((slot) => slot.bot === bot.name) || [...bots, checks?.degraded].includes(bot.name)) users.push(study);
  }
  return users;
}

function consequences(users, verb) {
  if (users === null) return element("p", {}, "Whether a study uses it cannot be seen from here.");
  const running = users.filter((study) => RUNNING.has(study.state)), drafts = users.filter((study) => !RUNNING.has(study.state));
  return [
    running.length > 0 && element("div", { class: "notice bad" }, element("p", {}, `${countOf(running.length, "study that is", "studies that are")} under way ${running.length === 1 ? "talks" : "talk"} with exactly this bot. When it is ${verb}, their chats have no replies any more:`), names(running)),
    drafts.length > 0 && element("p", {}, `${countOf(drafts.length, "draft")} of a study would get the bot that has this name when the study opens: `, drafts.map((study, place) => [place ? ", " : "", userText(study.name)])),
    !users.length && element("p", {}, "No study that is open or a draft uses it."),
  ];
}

const names = (studies) => element("ul", {}, studies.map((study) => element("li", {}, userText(study.name), ` (${study.state})`)));
const wordFor = (users, bot) => (users?.some((study) => RUNNING.has(study.state)) ? bot.name : undefined);

/** Ask whether a bot is to be removed; `then` follows when it is gone. */
export async function askRemoval(bot, own, then) {
  const users = await usersOf(bot, own);
  ask({
    title: `Remove ${bot.name}?`, yes: "Remove it", word: wordFor(users, bot),
    text: [consequences(users, "removed"), element("p", {}, "What it has replied stays, with its hash. The name becomes free.")],
    act: async () => { await remove(`/v1/bots/${bot.name}`); then(); },
  });
}

/** Ask whether a bot is to be changed, where a study that is under way uses it; else change it at once. */
export async function askChange(bot, own, store) {
  const users = await usersOf(bot, own);
  if (!users?.some((study) => RUNNING.has(study.state))) return store();
  ask({ title: `Change ${bot.name}?`, yes: "Change it", word: bot.name, text: [consequences(users, "changed"), element("p", {}, "A new bot under another name leaves them as they are.")], act: store });
  return undefined;
}
