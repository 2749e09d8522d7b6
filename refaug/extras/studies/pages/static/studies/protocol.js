/** The protocol of a study in words: what, bots, questions, people, rules, consent; to keep, to copy, and to change or amend. */

import { put } from "../api.js";
import { moment } from "../components/states.js";
import { table } from "../components/tables.js";
import { element, fill, userText } from "../dom.js";
import { countOf } from "../format.js";
import { showProblem } from "../frame.js";
import { paragraphs } from "../take/dialogues.js";
import { area, field, number, saveText, text } from "./fields.js";
import { KINDS } from "./new_study.js";
import { card, laterPreview } from "./parts.js";
import { preregistration } from "./preregistration.js";

const MANY = 100_000; // participants: the limit that nobody has set
const TYPES = { likert: "a scale", slider: "a slider", choice: "a choice", pair: "one of two", text: "a text", labels: "labels of each reply", spans: "labels of parts of each reply" };
const DELAYS = { typing: "as if they were typed", none: "at once" };
const RULES = {
  failed_attention: (value) => `who fails ${countOf(value, "attention check")} or more`, degraded_not_lower: () => "who does not rate the degraded bot lower", same_answer_everywhere: () => "who gives the same answer everywhere",
  seconds_per_turn_below: (value) => `who takes less than ${value} s a turn`, seconds_per_task_below: (value) => `who takes less than ${value} s a task`, repeat_differs_by: (value) => `whose repeated task differs by more than ${value}`, copied_messages: (value) => `whose messages are copies, more than ${Math.round(value * 100)} % of them`,
};

/** Return a protocol as its author would write it: without what is not there. */
const written = (protocol) => Object.fromEntries(Object.entries(protocol).filter(([name, value]) => value !== null && !(name === "bots" && value.length === 0)));

export function protocolTab(study, context) {
  const { protocol } = study, amendments = study.amendments ?? [];
  return [
    element("section", { class: "card", id: "protocol", "aria-labelledby": "protocol-title" },
      element("div", { class: "row apart" }, element("h2", { id: "protocol-title" }, "Protocol"), element("span", { class: "row" }, context.mayChange && element("a", { class: "button", id: "copy-study", href: `#new=copy:${study.id}` }, "Copy this study"), element("button", { type: "button", id: "keep-protocol", onclick: () => saveText(`${JSON.stringify(written(protocol), null, 2)}\n`, `${study.name}.json`, "application/json") }, "Keep the protocol as a file"))),
      element("dl", { class: "facts protocol-facts" }, facts(study).map(([name, ...content]) => [element("dt", {}, name), element("dd", {}, content)]))),
    element("section", { class: "card", "aria-labelledby": "preview-title" }, element("details", { open: study.state === "draft", id: "preview-box" }, element("summary", {}, element("h2", { id: "preview-title" }, "What participants see")), laterPreview(protocol))),
    context.mayChange && study.state !== "closed" && element("section", { class: "card", "aria-labelledby": "change-title" }, element("details", { open: study.state === "draft" }, element("summary", {}, element("h2", { id: "change-title" }, study.state === "draft" ? "Change the draft" : "Amend it")), changeForm(study, context))),
    amendments.length > 0 && card("amendments-title", "Amendments", table(["Protocol", "When", "By", "Why"], amendments.map((row) => [element("code", { title: row.sha256 }, row.sha256.slice(0, 12)), moment(row.at), userText(row.actor), userText(row.reason)]))),
    element("section", { class: "card to-print", "aria-labelledby": "preregistration-title" }, preregistration(study)),
  ];
}

const list = (items) => element("ul", { class: "plain" }, items.map((item) => element("li", {}, item)));

function questionOf(question) {
  const scale = ["likert", "slider"].includes(question.type) ? ` from ${question.least ?? 1} to ${question.most ?? 7}${question.ends ? `, ${question.ends.join(" to ")}` : ""}` : "";
  const options = (question.options ?? []).map((option) => option.text ?? option).join(", ");
  return [userText(question.text), element("div", { class: "faint" }, TYPES[question.type] ?? question.type, scale, options && [": ", userText(options)], question.required === false && ", may be left out", question.reverse && ", a low answer is good", question.show_if && ", shown after certain answers")];
}

function facts(study) {
  const { protocol } = study, rules = Object.entries(protocol.exclude ?? {}).filter(([, value]) => value !== false && value !== null), checks = protocol.checks ?? {};
  const bots = study.bots?.length ? study.bots : (protocol.bots ?? []).map((bot) => ({ bot }));
  return [
    ["What", KINDS[study.kind]?.[1] ?? study.kind, element("div", { class: "faint" }, `in ${protocol.language}`, protocol.min_turns !== undefined && protocol.min_turns !== null && `, ${protocol.min_turns} to ${protocol.max_turns} turns, replies ${DELAYS[protocol.delay] ?? "appear"}`, protocol.votes && ", arrows for good and bad replies")],
    bots.length > 0 && [protocol.bots?.length ? "Bots" : "Systems", list(bots.map((row) => [userText(row.bot), element("span", { class: "faint" }, row.degraded && " degraded on purpose", row.sha256 && [" ", element("code", { title: row.sha256 }, row.sha256.slice(0, 12))])]))],
    ["Questions", element("ol", { class: "questions" }, protocol.form.questions.map((question) => element("li", {}, questionOf(question))))],
    ["People", list([`${countOf(protocol.per_participant, "task")} of each participant`, protocol.target ? `${countOf(protocol.target, "chat")} of each ${protocol.kind === "chat-pair" ? "pair of bots" : "bot"}` : `${countOf(protocol.ratings_per_item, "rating")} of each item`, protocol.routing === "active" && "votes choose the next two bots, until their order is decided", protocol.participants < MANY && `${countOf(protocol.participants, "participant")} at most`, protocol.stop?.participants && `it pauses after ${countOf(protocol.stop.participants, "participant")}`,
      protocol.pay && `${protocol.pay.amount} ${protocol.pay.currency} for about ${countOf(protocol.pay.minutes, "minute")}`, protocol.screening?.length && `${countOf(protocol.screening.length, "question")} before they begin`, protocol.quotas?.length && countOf(protocol.quotas.length, "quota"), protocol.training && `practice with ${countOf(protocol.training.items.length, "item")}, ${Math.round(protocol.training.least * 100)} % right to pass`,
      protocol.completion?.code && ["code at the end: ", element("code", {}, userText(protocol.completion.code))], protocol.completion?.return_url && ["back to ", userText(protocol.completion.return_url)], `texts are kept for ${countOf(protocol.retention_days, "day")}`].filter(Boolean))],
    ["Checks", [checks.attention && countOf(checks.attention, "attention check"), checks.degraded && "a degraded bot", checks.repeat && countOf(checks.repeat, "repeated task")].filter(Boolean).join(", ") || "none"],
    ["Left out of the report", rules.length ? list(rules.map(([name, value]) => RULES[name]?.(value) ?? `${name}: ${value}`)) : "nobody, by rule"],
    ["Consent", element("details", {}, element("summary", {}, "the text"), paragraphs(protocol.consent || "(no text yet)", 4))],
    ["Hash", element("code", { title: study.protocol_sha256 }, study.protocol_sha256.slice(0, 16)), element("span", { class: "faint" }, study.state === "draft" ? " changes until the study opens" : " of the frozen protocol")],
  ].filter(Boolean);
}

/** Return the form of what is changed most often; everything else comes from a file that was kept and edited. */
function changeForm(study, { again }) {
  const { protocol } = study, isChat = study.kind.startsWith("chat"), amount = isChat ? "target" : "ratings_per_item";
  const controls = { title: text({ maxlength: 200, value: protocol.title }), consent: area(protocol.consent ?? "", { rows: 6 }), guidelines: area(protocol.guidelines ?? "", { rows: 4 }), [amount]: number(protocol[amount], 1, 1_000_000), per_participant: number(protocol.per_participant, 1, 200), retention_days: number(protocol.retention_days, 1, 36_500) };
  const file = element("input", { type: "file", accept: ".json,application/json" }), reason = text({ maxlength: 500 }), problem = element("div", { "aria-live": "assertive" });
  const changed = () => Object.fromEntries(Object.entries(controls).map(([name, node]) => [name, node.type === "number" ? (node.value === "" ? undefined : Number(node.value)) : node.value]));
  const fromFile = async () => {
    try {
      return JSON.parse(await file.files[0].text());
    } catch (error) {
      throw new TypeError(`${file.files[0].name} is not a protocol: ${error.message}. Keep the protocol as a file, change that, and choose it here.`);
    }
  };
  return element("form", { id: "change-form", onsubmit: async (event) => {
    event.preventDefault();
    showProblem(problem, null);
    try {
      const whole = file.files.length ? await fromFile() : { ...written(protocol), ...changed() };
      await put(`/v1/studies/${study.id}/protocol`, { protocol: whole, reason: reason.value.trim() });
      await again();
    } catch (error) {
      if (error instanceof TypeError) fill(problem, element("div", { class: "notice bad" }, element("p", {}, error.message)));
      else showProblem(problem, error);
    }
  } }, element("div", { class: "fields" }, field("change-title-text", "Title", controls.title), field("change-amount", isChat ? "Chats of each bot" : "Ratings of each item", controls[amount]), field("change-tasks", "Tasks of each participant", controls.per_participant), field("change-retention", "Days until texts are erased", controls.retention_days),
    field("change-consent", "Consent", controls.consent, null, { isWide: true }), field("change-guidelines", "What to do", controls.guidelines, null, { isWide: true }),
    element("details", { class: "wide-field" }, element("summary", {}, "Something else"), field("change-file", "A protocol from a file", file, "keep the protocol as a file, change it, and choose it here; it takes the place of the fields above", { isWide: true })),
    study.state !== "draft" && field("protocol-reason", "Why it is amended", reason, "it is reported, with both hashes", { isWide: true })), problem,
  element("div", { class: "row start-row" }, element("button", { type: "submit", id: "amend" }, study.state === "draft" ? "Keep the changes" : "Amend it")));
}
