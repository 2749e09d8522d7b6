/** Why a reply has its score by the recommended metric: its parts, what each says alone, and what it is like. */

import { element, printable, userText } from "./dom.js";
import { score } from "./format.js";

const PARTS = {
  gold: ["Like a gold", "the cosine of the reply and the most similar gold"],
  words: ["Words of a gold", "chrF of the reply and the best gold"],
  turn: ["Like the last turn", "its cosine with the last turn: what goes beyond that of true replies counts against it"],
  turns: ["Like the last three turns", "its cosine with them as one text: what goes beyond that of true replies counts against it"],
  retrieved: ["Like what people answered", "the mean cosine with the three closest responses of the index"],
};
const GUARDS = { copied: ["Copied from a turn", "the share of its words in runs of three or more of one turn"], order: ["Order of its words", "how likely its words follow each other in the log; less is odder"] };
const UNKNOWN = 0.05; // of the pieces: above, the language may be another

const bar = (share) => {
  const filled = element("span");
  filled.style.setProperty("--share", String(Math.min(100, Math.max(0, 100 * share))));
  return element("div", { class: "meter", "aria-hidden": "true" }, filled);
};

/** Return the parts that speak most for and against a reply, in a few words. */
function gist({ parts, guards }) {
  const sorted = parts.toSorted((first, second) => second.alone - first.alone), name = ({ part }) => PARTS[part][0].toLowerCase();
  const taking = guards.filter((guard) => guard.takes > 0).map(({ guard }) => GUARDS[guard][0].toLowerCase());
  return [
    sorted.length > 1 && `most for it: ${name(sorted[0])}`, sorted.length > 1 && `least: ${name(sorted.at(-1))}`,
    taking.length > 0 && `taken off for: ${taking.join(", ")}`,
  ].filter(Boolean).join(" · ");
}

function partRow({ part, value, counted, share, alone }, shares) {
  const [name, what] = PARTS[part], isFolded = counted !== value;
  return element("tr", { dataset: { part } }, element("th", { scope: "row", title: what }, name),
    element("td", { class: "number" }, score(value), isFolded && element("div", { class: "faint" }, `counts ${score(counted)}`)),
    element("td", { class: "number" }, `${Math.round((100 * share) / shares)} %`),
    element("td", { class: "number alone" }, score(alone), bar(alone)));
}

function guardRow({ guard, value, limit, takes }) {
  const [name, what] = GUARDS[guard];
  return element("tr", { dataset: { part: guard } }, element("th", { scope: "row", title: what }, name),
    element("td", { class: "number" }, score(value)),
    element("td", { class: "number" }, ""),
    element("td", { class: "number" }, takes > 0 ? element("span", { class: "bad" }, "taken off") : element("span", { class: "faint" }, `free ${guard === "order" ? "from" : "to"} ${score(limit)}`)));
}

const totalRow = (name, part, value) => element("tr", { class: "total", dataset: { part } }, element("th", { scope: "row" }, name), element("td", {}), element("td", {}), element("td", { class: "number" }, score(value)));

/**
 * Return the box that says why a reply of a system has its score; `placeOf(text)` is the place of a reference on the
 * page, and `onPick(place)` hears which one somebody wants to see.
 */
export function whyBox(reply, system, { isOpen, onToggle, placeOf, onPick }) {
  const { combination, likenesses = [] } = reply, shares = combination.parts.reduce((sum, part) => sum + part.share, 0);
  const head = ["Part", "Measured", "Share", "Alone"];
  const closest = likenesses.filter((like) => like.counts);
  const box = element("details", { class: "why", open: isOpen, ontoggle: () => onToggle(box.open) },
    element("summary", {}, element("b", {}, `Why ${score(reply.score)}`), " ", element("span", { class: "faint" }, gist(combination))),
    element("div", { class: "scroll" }, element("table", { id: `why-${system}` },
      element("caption", { class: "visually-hidden" }, `The parts of the score of reply ${system}`),
      element("thead", {}, element("tr", {}, head.map((name, place) => element("th", { scope: "col", class: place ? "number" : "" }, name)))),
      element("tbody", {}, combination.parts.map((part) => partRow(part, shares)), totalRow("Together", "unguarded", combination.unguarded), combination.guards.map(guardRow), totalRow("Score", "score", reply.score)))),
    element("p", { class: "faint" }, "“Alone”: the score if every part counted like this one. By their shares, the log-odds of these make those of “Together”."),
    combination.is_cut && element("p", { class: "warn" }, "The encoder does not read the end of this reply."),
    combination.unknown > UNKNOWN && element("p", { class: "warn" }, `The encoder does not know ${Math.round(100 * combination.unknown)} % of this reply: its language may be another, and then the score says little.`),
    closest.length > 0 && [element("h4", {}, "Closest references"), element("ol", { class: "closest plain" }, closest.map((like) => {
      const place = placeOf(like.text);
      return element("li", {}, element("span", { class: "figures" }, score(like.similarity)), element("span", {}, userText(like.text)),
        place >= 0 && element("button", { type: "button", class: "link", "aria-label": `Show reference ${place + 1}: ${printable(like.text).slice(0, 60)}`, onclick: () => onPick(place) }, like.kind === "gold" ? "gold" : String(place + 1)));
    }))]);
  return box;
}
