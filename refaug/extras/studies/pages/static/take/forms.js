/** Forms as data: questions become fields that a finger, a mouse, the keys 1–9 and a screen reader can all fill in. */

import { element } from "../dom.js";
import { markableText, spanField } from "./spans.js";
import { say, studyLanguage } from "./words.js";

let made = 0; // forms on this page, so that ids are never used twice
const PAUSE_MS = 600, LONGEST_TEXT = 20_000; // milliseconds, characters

const sameValue = (one, other) => JSON.stringify(one ?? null) === JSON.stringify(other ?? null);
const isEmpty = (value) => value === undefined || value === null || value === ""; // no label at all is an answer

/**
 * Return a form: `{node, update, values, missing, showMissing, press}`. `prefix` stands before the ids of answers of
 * one side or turn, `onAnswer(key, value, isTyping)` hears every change, and parts of `text` can be marked.
 */
export function createForm(form, { scopes = ["task"], prefix = "", onAnswer, text = null }) {
  const id = `form-${made += 1}`, values = {}, dirty = new Set();
  const questions = form.questions.filter((question) => scopes.includes(question.scope ?? "task"));
  const fields = questions.map((question) => {
    const change = (value, isTyping = false) => {
      values[question.id] = value;
      dirty.add(question.id);
      complain(false);
      showWhatApplies();
      onAnswer(prefix + question.id, value, isTyping);
    };
    const problem = element("p", { class: "bad problem", id: `${id}-${question.id}-problem`, hidden: true }, say("answer_first"));
    const field = (FIELDS[question.type] ?? textField)(question, `${id}-${question.id}`, change, text);
    field.node.append(problem);
    const complain = (isMissing) => { problem.hidden = !isMissing; field.node.classList.toggle("missing", isMissing); };
    return { question, ...field, complain };
  });
  const node = element("div", { class: "questions", lang: studyLanguage() }, fields.map((field) => field.node));
  const applies = ({ show_if: conditions }) => Object.entries(conditions ?? {}).every(([other, wanted]) => questions.every((one) => one.id !== other || applies(one)) && (Array.isArray(wanted) ? wanted : [wanted]).some((value) => labelsOf(values[other]).some((label) => sameValue(value, label))));
  function showWhatApplies() {
    for (const field of fields) field.node.hidden = !applies(field.question);
  }
  const missing = () => fields.filter(({ question }) => question.required && applies(question) && isEmpty(values[question.id]));
  const firstOpen = (from = 0) => fields.slice(from).find(({ question, press, node: place }) => !place.hidden && ((press && question.type !== "labels") || question.required) && isEmpty(values[question.id]));
  showWhatApplies();
  return {
    node,
    isEmpty: fields.length === 0,
    missing,
    /** Take over what the study has stored; what was changed here and is not acknowledged yet stays. */
    update(answers) {
      for (const field of fields) {
        const key = field.question.id, stored = answers[prefix + key];
        if (dirty.has(key) || sameValue(stored, values[key])) continue;
        if (isEmpty(stored)) delete values[key];
        else values[key] = stored;
        field.set(stored ?? null);
      }
      showWhatApplies();
    },
    /** What was sent with this value is stored now. */
    acknowledge(key, value) {
      const name = key.slice(prefix.length);
      if (key.startsWith(prefix) && sameValue(values[name], value)) dirty.delete(name);
    },
    /** The keys of texts, which may have been typed and never sent. */
    typedKeys: fields.filter(({ question }) => question.type === "text").map(({ question }) => prefix + question.id),
    /** Put back what was typed and never sent. */
    restore(key, text) {
      const field = fields.find(({ question }) => prefix + question.id === key);
      if (!field || isEmpty(text)) return;
      values[field.question.id] = text;
      dirty.add(field.question.id);
      field.set(text);
    },
    showMissing() {
      const open = missing();
      for (const field of fields) field.complain(open.includes(field));
      open[0]?.focus();
      return open.length;
    },
    values: () => Object.fromEntries(fields.filter(({ question }) => applies(question) && !isEmpty(values[question.id])).map(({ question }) => [question.id, values[question.id]])),
    /** Say of each question whether its answer is one of the right ones, and which they are. */
    showResult(right) {
      for (const field of fields) {
        const accepted = right[field.question.id];
        if (!accepted) continue;
        const isRight = accepted.some((value) => sameValue(value, values[field.question.id]));
        field.node.append(element("p", { class: isRight ? "good result" : "bad result" }, isRight ? say("try_right") : say("try_wrong", { value: wordsOf(field.question, accepted) })));
      }
      for (const control of node.querySelectorAll("input, textarea, button, select")) control.disabled = true;
    },
    hasOpen: () => Boolean(firstOpen()),
    focusOpen: () => firstOpen()?.focus(),
    /** Answer by a digit: the question with the focus, or the first one that is open. Return whether that was it: several labels may follow. */
    press(digit) {
      const field = fields.find((one) => one.node.contains(document.activeElement) && one.press) ?? firstOpen();
      if (!field?.press?.(digit)) return "";
      if (field.question.type === "labels") return "stays";
      (firstOpen(fields.indexOf(field) + 1) ?? field).focus();
      return "answered";
    },
  };
}

/** Return what conditions look for: an answer, or each of its labels. */
const labelsOf = (value) => (Array.isArray(value) ? value.map((one) => one?.label ?? one) : [value]);

function wordsOf(question, value) {
  const options = optionsOf(question);
  const wordOf = (one) => options.find((option) => sameValue(option.value, one))?.text ?? one;
  return Array.isArray(value) ? value.map(wordOf).join(", ") : wordOf(value);
}

const title = (question) => [question.text, " ", question.required ? null : element("span", { class: "faint optional" }, `(${say("optional")})`)];

/** Return the choices of a question with their words; sides that the study has not named are named here. */
function optionsOf(question) {
  if (question.type === "likert") {
    const least = question.least ?? 1, most = question.most ?? 7;
    return Array.from({ length: most - least + 1 }, (_, place) => ({ value: least + place, text: String(least + place) }));
  }
  if (question.options?.length) return question.options;
  return question.type === "pair" ? [{ value: "left", text: say("left") }, { value: "right", text: say("right") }] : [];
}

// ── kinds of questions ────────────────────────────────────────────────────────────────────────────────────────────────

/** One of several: seven points of a scale, options, or the left and the right of a pair. */
function choiceField(question, id, change) {
  const options = optionsOf(question), isScale = question.type === "likert", isMultiple = question.type === "labels";
  const none = isMultiple && question.required ? noneOf(id, (value) => { if (value) inputs.forEach((input) => { input.checked = false; }); change(value); }) : null;
  const chosen = () => { none?.set(null); const labels = options.filter((option, place) => inputs[place].checked).map(({ value }) => value); return labels.length ? labels : null; };
  const inputs = options.map((option, place) => element("input", {
    type: isMultiple ? "checkbox" : "radio", name: id, id: `${id}-${place}`, value: String(place), required: question.required && !isMultiple,
    onchange: () => change(isMultiple ? chosen() : option.value),
  }));
  const [low, high] = question.ends ?? [];
  const labels = options.map((option, place) => element("label", { class: "option", for: `${id}-${place}` }, inputs[place], element("span", { class: "option-text" },
    isScale && place === 0 && low ? element("span", { class: "visually-hidden" }, `${low}: `) : null, isScale && place === options.length - 1 && high ? element("span", { class: "visually-hidden" }, `${high}: `) : null, option.text)));
  const places = element("div", { class: "options" }, labels, none?.node);
  if (isScale && options.length <= 8) places.style.setProperty("--points", options.length);
  const node = element("fieldset", { class: `question ${isScale ? "scale" : isMultiple ? "choice" : question.type}`, "aria-describedby": `${id}-problem` },
    element("legend", {}, title(question), isMultiple && element("span", { class: "faint optional" }, `(${say("choose_all")})`)),
    places,
    isScale && (low || high) && element("div", { class: "ends faint", "aria-hidden": "true" }, element("span", {}, low ?? ""), element("span", {}, high ?? "")));
  const set = (value) => { inputs.forEach((input, place) => { input.checked = isMultiple ? (value ?? []).includes(options[place].value) : sameValue(options[place].value, value); }); none?.set(value); };
  return {
    node, set,
    focus: () => (inputs.find((input) => input.checked) ?? inputs[0])?.focus(),
    press(digit) {
      const place = isScale ? options.findIndex((option) => option.value === digit) : digit - 1;
      if (!inputs[place]) return false;
      inputs[place].focus();
      inputs[place].click();
      return true;
    },
  };
}

/** A slider without a position until somebody gives it one: its middle is an answer, too. */
function sliderField(question, id, change) {
  const least = question.least ?? 0, most = question.most ?? 100, isWhole = most - least >= 10;
  const middle = isWhole ? Math.round((least + most) / 2) : (least + most) / 2;
  const shown = element("output", { for: id, class: "slider-value" }, say("slider_none"));
  const input = element("input", { type: "range", id, min: least, max: most, step: isWhole ? 1 : (most - least) / 100, value: middle, class: "unset", "aria-describedby": `${id}-ends ${id}-problem`, oninput: () => answer() });
  const toMiddle = element("button", { type: "button", class: "small", onclick: () => { input.value = middle; answer(); } }, say("slider_set"));
  const mark = (value) => {
    input.classList.toggle("unset", value === null);
    shown.textContent = value === null ? say("slider_none") : String(value);
    input.setAttribute("aria-valuetext", shown.textContent);
    toMiddle.hidden = value !== null;
  };
  const answer = () => { mark(Number(input.value)); change(Number(input.value)); };
  mark(null);
  const [low, high] = question.ends ?? [String(least), String(most)];
  const node = element("div", { class: "question slider" }, element("div", { class: "slider-head" }, element("label", { for: id }, title(question)), shown), input,
    element("div", { class: "ends faint", id: `${id}-ends` }, element("span", {}, low), element("span", {}, high)), toMiddle);
  return { node, focus: () => input.focus(), set: (value) => { input.value = value ?? middle; mark(value ?? null); } };
}

/** A text of one's own words. */
function textField(question, id, change) {
  const most = LONGEST_TEXT;
  const help = element("p", { class: "faint", id: `${id}-help`, hidden: true, role: "status" });
  let timer = 0;
  const input = element("textarea", { id, rows: 2, dir: "auto", "aria-describedby": `${id}-help ${id}-problem`, required: question.required,
    oninput: () => { clearTimeout(timer); if (fits()) { change(input.value, true); timer = setTimeout(() => change(input.value), PAUSE_MS); } },
    onchange: () => { clearTimeout(timer); if (fits()) change(input.value); } });
  function fits() {
    const count = [...input.value].length, isLong = count > most;
    help.hidden = !isLong;
    help.textContent = isLong ? say("long", { count: count.toLocaleString(studyLanguage()), most: most.toLocaleString(studyLanguage()) }) : "";
    input.setAttribute("aria-invalid", String(isLong));
    return !isLong;
  }
  const node = element("div", { class: "question text" }, element("label", { for: id }, title(question)), input, help);
  return { node, focus: () => input.focus(), set: (value) => { if (document.activeElement !== input || value !== null) input.value = value ?? ""; } };
}

/** Labels on parts of a text. */
function partsField(question, id, change, text) {
  return spanField({ question, id, title: title(question), options: optionsOf(question), noneOf: question.required ? (onNone) => noneOf(id, onNone) : null }, change, text ?? markableText(""));
}

/** Return the box by which none of several labels is an answer. */
function noneOf(id, change) {
  const input = element("input", { type: "checkbox", id: `${id}-none`, onchange: () => change(input.checked ? [] : null) });
  return { input, node: element("label", { class: "option", for: input.id }, input, element("span", { class: "option-text" }, say("none_of_these"))), set: (value) => { input.checked = Array.isArray(value) && value.length === 0; } };
}

const FIELDS = { likert: choiceField, slider: sliderField, text: textField, pair: choiceField, choice: choiceField, labels: choiceField, spans: partsField };
