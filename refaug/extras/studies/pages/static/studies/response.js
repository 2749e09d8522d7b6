/** One response in full: the chat with votes beside the turns, answers with decisions, comments, times, and why it has flags. */

import { get } from "../api.js";
import { badge, moment } from "../components/states.js";
import { element, fill, userText } from "../dom.js";
import { count } from "../format.js";
import { showProblem } from "../frame.js";
import { asGiven, brief, decisionForm, isScale } from "./decisions.js";

export const FLAGS = {
  commented: "has a comment", skipped: "skipped", expired: "left without a word", wrong_attention: "wrong answer to the attention check", same_answer: "one answer everywhere in the task", names_bot: "a reply names a bot",
  failed_attention: "participant failed attention checks", degraded_not_lower: "degraded bot not rated lower", same_answer_everywhere: "participant answers alike everywhere", seconds_per_turn_below: "participant too quick", seconds_per_task_below: "participant too quick",
  repeat_differs_by: "repeated task differs", copied_messages: "copied messages", by_hand: "left out by hand",
};
const shadeOf = (place) => `shade-${Math.max(0, place) % 6}`; // as participants see the parts that they mark
const ENDS = { done: "done", skipped: "skipped", expired: "left" };
const duration = (seconds) => (seconds < 90 ? `${Math.round(seconds)} s` : `${(seconds / 60).toFixed(1)} min`);

/** Return the dialog of a response; `list` goes to the previous and the next one. */
export function responseView(study, { mayChange }, { list }) {
  const dialog = element("dialog", { class: "wide response", id: "response-dialog", "aria-labelledby": "response-title" });
  let at = -1;
  dialog.addEventListener("close", () => list.node.focus({ preventScroll: true }));
  dialog.addEventListener("keydown", (event) => {
    if (event.target.matches("input, textarea, select") || event.ctrlKey || event.metaKey || event.altKey) return;
    const by = { ArrowLeft: -1, k: -1, ArrowRight: 1, j: 1 }[event.key];
    if (by === undefined) return;
    event.preventDefault();
    list.go(at + by);
  });
  const step = (by, label) => element("button", { type: "button", class: "small", disabled: at + by < 0 || at + by >= list.total, onclick: () => list.go(at + by) }, label);

  async function open(row, place) {
    at = place;
    const content = element("div", { "aria-busy": "true" }), close = element("button", { type: "button", class: "small", id: "response-close", onclick: () => dialog.close() }, "Close");
    fill(dialog, element("div", { class: "row apart response-head" }, element("h2", { id: "response-title", tabindex: -1 }, row.participant, `, task ${count(row.position)}`), element("span", { class: "row" }, element("span", { class: "faint" }, `${count(place + 1)} of ${count(list.total)}`), step(-1, "Previous"), step(1, "Next"), close)), content);
    if (!dialog.open) dialog.showModal();
    dialog.querySelector("#response-title").focus({ preventScroll: true });
    dialog.scrollTop = 0;
    try {
      const [{ tasks }, others] = await Promise.all([get(`/v1/studies/${study.id}/participants/${row.participant}`), row.item === null ? [] : othersOf(row)]);
      const task = tasks.find((one) => one.task === row.task);
      if (!content.isConnected) return;
      if (task) fill(content, fullResponse(row, task, others));
      else fill(content, element("p", { class: "empty" }, "What this participant did is erased."));
    } catch (error) {
      showProblem(content, error);
    }
    content.removeAttribute("aria-busy");
  }

  const othersOf = async (row) => (await get(`/v1/studies/${study.id}/responses?${new URLSearchParams({ item: row.item, limit: 50 })}`)).responses.filter((other) => other.task !== row.task);

  function fullResponse(row, task, others) {
    const flags = row.flags.filter(({ rule }) => rule !== "commented");
    return [
      element("p", { class: "faint response-facts" }, badge(ENDS[task.state], task.state === "done" ? "good" : "warn"), " ", task.seconds !== null && `${duration(task.seconds)} · `, task.ended && moment(task.ended), task.check && ` · a check: ${task.check}`, task.skip_reason && [" · because: ", userText(task.skip_reason)]),
      flags.length > 0 && element("ul", { class: "plain flags" }, flags.map(({ rule, detail }) => element("li", {}, badge(FLAGS[rule] ?? rule, "warn"), " ", userText(detail)))),
      element("div", { class: "response-parts" }, element("div", { class: "response-dialogues" }, itemOf(task), task.sides.filter((side) => side.turns.length).map((side) => dialogueOf(task, side))), answersOf(row, task, others))];
  }

  /** Return what a task of an item shows besides dialogues: the context, and the replies or the reference that were judged. */
  function itemOf({ item }) {
    if (!item || !(item.reply ?? item.replies ?? item.reference)) return null;
    const judged = item.replies ? Object.entries(item.replies) : [[item.reference ? "Reference" : "Reply", item.reference ?? item.reply]];
    const turns = (item.turns ?? []).map((turn) => (typeof turn === "string" ? { text: turn } : turn));
    return element("section", { "aria-label": "What was judged" }, element("ol", { class: "plain turns", role: "list" }, turns.map((turn) => element("li", { class: `turn ${turn.role === "bot" ? "bot" : "participant"}` }, element("div", { class: "said" }, userText(turn.text))))),
      element("dl", { class: "facts" }, judged.map(([name, text]) => [element("dt", {}, userText(name)), element("dd", {}, userText(typeof text === "string" ? text : JSON.stringify(text)))])));
  }

  function dialogueOf(task, side) {
    const bot = task.bots.find((one) => one.side === side.side)?.bot ?? "";
    return element("section", { "aria-label": `Dialogue with ${bot}` }, element("h3", {}, userText(bot), task.sides.length > 1 && element("span", { class: "faint" }, ` ${side.side}`)),
      element("ol", { class: "plain turns", role: "list" }, side.turns.map((turn) => element("li", { class: `turn ${turn.role}` }, element("div", { class: "said" }, markedText(turn)), marks(turn)))));
  }

  const questionOf = (id) => study.protocol.form.questions.find((one) => one.id === id);
  const labelOf = (id, value) => questionOf(id)?.options?.find((option) => option.value === value)?.text ?? String(value);
  const spansOf = (turn) => Object.entries(turn.labels ?? {}).flatMap(([id, value]) => (Array.isArray(value) ? value.filter((one) => one?.label !== undefined).map((span) => ({ ...span, id, text: labelOf(id, span.label), shade: (questionOf(id)?.options ?? []).findIndex((option) => option.value === span.label) })) : []));

  /** Return the text of a turn with its marked parts; places count code points, and parts may overlap. */
  function markedText(turn) {
    const spans = spansOf(turn), points = [...turn.text];
    if (!spans.length) return userText(turn.text);
    const ends = [...new Set([0, points.length, ...spans.flatMap(({ start, end }) => [start, end])])].filter((at) => at <= points.length).sort((one, other) => one - other);
    return ends.slice(1).map((end, place) => {
      const part = userText(points.slice(ends[place], end).join("")), own = spans.filter((span) => span.start <= ends[place] && span.end >= end);
      return own.length ? element("mark", { class: shadeOf(own.at(-1).shade), title: own.map(({ text }) => text).join(", ") }, part) : part;
    });
  }

  function marks(turn) {
    const given = (id, value) => (Array.isArray(value) ? value.filter((one) => one?.label === undefined).map((one) => labelOf(id, one)) : [questionOf(id)?.options ? labelOf(id, value) : `${id}: ${value}`]);
    const parts = spansOf(turn).map(({ start, end, text, shade }) => element("span", {}, element("span", { class: `badge ${shadeOf(shade)}` }, userText(text)), " ", element("q", {}, userText([...turn.text].slice(start, end).join("")))));
    const labels = [...Object.entries(turn.labels ?? {}).flatMap(([id, value]) => given(id, value)).map((text) => element("span", { class: "badge" }, userText(text))), ...parts];
    const vote = turn.vote ? element("span", { class: turn.vote > 0 ? "good" : "bad", title: "the participant's vote" }, turn.vote > 0 ? "▲ good" : "▼ bad") : null;
    const reply = typeof turn.ms === "number" && element("span", { class: "faint" }, `after ${(turn.ms / 1_000).toFixed(1)} s`), names = turn.names_bot && badge("names a bot", "warn");
    return vote || reply || names || labels.length ? element("div", { class: "marks" }, vote, reply, names, labels) : null;
  }

  // ── answers ─────────────────────────────────────────────────────────────────────────────────────────────────────────

  function answersOf(row, task, others) {
    const sides = task.sides.length > 1 ? task.bots : [{ side: "", bot: "" }];
    const given = study.protocol.form.questions.flatMap((question) => [["", ""], ...sides.filter(({ side }) => side).map(({ side, bot }) => [`${side}/`, bot])].filter(([prefix]) => `${prefix}${question.id}` in task.answers).map(([prefix, bot]) => ({ question, bot, answer: task.answers[`${prefix}${question.id}`] })));
    const attention = "attention" in task.answers && element("p", {}, "Attention check: ", badge(task.answers.attention ? "right" : "wrong", task.answers.attention ? "good" : "bad"));
    return element("section", { class: "response-answers", "aria-label": "Answers" }, element("h3", {}, "Answers"), attention, given.length === 0 && element("p", { class: "faint" }, "none"),
      given.map(({ question, bot, answer }) => element("div", { class: "answer" }, element("p", { class: "asked" }, userText(question.text), bot && [" ", element("b", {}, userText(bot))]), element("p", { class: "given" }, shown(question, answer, task)),
        row.item !== null && !bot && decisionOf(row, task, question, others))));
  }

  function shown(question, answer, task) {
    const option = question.options?.find((one) => (one.value ?? one) === answer);
    if (question.type === "pair") return userText(task.bots.find((bot) => bot.side === answer)?.bot ?? String(answer));
    if (isScale(question)) return [element("b", {}, String(answer)), element("span", { class: "faint" }, ` of ${question.least ?? 1} to ${question.most ?? 7}${question.ends ? `, ${question.ends.join(" to ")}` : ""}`)];
    return userText(option?.text ?? (typeof answer === "object" ? JSON.stringify(answer) : String(answer)));
  }

  /** Return what others answered about the same thing, and the decision about it, to be made or changed here. */
  function decisionOf(row, task, question, others) {
    const theirs = others.map((other) => [other.participant, isScale(question) && question.id in other.scores ? brief(asGiven(question, other.scores[question.id])) : other.chosen[question.id]]).filter(([, value]) => value !== undefined);
    const decision = task.decisions?.[question.id], state = element("p", { class: "faint", role: "status" }, decision ? ["decided: ", userText(String(decision.value)), decision.note && [", ", userText(decision.note)]] : "");
    const label = `What counts for ${question.id}`;
    const value = isScale(question) ? element("input", { type: "number", "aria-label": label, min: question.least ?? 1, max: question.most ?? 7, step: "any" })
      : element("select", { "aria-label": label }, (question.type === "pair" ? [...task.bots.map(({ bot }) => bot), "tie"] : (question.options ?? []).map((one) => one.value ?? one)).map((one) => element("option", { value: one }, userText(String(one)))));
    const note = element("input", { type: "text", "aria-label": `Reason for ${question.id}`, placeholder: "reason", maxlength: 2_000 });
    if (decision) { value.value = decision.value; note.value = decision.note; }
    return [theirs.length > 0 && element("p", { class: "faint" }, "Others: ", theirs.map(([person, answer], place) => [place ? ", " : "", `${answer}`, element("span", { class: "visually-hidden" }, ` by ${person}`)])),
      mayChange && (isScale(question) || ["pair", "choice"].includes(question.type)) && decisionForm(study, { item: row.item, question, value, note, state, className: "row decide" }), state];
  }

  return { dialog, open };
}
