/** The questions of a new study: those of a form that comes along, changed, or all of one's own; no JSON is written. */

import { element, fill } from "../../dom.js";
import { area, box, field, number, select, text } from "../fields.js";

const TYPES = { likert: "buttons, such as 1 to 7", slider: "a slider", choice: "one of several answers", pair: "which side is better", text: "a text of their own", labels: "labels of each reply", spans: "labels of parts of each reply" };
const SCOPES = { task: "the whole task", side: "each side", turn: "each reply" };
const ABOUT_TURNS = ["labels", "spans"], LISTED = ["choice", ...ABOUT_TURNS];
const mustBeAnswered = (type) => !["text", ...ABOUT_TURNS].includes(type);
const TIE = { value: "tie", text: "Both alike" };

/** Return a name for programs made of a text. */
export const slug = (words) => words.normalize("NFKD").toLowerCase().replace(/[^a-z0-9]+/g, "-").replace(/^-+|-+$/g, "").slice(0, 40);

const fetched = new Map();

/** Return a form that comes along, by its name. */
export function builtIn(name) {
  if (!fetched.has(name)) fetched.set(name, fetch(new URL(`../forms/${name}.json`, import.meta.url)).then((answer) => answer.json()));
  return fetched.get(name);
}

export const hasTies = (form) => form.questions.some((question) => question.options?.some((option) => option.value === "tie"));

/** Return the editor of a form's questions; `set` shows others, and `form` returns them as a protocol has them. */
export function questionEditor(kindOf, onChange) {
  const list = element("ol", { class: "plain question-cards", id: "questions" });
  let shown = { name: "own", questions: [], texts: {} }, cards = [], isChanged = false;
  const changed = () => { isChanged = true; onChange(); };
  const draw = () => fill(list, cards.map((card) => card.node));

  function add(question, isOpen) {
    const card = questionCard(question, { kindOf, isOpen, changed, move: (step) => { const at = cards.indexOf(card), to = at + step; if (to < 0 || to >= cards.length) return; [cards[at], cards[to]] = [cards[to], cards[at]]; draw(); changed(); },
      remove: () => { cards = cards.filter((one) => one !== card); draw(); changed(); } });
    cards.push(card);
    return card;
  }

  const more = element("button", { type: "button", id: "add-question", onclick: () => {
    const card = add({ type: kindOf() === "label-turns" ? "labels" : /pair/.test(kindOf()) ? "pair" : "likert", scope: kindOf() === "label-turns" ? "turn" : "task", text: "", ...(kindOf() === "label-turns" ? { required: true } : {}) }, true);
    draw();
    changed();
    card.focus();
  } }, "Add a question");

  function set(form, isOwn = false) {
    shown = form;
    isChanged = isOwn;
    cards = [];
    form.questions.forEach((question) => add(question, false));
    draw();
    onChange();
  }

  /** Return the form, by its name where it is as it came; ids of new questions are made of their texts. */
  function form(withTies) {
    const taken = new Set(), questions = cards.map((card) => card.read(taken, withTies));
    if (!isChanged && withTies === hasTies(shown)) return shown.name;
    const before = new Map(shown.questions.map((question) => [question.id, question])), texts = {};
    for (const [language, words] of Object.entries(shown.texts ?? {})) { // translations of what is still asked as it was
      const own = Object.entries(words).filter(([id]) => questions.some((question) => question.id === id && question.text === before.get(id)?.text));
      if (own.length) texts[language] = Object.fromEntries(own.map(([id, { options, ...rest }]) => [id, options ? { ...rest, options: Object.fromEntries(Object.entries(options).filter(([value]) => value !== "tie" || withTies)) } : rest]));
    }
    return { name: `${slug(shown.name).replace(/-own$/, "") || "questions"}-own`, questions, ...(Object.keys(texts).length ? { texts } : {}) };
  }

  return { node: element("div", { class: "wide-field" }, list, element("div", { class: "row start-row" }, more)), set, form, questions: () => cards.map((card) => card.read(new Set(), true)), show: () => cards.forEach((card) => card.show()) };
}

let last = 0;

function questionCard(question, { kindOf, isOpen, changed, move, remove }) {
  const id = `question-${last += 1}`;
  const wording = area(question.text ?? "", { rows: 2, maxlength: 4_000, required: true }), type = select(Object.entries(TYPES)), scope = select(Object.entries(SCOPES));
  const least = number(question.least ?? 1, -1_000_000, 1_000_000), most = number(question.most ?? 7, -1_000_000, 1_000_000), low = text({ maxlength: 200, value: question.ends?.[0] ?? "" }), high = text({ maxlength: 200, value: question.ends?.[1] ?? "" });
  const options = area((question.options ?? []).map((option) => option.text).join("\n"), { rows: 4 }), required = box(`${id}-required`, "must be answered", question.required ?? mustBeAnswered(question.type)), reverse = box(`${id}-reverse`, "a low answer is good (turned in the report)", question.reverse ?? false);
  type.value = question.type ?? "likert";
  type.addEventListener("change", () => { required.input.checked = mustBeAnswered(type.value); });
  scope.value = question.scope ?? "task";
  const summary = element("summary", {});
  const scale = [field(`${id}-least`, "From", least), field(`${id}-most`, "To", most), field(`${id}-low`, "The least means", low), field(`${id}-high`, "The most means", high), element("div", { class: "field wide-field" }, reverse)];
  const listed = field(`${id}-options`, "Answers or labels, one a line", options, "at most 50", { isWide: true }), about = field(`${id}-scope`, "About", scope);
  const button = (label, act) => element("button", { type: "button", class: "small", onclick: act }, label);
  const details = element("details", { class: "question-card", open: isOpen }, summary, element("div", { class: "fields study-fields" },
    field(`${id}-text`, "Question", wording, null, { isWide: true }), field(`${id}-type`, "Answered by", type, null, { isWide: true }), about, scale, listed, element("div", { class: "field wide-field" }, required)),
  element("div", { class: "row" }, button("Up", () => move(-1)), button("Down", () => move(1)), element("button", { type: "button", class: "small danger", onclick: remove }, "Remove")));

  function show() {
    const kind = kindOf(), isScale = ["likert", "slider"].includes(type.value);
    for (const node of scale) node.hidden = !isScale;
    listed.hidden = !LISTED.includes(type.value);
    options.required = !listed.hidden;
    const hasReplies = !/reply|reference/.test(kind), isOfReplies = ABOUT_TURNS.includes(type.value);
    about.hidden = isOfReplies || !(hasReplies || /pair/.test(kind));
    for (const option of type.options) option.hidden = (option.value === "pair" && !/pair/.test(kind)) || (ABOUT_TURNS.includes(option.value) && !hasReplies);
    for (const option of scope.options) option.hidden = (option.value === "side" && !/pair/.test(kind)) || (option.value === "turn" && (!hasReplies || !["choice", "text"].includes(type.value))); // other answers about replies are stored, and not reported
    const range = isScale ? `${least.value} to ${most.value}` : TYPES[type.value];
    fill(summary, wording.value.trim() || "A new question", element("span", { class: "faint" }, ` ${range}`));
  }

  /** Return the question as a protocol has it; `show_if` of a copied one stays. */
  function read(taken, withTies) {
    const isScale = ["likert", "slider"].includes(type.value), base = question.id ?? (slug(wording.value).slice(0, 24) || "question");
    let name = base === "attention" ? "attention-paid" : base;
    for (let further = 2; taken.has(name); further += 1) name = `${base}-${further}`;
    taken.add(name);
    const values = new Set(), before = new Map((question.options ?? []).map((option) => [option.text, option.value]));
    const answers = options.value.split("\n").map((line) => line.trim()).filter(Boolean).map((line, place) => {
      let value = before.get(line) ?? (slug(line).slice(0, 30) || `answer-${place + 1}`);
      while (values.has(value)) value = `${value}-${place + 1}`;
      values.add(value);
      return { value, text: line };
    });
    const sides = (question.type === "pair" && question.options?.filter((option) => option.value !== "tie")) || [{ value: "left", text: "Left" }, { value: "right", text: "Right" }];
    const tie = question.options?.find((option) => option.value === "tie") ?? TIE;
    return {
      id: name, type: type.value, text: wording.value.trim(), scope: ABOUT_TURNS.includes(type.value) ? "turn" : type.value === "pair" && scope.value === "turn" ? "task" : scope.value, required: required.input.checked,
      ...(isScale ? { least: Number(least.value), most: Number(most.value), reverse: reverse.input.checked, ...(low.value.trim() && high.value.trim() ? { ends: [low.value.trim(), high.value.trim()] } : {}) } : {}),
      ...(type.value === "pair" ? { options: withTies ? [...sides, tie] : sides } : {}), ...(LISTED.includes(type.value) ? { options: answers } : {}),
      ...(question.show_if ? { show_if: question.show_if } : {}),
    };
  }

  details.addEventListener("invalid", () => { details.open = true; }, true); // a field that nobody sees cannot be mended
  details.addEventListener("input", () => { show(); changed(); });
  details.addEventListener("change", () => { show(); changed(); });
  show();
  return { node: element("li", {}, details), read, show, focus: () => wording.focus() };
}
