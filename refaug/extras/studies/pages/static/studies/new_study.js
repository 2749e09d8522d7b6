/** A new study by a form: its fields become one protocol, which is shown, can be kept as a file, and is checked by the service. */

import { listAll, post } from "../api.js";
import { byId, element, fill, printable } from "../dom.js";
import { showProblem } from "../frame.js";
import { area, box, field, number, saveText, select, text } from "./fields.js";
import { followLanguage, templateOf } from "./templates.js";

/** The kinds of studies, the form that each begins with, and what people do. */
export const KINDS = {
  chat: ["chat-quality-5", "chat with one bot at a time, then rate the chat"],
  "chat-pair": ["prefer-dialogue-4", "chat with two bots side by side, then say which was better"],
  "rate-dialogue": ["chat-quality-5", "read a dialogue, and rate it"],
  "pair-dialogue": ["prefer-dialogue-4", "read two dialogues, and say which is better"],
  "pair-reply": ["prefer-reply-4", "read a context with two replies, and say which is better"],
  "rate-reply": ["reply-overall", "read a context with a reply, and rate the reply"],
  "rate-reference": ["reply-appropriateness", "rate references of a set, so that they get weights (ΔBLEU)"],
  "label-turns": [null, "label turns of a dialogue, or parts of them"],
};
const FORMS = ["chat-quality-5", "prefer-dialogue-4", "prefer-reply-4", "reply-overall", "reply-appropriateness", "sliders-7"];

const isChat = (kind) => kind.startsWith("chat");
let parts = null;

/** Show the form of a new study, filled as the study `copyOf` is where there is one; `onMade(study)` hears of the draft. */
export function openNewStudy(copyOf, onMade) {
  setUpNewStudy(onMade);
}

/** Fill the form; `onMade(study)` hears of the new draft. */
function setUpNewStudy(onMade) {
  const form = byId("new-study");
  if (parts !== null) return;
  const template = templateOf("en");
  parts = {
    name: text({ required: true, pattern: "[a-z0-9][a-z0-9._\\-]{0,63}", spellcheck: "false" }), title: text({ maxlength: 200, value: template.title }),
    kind: select(Object.entries(KINDS).map(([kind, [, about]]) => [kind, `${kind}: ${about}`])), language: text({ value: "en", maxlength: 12, spellcheck: "false" }),
    form: select([...FORMS.map((name) => [name, name]), ["own", "a form of my own"]]), ownForm: area("", { rows: 8, spellcheck: "false", class: "mono" }),
    items: element("input", { type: "file", accept: ".jsonl,.json,application/json" }),
    perParticipant: number("", 1, 200), target: number(50, 1, 1_000_000), ratings: number(3, 1, 1_000), minTurns: number(3, 0, 200), maxTurns: number(30, 1, 200),
    delay: select([["typing", "as if it were typed"], ["none", "at once"]]), consent: area(template.consent, { rows: 10 }), guidelines: area(template.guidelines),
    training: area("", { rows: 5, spellcheck: "false", class: "mono", placeholder: "{\"turns\": [\"Hi!\", \"The bus is blue.\"], \"answers\": {\"quality\": [1, 2]}, \"feedback\": \"…\"}" }), attempts: number(2, 1, 10), least: number(0.75, 0, 1, { step: 0.05 }),
    attention: number(1, 0, 10), repeat: number(0, 0, 10), code: text({ maxlength: 64, placeholder: "one of its own for each participant" }), back: text({ type: "url", placeholder: "the recruiting service's page, with {code}" }),
    pay: number("", 0, 1_000_000, { step: 0.01 }), currency: text({ value: "EUR", maxlength: 3 }), minutes: number("", 0, 1_000), retention: number(365, 1, 36_500), stop: number("", 1, 1_000_000),
  };
  const boxes = { votes: box("study-votes", "arrows for good and bad replies", true), degraded: box("study-degraded", "a degraded bot among them, which attentive people rate lower"), adult: box("study-adult", "replies may be unsuitable for minors"),
    failedAttention: box("exclude-attention", "who fails the attention check", true), notLower: box("exclude-degraded", "who rates the degraded bot no lower"), same: box("exclude-same", "who gives the same answer everywhere", true), fast: box("exclude-fast", "who takes less than 2 seconds a turn", true) };
  parts.boxes = boxes;
  parts.bots = element("div", { class: "bot-choices", role: "group", "aria-labelledby": "study-bots-title" });
  parts.preview = element("pre", { id: "protocol-text", tabindex: 0, "aria-label": "The protocol as JSON" });
  const chatOnly = [
    element("div", { class: "wide-field" }, element("h3", { id: "study-bots-title" }, "Bots"), parts.bots),
    field("study-target", "Chats of each bot", parts.target), field("study-min", "Turns, at least", parts.minTurns), field("study-max", "Turns, at most", parts.maxTurns), field("study-delay", "Replies appear", parts.delay),
    element("div", { class: "field wide-field" }, boxes.votes), element("div", { class: "field wide-field" }, boxes.degraded)];
  const itemOnly = [field("study-items", "Items", parts.items, "JSON lines: turns with replies, references or dialogues", { isWide: true }), field("study-ratings", "Ratings of each item", parts.ratings)];
  const own = field("study-own-form", "The form as JSON", parts.ownForm, "name, questions: id, text, type (likert, slider, choice, pair, text, spans), least, most, ends, options, required, show_if, scope", { isWide: true });
  fill(form, element("div", { class: "fields study-fields" },
    field("study-name", "Name", parts.name, "small letters, digits, dots and dashes"), field("study-title", "Title, which participants see", parts.title), field("study-language", "Language", parts.language, "a tag such as en or de"),
    field("study-kind", "What people do", parts.kind, null, { isWide: true }), chatOnly, itemOnly,
    field("study-form", "What they are asked", parts.form), own,
    field("study-tasks", "Tasks of each participant", parts.perParticipant, "empty: one with each bot, or ten items"),
    field("study-consent", "Consent", parts.consent, "blank lines part paragraphs; # begins a heading, - an item of a list; write what belongs in place of […]", { isWide: true }), field("study-guidelines", "What to do", parts.guidelines, null, { isWide: true })),
  element("details", {}, element("summary", {}, "Practice, checks and exclusions"), element("div", { class: "fields study-fields" },
    field("study-training", "Practice: an item a line, with the right answers", parts.training, "without any there is no practice", { isWide: true }), field("study-attempts", "Attempts", parts.attempts), field("study-least", "Share of right items that passes", parts.least),
    field("study-attention", "Attention checks", parts.attention), field("study-repeat", "Repeated tasks", parts.repeat),
    element("fieldset", { class: "wide-field" }, element("legend", {}, "Left out of the report, by rules that are fixed before the first participant"), boxes.failedAttention, boxes.notLower, boxes.same, boxes.fast))),
  element("details", {}, element("summary", {}, "End, pay and keeping"), element("div", { class: "fields study-fields" },
    field("study-code", "Code at the end", parts.code), field("study-back", "Address to go back to", parts.back), field("study-stop", "Pause by itself after so many participants", parts.stop),
    field("study-pay", "Pay of a participant", parts.pay), field("study-currency", "Currency", parts.currency), field("study-minutes", "Minutes that it is meant to take", parts.minutes), field("study-retention", "Days until texts are to be erased", parts.retention), element("div", { class: "field wide-field" }, boxes.adult))),
  element("details", { id: "protocol-box" }, element("summary", {}, "The protocol"), parts.preview, element("div", { class: "row start-row" }, element("button", { type: "button", class: "small", onclick: () => saveText(JSON.stringify(protocolOf(), null, 2), `${parts.name.value || "study"}.json`, "application/json") }, "Keep it as a file"))),
  element("div", { class: "row start-row" }, element("button", { type: "submit", class: "primary", id: "make-study" }, "Make the draft")));
  const show = () => {
    const chats = isChat(parts.kind.value);
    for (const node of chatOnly) node.hidden = !chats;
    for (const node of itemOnly) node.hidden = chats;
    own.hidden = parts.form.value !== "own";
    try {
      parts.preview.textContent = JSON.stringify(protocolOf(), null, 2);
    } catch (error) {
      parts.preview.textContent = error.message;
    }
  };
  parts.kind.addEventListener("change", () => { parts.form.value = KINDS[parts.kind.value][0] ?? "own"; });
  followLanguage(parts.language, { title: parts.title, consent: parts.consent, guidelines: parts.guidelines });
  form.addEventListener("input", show);
  form.addEventListener("change", show);
  form.addEventListener("submit", (event) => { event.preventDefault(); make(onMade); });
  showBots().then(show);
  show();
}

async function showBots() {
  let bots;
  try {
    bots = await listAll("/v1/bots", "bots");
  } catch (error) {
    showProblem(parts.bots, error);
    return;
  }
  fill(parts.bots, bots.length ? bots.map((bot) => { const choice = box(`bot-${bot.name}`, printable(bot.name)); choice.input.value = bot.name; choice.append(element("span", { class: "faint" }, bot.kind)); return choice; })
    : element("p", { class: "faint" }, "No bot is stored yet: ", element("code", {}, "refaug bots add NAME FILE")));
}

const wholeOrNull = (input) => (input.value === "" ? undefined : Number(input.value));

/** Read JSON of a field; the error says which. */
function jsonOf(words, where) {
  try {
    return JSON.parse(words);
  } catch (error) {
    throw new Error(`${where}: this is not JSON (${error.message})`);
  }
}

/** Return the protocol that the form says. */
export function protocolOf() {
  const { boxes } = parts, kind = parts.kind.value, chats = isChat(kind);
  const lines = parts.training.value.split("\n").filter((line) => line.trim());
  const exclude = {
    ...(boxes.failedAttention.input.checked && Number(parts.attention.value) > 0 ? { failed_attention: 1 } : {}), ...(boxes.notLower.input.checked && chats && boxes.degraded.input.checked ? { degraded_not_lower: true } : {}),
    ...(boxes.same.input.checked ? { same_answer_everywhere: true } : {}), ...(boxes.fast.input.checked ? (chats ? { seconds_per_turn_below: 2 } : { seconds_per_task_below: 2 }) : {}),
  };
  const completion = { ...(parts.code.value.trim() ? { code: parts.code.value.trim() } : {}), ...(parts.back.value.trim() ? { return_url: parts.back.value.trim() } : {}) };
  return {
    kind, title: parts.title.value.trim() || "Study", language: parts.language.value.trim() || "en",
    ...(chats ? { bots: [...parts.bots.querySelectorAll("input:checked")].map((input) => input.value), target: Number(parts.target.value), min_turns: Number(parts.minTurns.value), max_turns: Number(parts.maxTurns.value), delay: parts.delay.value, votes: boxes.votes.input.checked } : { ratings_per_item: Number(parts.ratings.value) }),
    ...(wholeOrNull(parts.perParticipant) ? { per_participant: wholeOrNull(parts.perParticipant) } : {}),
    form: parts.form.value === "own" ? jsonOf(parts.ownForm.value || "{}", "the form") : parts.form.value,
    consent: parts.consent.value, guidelines: parts.guidelines.value,
    ...(lines.length ? { training: { items: lines.map((line, place) => jsonOf(line, `practice, line ${place + 1}`)), attempts: Number(parts.attempts.value), least: Number(parts.least.value) } } : {}),
    checks: { attention: Number(parts.attention.value), ...(chats && boxes.degraded.input.checked ? { degraded: true } : {}), repeat: Number(parts.repeat.value) },
    exclude, ...(Object.keys(completion).length ? { completion } : {}),
    ...(parts.pay.value === "" ? {} : { pay: { amount: Number(parts.pay.value), currency: parts.currency.value.trim().toUpperCase(), minutes: Number(parts.minutes.value || 0) } }),
    ...(parts.stop.value === "" ? {} : { stop: { participants: Number(parts.stop.value) } }),
    retention_days: Number(parts.retention.value), adult_content: boxes.adult.input.checked,
  };
}

/** Return the items of the chosen file: one JSON object a line, or one JSON list. */
async function chosenItems() {
  const [file] = parts.items.files;
  if (!file) return undefined;
  const content = await file.text();
  if (content.trimStart().startsWith("[")) return jsonOf(content, file.name);
  return content.split("\n").map((line, place) => [line, place + 1]).filter(([line]) => line.trim()).map(([line, place]) => jsonOf(line, `${file.name}, line ${place}`));
}

async function make(onMade) {
  const button = byId("make-study");
  if (!byId("new-study").reportValidity()) return;
  button.disabled = true;
  showProblem(byId("new-problem"), null);
  try {
    const items = isChat(parts.kind.value) ? undefined : await chosenItems();
    const study = await post("/v1/studies", { name: parts.name.value.trim(), protocol: protocolOf(), ...(items ? { items } : {}) });
    onMade(study);
  } catch (error) {
    if (error.document) showProblem(byId("new-problem"), error);
    else fill(byId("new-problem"), element("div", { class: "notice bad" }, element("p", {}, error.message)));
  }
  button.disabled = false;
}
