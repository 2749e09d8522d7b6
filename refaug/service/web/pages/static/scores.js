/** One score of one reply: the number, a bar, and on what it stands. */

import { element, printable } from "./dom.js";
import { score } from "./format.js";

const NAMES = { bleu: "BLEU", "multi-bleu": "multi-BLEU", "upsilon-bleu": "υBLEU", rater: "Rater" };
const nameOf = (metric) => NAMES[metric] ?? metric.replace(/^upsilon-/, "υ-");

/** Return what a score stands on, in a few words. */
function basis(metric, item, { versions, isChanged }) {
  const golds = item.references.filter((reference) => reference.source === "gold").length;
  if (metric.metric.startsWith("refaug-1")) {
    const found = item.references.filter((reference) => reference.source !== "gold" && reference.weight > 0).length;
    return [golds && `${golds} gold${golds === 1 ? "" : "s"}`, found && `the 3 closest of ${found}`].filter(Boolean).join(", ") + (isChanged ? "; weights changed here" : "");
  }
  if (metric.metric === "rater") return `asked ${versions.rater?.split("#")[0] ?? "the rater"}${golds ? "" : ", by the utterance alone"}`;
  if (metric.metric === "bleu") return golds > 1 ? "the first gold" : "the gold alone";
  if (!metric.metric.startsWith("upsilon-")) return `${golds} gold${golds === 1 ? "" : "s"}`;
  const positive = item.references.filter((reference) => reference.source !== "gold" && reference.weight > 0).length;
  const thin = positive < 3 ? "; thin evidence" : "";
  return `${positive} of ${item.references.length - golds} above 0, ${golds} gold${golds === 1 ? "" : "s"}${thin}${isChanged ? "; weights changed here" : ""}`;
}

/** Return a score as an element; its title is the signature. */
export function scoreTile(metric, system, about) {
  const reply = metric.systems[system]?.replies[0], value = reply?.score ?? null;
  const [low, high] = metric.metric === "rater" ? [-1, 1] : [0, 1];
  const share = value === null ? 0 : Math.min(100, Math.max(0, (100 * (value - low)) / (high - low)));
  const bar = element("span");
  bar.style.setProperty("--share", String(share));
  return element("div", { class: `score${metric.metric.startsWith("refaug-1") ? " main" : ""}`, dataset: { metric: metric.metric }, title: printable(metric.signature) },
    element("div", { class: "name" }, nameOf(metric.metric)),
    element("div", { class: "value" }, score(value)),
    element("div", { class: "meter", "aria-hidden": "true" }, bar),
    element("div", { class: "basis" }, value === null ? printable(reply?.message ?? "no score") : basis(metric, about.item, about)));
}
