/** Practice before the first task: dialogues with the right answer and what is said about it. */

import { element, fill } from "../../dom.js";
import { area, field, select, text } from "../fields.js";

const PARTS = { "rate-reply": [["reply", "Reply"]], "pair-reply": [["left", "Reply on the left"], ["right", "Reply on the right"]], "rate-reference": [["reference", "Reference"]] };
let last = 0;

/** Return the editor of practice items; `items` returns them as a protocol has them, and `set` shows others. */
export function practiceEditor(kindOf, questionsOf) {
  const list = element("ol", { class: "plain question-cards", id: "practice" });
  let cards = [];
  const draw = () => fill(list, cards.map((card) => card.node));
  const add = (item) => { const card = practiceCard(item, kindOf, questionsOf, () => { cards = cards.filter((one) => one !== card); draw(); }); cards.push(card); draw(); };
  const more = element("button", { type: "button", id: "add-practice", onclick: () => add({}) }, "Add a practice item");
  return {
    node: element("div", { class: "wide-field" }, element("p", { class: "faint" }, "Without any, there is no practice. Who does not pass is sent home."), list, element("div", { class: "row start-row" }, more)),
    set: (items) => { cards = []; draw(); items.forEach(add); }, items: () => cards.map((card) => card.read()), show: () => cards.forEach((card) => card.show()),
  };
}

const spoken = (turn) => (typeof turn === "string" ? turn : turn.text);

function practiceCard(item, kindOf, questionsOf, remove) {
  const id = `practice-${last += 1}`, [[asked, right] = [null, []]] = Object.entries(item.answers ?? {});
  const turns = area((item.turns ?? []).map(spoken).join("\n"), { rows: 3, required: true }), answers = text({ value: right.join(", "), required: true }), feedback = text({ maxlength: 4_000, value: item.feedback ?? "" }), question = select([]);
  const parts = Object.entries(PARTS).flatMap(([kind, fields]) => fields.map(([name, label]) => { const input = text({ maxlength: 4_000, value: item[name] ?? item.replies?.[name] ?? "" }); return { kind, name, input, node: field(`${id}-${name}`, label, input, null, { isWide: true }) }; }));

  function show() {
    const before = question.value || asked;
    fill(question, questionsOf().filter((one) => one.type !== "text" && one.scope !== "turn").map((one) => element("option", { value: one.id }, one.text.slice(0, 80) || one.id)));
    if ([...question.options].some((option) => option.value === before)) question.value = before;
    for (const part of parts) part.node.hidden = part.kind !== kindOf();
  }

  function read() {
    const chosen = questionsOf().find((one) => one.id === question.value), written = answers.value.split(",").map((one) => one.trim()).filter(Boolean);
    const values = chosen?.options ? written.map((one) => chosen.options.find((option) => option.text === one)?.value ?? one) : written.map((one) => (Number.isFinite(Number(one)) ? Number(one) : one));
    const own = parts.filter((part) => part.kind === kindOf()), replies = own.filter(({ name }) => name === "left" || name === "right");
    return { ...(item.id ? { id: item.id } : {}), turns: turns.value.split("\n").filter((line) => line.trim()), ...(replies.length ? { replies: Object.fromEntries(replies.map(({ name, input }) => [name, input.value])) } : {}),
      ...Object.fromEntries(own.filter(({ name }) => name === "reply" || name === "reference").map(({ name, input }) => [name, input.value])), answers: { [question.value]: values }, feedback: feedback.value.trim() };
  }

  show();
  return { read, show, node: element("li", { class: "question-card" }, element("div", { class: "fields study-fields" }, field(`${id}-turns`, "Dialogue, a turn a line, the person's first", turns, null, { isWide: true }), parts.map((part) => part.node), field(`${id}-question`, "Question", question), field(`${id}-answers`, "Right answers", answers, "with commas between them, such as 1, 2"), field(`${id}-feedback`, "What is said about it", feedback, null, { isWide: true })),
    element("div", { class: "row" }, element("button", { type: "button", class: "small danger", onclick: remove }, "Remove"))) };
}
