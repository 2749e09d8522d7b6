/** Parts of a turn that get labels: words are chosen by pointing at them or by keys; places count code points. */

import { element, fill } from "../dom.js";
import { spoken } from "./dialogues.js";
import { say } from "./words.js";

const MOST_SPANS = 200; // of a turn, as the service has it
const SHADES = 6; // colours of labels; the words of a label stand beside its parts, too
const texts = new WeakMap(); // texts that can be marked, by their elements
let inUse = null; // the text in which words are chosen

const codePoints = (text) => [...text].length;
const shadeOf = (place) => `shade-${place % SHADES}`;

/** Return the words of a text with the signs that stick to them, also where no spaces part them. */
function wordsOf(text) {
  const parts = Intl.Segmenter ? [...new Intl.Segmenter(undefined, { granularity: "word" }).segment(text)].map(({ segment, index, isWordLike }) => ({ start: index, end: index + segment.length, isWord: isWordLike, isSpace: !segment.trim() }))
    : [...text.matchAll(/\S+/gu)].map((match) => ({ start: match.index, end: match.index + match[0].length, isWord: true }));
  const words = [];
  for (const part of parts.filter(({ isSpace }) => !isSpace)) {
    const last = words.at(-1), sticks = last && last.end === part.start && !(part.isWord && last.isWord);
    if (sticks) { last.end = part.end; last.isWord ||= part.isWord; } else words.push({ ...part });
  }
  return words;
}

/**
 * Return a text in which words can be chosen: `{node, quote, choice, take, clear, listen, paint, focus}`. A drag chooses the
 * words that it touches; a press, Enter or Space the first word and then the last one, arrows go to other words.
 */
export function markableText(text) {
  const node = spoken(text, { role: "group", "aria-label": say("mark_text") }), shown = node.textContent, listeners = [], painted = new Map();
  const words = wordsOf(shown).map(({ start, end }, place) => ({ start, end, gap: null, node: element("span", { class: "unit", role: "button", tabindex: place ? -1 : 0, "aria-pressed": "false", dataset: { place } }, shown.slice(start, end)) }));
  let chosen = null, isOpen = false; // while open, the next word is the other end
  node.classList.add("markable");
  fill(node, words.map((word, place) => { word.gap = element("span", {}, shown.slice(words[place - 1]?.end ?? 0, word.start)); return [word.gap, word.node]; }), shown.slice(words.at(-1)?.end ?? 0));

  function draw() {
    const spans = [...painted.values()].flat();
    words.forEach((word, place) => {
      const isChosen = chosen !== null && place >= chosen.first && place <= chosen.last, own = spans.findLast((span) => span.from < word.end && span.to > word.start);
      word.node.className = `unit ${isChosen ? "chosen" : own ? shadeOf(own.shade) : ""}`;
      word.node.setAttribute("aria-pressed", String(isChosen));
      word.gap.className = isChosen && place > chosen.first ? "chosen" : own && own.from < word.gapEnd ? shadeOf(own.shade) : "";
    });
    for (const listener of listeners) listener.onChoice();
  }

  function choose(first, last, goesOn) {
    if (chosen !== null && first !== null && chosen.first === Math.min(first, last) && chosen.last === Math.max(first, last) && isOpen === goesOn) return; // a drag within a word
    if (first !== null && inUse !== own) { inUse?.clear(); inUse = own; }
    chosen = first === null ? null : { first: Math.min(first, last), last: Math.max(first, last) };
    isOpen = goesOn;
    draw();
  }

  function press(place) {
    if (!isOpen || chosen === null) choose(place, place, true);
    else if (chosen.first === place && chosen.last === place) choose(null, null, false);
    else choose(place, place < chosen.first ? chosen.last : chosen.first, false);
  }

  function goTo(place) {
    const next = Math.max(0, Math.min(words.length - 1, place));
    words.forEach((word, at) => { word.node.tabIndex = at === next ? 0 : -1; });
    words[next]?.node.focus();
    return next;
  }

  const placeOf = (target) => { const unit = target.closest?.(".unit"); return unit && node.contains(unit) ? Number(unit.dataset.place) : null; };

  node.addEventListener("click", (event) => {
    const place = placeOf(event.target);
    if (place === null || !getSelection().isCollapsed) return; // the end of a drag
    goTo(place);
    press(place);
  });
  node.addEventListener("keydown", (event) => {
    const place = placeOf(event.target);
    if (place === null || event.ctrlKey || event.metaKey || event.altKey) return;
    const forward = getComputedStyle(node).direction === "rtl" ? -1 : 1;
    const to = { ArrowRight: place + forward, ArrowLeft: place - forward, Home: 0, End: words.length - 1 }[event.key];
    if (to !== undefined) {
      const next = goTo(to), start = chosen === null ? place : place === chosen.first ? chosen.last : chosen.first;
      if (event.shiftKey) choose(start, next, false);
    } else if (event.key === "Enter" || event.key === " ") press(place);
    else if (event.key === "Escape" && chosen !== null) choose(null, null, false);
    else if (/^[1-9]$/.test(event.key) && listeners.length) {
      if (chosen === null) choose(place, place, false);
      let digit = Number(event.key); // the labels of several questions are counted on
      listeners.some(({ onDigit, labels }) => { if (digit <= labels) { onDigit(digit); return true; } digit -= labels; return false; });
    } else return;
    event.preventDefault();
    event.stopPropagation();
  });

  const own = {
    node,
    /** Choose the words that a selection of the browser touches. */
    take(range) {
      const start = offsetOf(range.startContainer, range.startOffset), end = offsetOf(range.endContainer, range.endOffset);
      const first = words.findIndex((word) => word.end > start), last = words.findLastIndex((word) => word.start < end);
      if (first >= 0 && first <= last) choose(first, last, false);
    },
    /** Return the part that is chosen, as an answer has it. */
    choice: () => chosen && { start: codePoints(shown.slice(0, words[chosen.first].start)), end: codePoints(shown.slice(0, words[chosen.last].end)) },
    quote: ({ start, end }) => [...shown].slice(start, end).join(""),
    clear() {
      choose(null, null, false);
    },
    listen: (listener) => listeners.push(listener),
    /** Show the parts of one question. */
    paint(question, spans) {
      const points = [...shown], unitsTo = (point) => points.slice(0, point).join("").length;
      painted.set(question, spans.map(({ start, end, shade }) => ({ from: unitsTo(start), to: unitsTo(end), shade })));
      draw();
    },
    focus: () => (words.find(({ node: word }) => word.tabIndex === 0) ?? words[0])?.node.focus(),
  };

  function offsetOf(container, offset) {
    const range = document.createRange();
    range.selectNodeContents(node);
    const side = range.comparePoint(container, offset);
    if (side !== 0) return side < 0 ? 0 : shown.length;
    range.setEnd(container, offset);
    return range.toString().length;
  }

  words.forEach((word) => { word.gapEnd = word.start; });
  texts.set(node, own);
  return own;
}

document.addEventListener("selectionchange", () => {
  const selection = getSelection(), from = selection.anchorNode;
  if (selection.isCollapsed || !from) return;
  const node = (from.nodeType === Node.ELEMENT_NODE ? from : from.parentElement)?.closest(".markable");
  texts.get(node)?.take(selection.getRangeAt(0));
});

/** Return the field of a question about parts of a text: buttons of labels for what is chosen, and what has labels. */
export function spanField({ question, id, title, options, noneOf }, change, text) {
  const list = element("ul", { class: "plain spans" }), status = element("p", { class: "faint chosen-part", role: "status" });
  let spans = [];
  const none = noneOf?.((value) => { spans = []; draw(); none.set(value); change(value); });
  const buttons = options.map((option, place) => element("button", { type: "button", class: `label-button ${shadeOf(place)}`, disabled: true, onclick: () => give(option.value) }, option.text));
  const placeOf = (label) => options.findIndex((option) => option.value === label);
  const send = () => { draw(); change(spans.length ? spans : null); };

  function give(label) {
    const part = text.choice();
    if (!part || spans.length >= MOST_SPANS) return;
    const span = { ...part, label };
    if (!spans.some((one) => one.start === span.start && one.end === span.end && one.label === label)) spans = [...spans, span].sort((one, other) => one.start - other.start || one.end - other.end || placeOf(one.label) - placeOf(other.label));
    getSelection().removeAllRanges();
    text.clear();
    send();
    text.focus();
  }

  function drop(span) {
    spans = spans.filter((one) => one !== span);
    send();
    text.focus();
  }

  function draw() {
    none?.set(null);
    text.paint(question.id, spans.map((span) => ({ ...span, shade: placeOf(span.label) })));
    fill(list, spans.map((span) => element("li", {}, element("b", { class: shadeOf(placeOf(span.label)) }, options[placeOf(span.label)]?.text ?? span.label), " ", element("q", { dir: "auto" }, text.quote(span)),
      element("button", { type: "button", class: "small", "aria-label": say("mark_remove", { text: text.quote(span) }), onclick: () => drop(span) }, "×"))));
  }

  function showChoice() {
    const part = text.choice(), words = part ? say("mark_chosen", { text: text.quote(part) }) : say("mark_how");
    for (const button of buttons) button.disabled = !part || spans.length >= MOST_SPANS;
    if (status.textContent !== words) status.textContent = words;
  }

  text.listen({ onChoice: showChoice, labels: options.length, onDigit: (digit) => give(options[digit - 1].value) });
  showChoice();
  const node = element("fieldset", { class: "question spans-of", "aria-describedby": `${id}-problem` }, element("legend", {}, title), status,
    element("div", { class: "row label-buttons" }, buttons), list, none?.node);
  return { node, focus: () => text.focus(), set: (value) => { spans = value ?? []; draw(); none?.set(value); } };
}
