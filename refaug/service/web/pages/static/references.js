/** Rows of references and of what was left out. */

import { element, userText } from "./dom.js";
import { signed, time } from "./format.js";
import { marked, pieces } from "./words.js";

/** Return what names a reference on this page, whatever its place. */
export const keyOf = (reference) => `${reference.source}|${reference.text}`.slice(0, 300);

const SOURCES = { gold: "gold", supplied: "weighted by people", parrot: "the utterance itself" };
const WORD = /[\p{L}\p{N}’'\-]+|[^\s\p{L}\p{N}]/gu;

function point(place, word) {
  document.dispatchEvent(new CustomEvent("refaug:point", { detail: { place, word } }));
}
const unpoint = () => document.dispatchEvent(new CustomEvent("refaug:unpoint"));

/** Return a reference with its weight, its origin, and controls that drop or reweigh it. */
export function referenceRow(reference, place, { weight, isDropped, isFurther, onUse, onWeight }) {
  const use = element("input", { type: "checkbox", class: "use", "aria-label": `Use reference ${place + 1}`, onchange: (event) => onUse(event.target.checked) });
  use.checked = !isDropped;
  return element("li", { class: `reference${isDropped ? " dropped" : ""}${isFurther ? " further" : ""}`, id: `reference-${place}`, tabindex: -1 },
    use,
    element("div", {}, element("div", { class: "said" }, element("span", { class: "faint" }, `${place + 1}. `), saidText(reference.text, place)), element("div", { class: "like", id: `like-${place}` }), origin(reference)),
    weightControl(place, weight, onWeight));
}

function saidText(text, place) {
  if (text.length > 2_000) return userText(text);
  const words = [...new Set((text.toLowerCase().match(WORD) ?? []))];
  return element("bdi", { dir: "auto", class: "user-text" }, pieces(marked(text, words), (piece) => ({
    sign: "",
    attributes: {
      onpointerenter: () => point(place, piece.word.toLowerCase()), onpointerleave: unpoint,
    },
  }), "span"));
}

function origin(reference) {
  if (reference.source !== "retrieved") return element("div", { class: "origin" }, SOURCES[reference.source] ?? reference.source);
  const where = [
    typeof reference.similarity === "number" && `similarity ${reference.similarity.toFixed(3)}`,
    reference.dialogue && `dialogue ${reference.dialogue} of log ${reference.log}`,
    reference.time && time(reference.time),
    reference.count > 1 && `${reference.count} times`,
  ].filter(Boolean).join(" · ");
  return element("div", { class: "origin" }, "answered “", userText(reference.utterance ?? ""), "” · ", userText(where));
}

/** Return a weight as number, bar and colour, with a slider. */
function weightControl(place, weight, onWeight) {
  const number = element("b", {}, signed(weight)), bar = element("span");
  const show = (to) => {
    number.textContent = signed(to);
    bar.className = to < 0 ? "negative" : "positive";
    bar.style.setProperty("--share", String(Math.abs(to) * 50));
    bar.style.setProperty("--from", String(to < 0 ? 50 + to * 50 : 50));
  };
  const slider = element("input", {
    type: "range", min: -1, max: 1, step: 0.01, "aria-label": `Weight of reference ${place + 1}`,
    oninput: (event) => { show(Number(event.target.value)); onWeight(Number(event.target.value)); },
  });
  slider.value = String(weight);
  show(weight);
  return element("div", { class: "weight" }, element("span", { class: "faint" }, "weight "), number,
    element("div", { class: "meter centred", "aria-hidden": "true" }, bar), slider, element("div", { class: "moved", id: `moved-${place}` }));
}

const REASONS = {
  test_pair: "it is the test pair itself", gold: "it is the gold", near_gold: "it is nearly the gold",
  parrot: "it repeats the utterance", near_parrot: "it nearly repeats the utterance", own_dialogue: "it is from the same dialogue",
  dialogue: "its dialogue is excluded", time: "it is of another time", log: "its log is excluded", duplicate: "its text is a reference already",
};

export const excludedRow = (reference) => element("li", {},
  element("div", {}, userText(reference.text)),
  element("div", { class: "faint" }, `${REASONS[reference.reason] ?? reference.reason} · similarity ${reference.similarity.toFixed(3)} · answered “`, userText(reference.utterance), "”"));
