/** How far a study is: people, tasks, and the balance over bots and sides. */

import { element, fill, userText } from "../dom.js";
import { count } from "../format.js";

const COUNTS = [["participants", "Participants"], ["finished", "Finished"], ["tasks_done", "Tasks done"], ["tasks_reserved", "Being done"], ["screened_out", "Screened out"], ["withdrawn", "Withdrawn"], ["skipped", "Skipped"], ["expired", "Expired"], ["bot_failed", "Without a reply"]];

export function progressSection(study) {
  const node = element("div", { id: "progress" });
  const show = (now) => {
    const { counts, bots = [], pairs = [] } = now;
    const name = (slot) => bots.find((bot) => bot.slot === slot)?.bot ?? String(slot);
    fill(node, element("dl", { class: "tiles", id: "counts" }, COUNTS.filter(([key]) => key in counts).map(([key, label]) => element("div", { class: counts[key] ? null : "none" }, element("dt", {}, label), element("dd", { dataset: { count: key } }, count(counts[key]))))),
      bots.length > 0 && element("h3", {}, "Balance"),
      bots.length > 0 && element("div", { class: "balance", id: "balance" }, bots.map((bot) => {
        const target = bot.target ?? Math.max(1, ...bots.map((one) => one.done));
        return [element("div", {}, userText(bot.bot), bot.degraded ? element("span", { class: "faint" }, " degraded") : ""),
          element("progress", { value: Math.min(bot.done, target), max: target, "aria-label": `${bot.bot}: ${bot.done} done` }),
          element("div", {}, `${count(bot.done)}${bot.target === null ? "" : ` of ${count(bot.target)}`}${bot.reserved ? `, ${count(bot.reserved)} in work` : ""}`, bot.failures ? element("span", { class: bot.failing ? "bad" : "warn" }, `, ${count(bot.failures)} without a reply`) : "")];
      })),
      pairs.length > 0 && element("details", {}, element("summary", {}, "Sides of pairs"), element("ul", {}, pairs.map(({ slots: [first, second], left }) => element("li", {}, userText(name(first)), ` stood ${count(left[0])} times on the left, `, userText(name(second)), ` ${count(left[1])} times`)))));
  };
  show(study);
  return { node, show };
}
