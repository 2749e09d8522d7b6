/** A new study in steps: what, bots, questions, people, and a last look at everything; its fields become one protocol. */

import { get, listAll, post } from "../api.js";
import { steps } from "../components/steps.js";
import { byId, element, fill, printable } from "../dom.js";
import { countOf } from "../format.js";
import { showProblem } from "../frame.js";
import { area, box, field, number, saveText, select, text } from "./fields.js";
import { clearFaults, showFault } from "./new_study/faults.js";
import { firstBots } from "./new_study/first_bots.js";
import { practiceEditor } from "./new_study/practice.js";
import { builtIn, hasTies, questionEditor, slug } from "./new_study/questions.js";
import { translationEditor } from "./new_study/translations.js";
import { laterPreview } from "./parts.js";
import { GAP, followLanguage, templateOf } from "./templates.js";

/** The kinds of studies, the form that each begins with, and what people do. */
export const KINDS = {
  chat: ["chat-quality-5", "chat with one bot at a time, then rate the chat"],
  "chat-pair": ["prefer-dialogue-4", "chat with two bots side by side, then say which was better"],
  "rate-dialogue": ["chat-quality-5", "read a dialogue, and rate it"],
  "pair-dialogue": ["prefer-dialogue-4", "read two dialogues, and say which is better"],
  "pair-reply": ["prefer-reply-4", "read a context with two replies, and say which is better"],
  "rate-reply": ["reply-overall", "read a context with a reply, and rate the reply"],
  "rate-reference": ["reply-appropriateness", "rate references of a set, so that they get weights (ΔBLEU)"],
  "label-turns": [null, "label replies in dialogues, or parts of them"],
};
const FORMS = {
  "chat-quality-5": "five ratings of a chat: all in all, varied, well written, to the point, caring", "prefer-dialogue-4": "four choices between two dialogues", "prefer-reply-4": "four choices between two replies",
  "reply-overall": "one rating of a reply", "reply-appropriateness": "how well a reference fits", "sliders-7": "seven sliders about a chat",
};
const LABELS = { name: "label-turns", questions: [{ id: "flags", type: "labels", scope: "turn", text: "Which of these fit this reply?", options: [{ value: "contradiction", text: "It contradicts itself" }, { value: "repetition", text: "It repeats itself" }, { value: "misunderstanding", text: "It misunderstands" }, { value: "rude", text: "It is rude" }], required: true }], texts: {} };
const OWN = { name: "own", questions: [], texts: {} };
const ONLY_CHATS = ["bots", "target", "min_turns", "max_turns", "max_message_chars", "delay", "votes", "opening", "openings", "routing"], ONLY_ITEMS = ["ratings_per_item", "items"];

const isChat = (kind) => kind.startsWith("chat"), isPair = (kind) => kind.includes("pair");
const gapsIn = (words) => words.split(GAP).length - 1;
let parts = null, base = {}, copied = null, walk = null, drawnFor; // undefined: no form is begun

/** Show the form of a new study, filled as the study `copyOf` is where there is one; `onMade(study)` hears of the draft. */
export async function openNewStudy(copyOf, onMade) {
  if (drawnFor === copyOf) return; // what was typed stays when a lost connection is back
  drawnFor = copyOf;
  draw(onMade);
  const form = byId("new-study");
  form.setAttribute("aria-busy", "true");
  try {
    await Promise.all([showBots(), chooseForm()]);
    if (copyOf) await fillFrom(await get(`/v1/studies/${copyOf}`));
  } catch (error) {
    showProblem(byId("new-problem"), error);
  }
  form.removeAttribute("aria-busy");
}

// ── fields ────────────────────────────────────────────────────────────────────────────────────────────────────────────

function controls() {
  const template = templateOf("en");
  return {
    name: text({ required: true, pattern: "[a-z0-9][a-z0-9._\\-]{0,63}", spellcheck: "false", value: "study" }), title: text({ maxlength: 200, value: template.title }),
    kind: select(Object.entries(KINDS).map(([kind, [, about]]) => [kind, about[0].toUpperCase() + about.slice(1)])), language: text({ value: "en", maxlength: 12, spellcheck: "false", list: "languages" }),
    form: select([]), items: element("input", { type: "file", accept: ".jsonl,.json,application/json" }),
    perParticipant: number("", 1, 200), target: number(50, 1, 1_000_000), ratings: number(3, 1, 1_000), minTurns: number(3, 0, 200), maxTurns: number(30, 1, 200),
    routing: select([["balanced", "all alike often"], ["active", "the two whose order is least certain, until every order is clear"]]),
    delay: select([["typing", "as if it were typed"], ["none", "at once"]]), consent: area(template.consent, { rows: 10 }), guidelines: area(template.guidelines),
    attempts: number(2, 1, 10), least: number(0.75, 0, 1, { step: 0.05 }), attention: number(1, 0, 10), repeat: number(0, 0, 10), code: text({ maxlength: 64, placeholder: "one of its own for each participant" }), back: text({ type: "url", placeholder: "the recruiting service's page, with {code}" }),
    pay: number("", 0, 1_000_000, { step: 0.01 }), currency: text({ value: "EUR", maxlength: 3 }), minutes: number("", 0, 1_000), retention: number(365, 1, 36_500), stop: number("", 1, 1_000_000),
    bots: element("div", { class: "bot-choices", id: "study-bots", tabindex: -1, role: "group", "aria-labelledby": "study-bots-title" }), file: element("pre", { id: "protocol-text", tabindex: 0, "aria-label": "The protocol as JSON" }),
    missing: element("div", { id: "study-missing" }), preview: element("div", { id: "new-preview" }),
    boxes: { votes: box("study-votes", "arrows for good and bad replies", true), ties: box("study-ties", "a tie may be chosen"), degraded: box("study-degraded", "a degraded bot among them, which attentive people rate lower"), adult: box("study-adult", "replies may be unsuitable for minors"),
      failedAttention: box("exclude-attention", "who fails the attention check", true), notLower: box("exclude-degraded", "who rates the degraded bot no lower"), same: box("exclude-same", "who gives the same answer everywhere", true), fast: box("exclude-fast", "who takes less than 2 seconds a turn", true) },
  };
}

const grid = (...nodes) => element("div", { class: "fields study-fields" }, nodes);
const wide = (...nodes) => element("div", { class: "field wide-field" }, nodes);

function draw(onMade) {
  parts = controls();
  base = {};
  copied = null;
  const { boxes } = parts, form = byId("new-study"), kindOf = () => parts.kind.value;
  parts.questions = questionEditor(kindOf, () => update());
  parts.practice = practiceEditor(kindOf, () => parts.questions.questions());
  parts.translations = translationEditor(() => update());
  parts.chatOnly = [wide(element("h4", { id: "study-bots-title" }, "Bots"), parts.bots), field("study-target", "Chats of each bot", parts.target, "side by side: of each two bots"), field("study-min", "Turns, at least", parts.minTurns), field("study-max", "Turns, at most", parts.maxTurns), field("study-delay", "Replies appear", parts.delay), wide(boxes.votes), wide(boxes.degraded)];
  parts.itemOnly = [field("study-items", "Items", parts.items, "JSON lines: turns with replies, references or dialogues", { isWide: true }), field("study-ratings", "Ratings of each item", parts.ratings)];
  parts.tasksField = field("study-tasks", "Tasks of each participant", parts.perParticipant, "empty: one with each bot, or ten items");
  parts.tiesField = wide(boxes.ties);
  parts.routingField = field("study-routing", "Which two bots come next", parts.routing, "the second takes three bots or more, saves about a quarter of the votes, and prints intervals only where it stops by itself", { isWide: true });
  const what = grid(field("study-title", "Title, which participants see", parts.title), field("study-name", "Name", parts.name, "small letters, digits, dots and dashes; seen here only"), field("study-kind", "What people do", parts.kind, null, { isWide: true }), field("study-language", "Language", parts.language, "a tag such as en or de"),
    element("datalist", { id: "languages" }, ["en", "de", "ja", "fr", "es", "it", "nl", "pt", "zh"].map((tag) => element("option", { value: tag }))));
  const people = element("div", {}, grid(
    field("study-consent", "Consent", parts.consent, "your own text; blank lines part paragraphs, # begins a heading, - an item of a list; write what belongs in place of […]", { isWide: true }), field("study-guidelines", "What to do", parts.guidelines, null, { isWide: true }), parts.translations.node, parts.routingField),
  element("details", {}, element("summary", {}, "Practice, checks and exclusions"), grid(wide(element("h4", {}, "Practice")), parts.practice.node, field("study-attempts", "Attempts", parts.attempts), field("study-least", "Share of right items that passes", parts.least), wide(element("h4", {}, "Checks")), field("study-attention", "Attention checks", parts.attention), field("study-repeat", "Repeated tasks", parts.repeat),
    element("fieldset", { class: "wide-field" }, element("legend", {}, "Left out of the report, by rules that are fixed before the first participant"), boxes.failedAttention, boxes.notLower, boxes.same, boxes.fast))),
  element("details", {}, element("summary", {}, "End, pay and keeping"), grid(field("study-code", "Code at the end", parts.code), field("study-back", "Address to go back to", parts.back), field("study-stop", "Pause by itself after so many participants", parts.stop), field("study-pay", "Pay of a participant", parts.pay), field("study-currency", "Currency", parts.currency), field("study-minutes", "Minutes that it is meant to take", parts.minutes), field("study-retention", "Days until texts are to be erased", parts.retention), wide(boxes.adult))));
  const look = element("div", {}, parts.missing, element("h4", {}, "What participants see"), parts.preview,
    element("details", { id: "protocol-box" }, element("summary", {}, "The protocol as a file"), parts.file, element("div", { class: "row start-row" }, element("button", { type: "button", class: "small", onclick: () => saveText(JSON.stringify(protocolOf(), null, 2), `${parts.name.value || "study"}.json`, "application/json") }, "Keep it as a file"))));
  walk = steps("A new study", [
    { name: "what", title: "What", node: what, summary: () => [["Title", parts.title.value], ["Name", parts.name.value], ["What people do", KINDS[kindOf()][1]], ["Language", parts.language.value]] },
    { name: "bots", title: "Bots", node: grid(parts.chatOnly, parts.itemOnly, parts.tasksField), summary: botSummary },
    { name: "questions", title: "Questions", node: grid(field("study-form", "What they are asked", parts.form, null, { isWide: true }), parts.tiesField, parts.questions.node), summary: () => [["Questions", countOf(parts.questions.questions().length, "question")], ...(isPair(kindOf()) ? [["Ties", boxes.ties.input.checked ? "allowed" : "not allowed"]] : [])] },
    { name: "people", title: "People", node: people, summary: () => [["Consent", gapsIn(parts.consent.value) ? `${countOf(gapsIn(parts.consent.value), "gap")} to fill` : countOf(parts.consent.value.trim().split(/\s+/).filter(Boolean).length, "word")], ["Practice", countOf(parts.practice.items().length, "item")], ["Attention checks", parts.attention.value], ...(kindOf() === "chat-pair" ? [["Next two bots", parts.routing.selectedOptions[0].textContent]] : [])] },
  ], { title: "Check", label: "Make the draft", act: () => make(onMade), node: look, update: lastLook });
  fill(form, walk);
  showProblem(byId("new-problem"), null);

  const show = () => {
    const kind = kindOf();
    for (const node of parts.chatOnly) node.hidden = !isChat(kind);
    for (const node of parts.itemOnly) node.hidden = isChat(kind);
    parts.tiesField.hidden = !isPair(kind);
    parts.routingField.hidden = kind !== "chat-pair";
    parts.questions.show();
    parts.practice.show();
    update();
  };
  let isNamed = false;
  parts.name.addEventListener("input", () => { isNamed = true; });
  parts.title.addEventListener("input", () => { if (!isNamed && copied === null) parts.name.value = slug(parts.title.value) || "study"; });
  parts.kind.addEventListener("change", () => { chooseForm().then(show); });
  parts.form.addEventListener("change", () => showForm().then(show));
  boxes.degraded.input.addEventListener("change", () => { boxes.notLower.input.checked = boxes.degraded.input.checked; });
  followLanguage(parts.language, { title: parts.title, consent: parts.consent, guidelines: parts.guidelines });
  form.onsubmit = (event) => event.preventDefault();
  form.oninput = form.onchange = () => update();
  show();
}

const chosenBots = () => [...parts.bots.querySelectorAll("input:checked")].map((input) => input.value);

function botSummary() {
  if (!isChat(parts.kind.value)) return [["Items", parts.items.files[0]?.name ?? "none yet"], ["Ratings of each item", parts.ratings.value]];
  return [["Bots", chosenBots().map(printable).join(", ") || "none yet"], ["Chats of each bot", parts.target.value], ["Turns", `${parts.minTurns.value} to ${parts.maxTurns.value}`]];
}

/** Offer the forms that go with the kind, and choose the usual one. */
async function chooseForm() {
  const kind = parts.kind.value, fits = (name) => (name.startsWith("prefer") ? isPair(kind) : kind !== "label-turns" && !(isPair(kind) && name !== "sliders-7" && !name.startsWith("chat")));
  fill(parts.form, Object.entries(FORMS).filter(([name]) => fits(name)).map(([name, about]) => element("option", { value: name }, `${name}: ${about}`)), element("option", { value: "own" }, "questions of my own"));
  parts.form.value = KINDS[kind][0] ?? "own";
  await showForm();
}

async function showForm() {
  const name = parts.form.value;
  const form = name !== "own" ? await builtIn(name) : parts.kind.value === "label-turns" ? LABELS : OWN;
  if (parts.form.value !== name) return; // another one was chosen meanwhile
  parts.questions.set(form, name === "own");
  parts.boxes.ties.input.checked = hasTies(form);
  update();
}

async function showBots(chosen = []) {
  const bots = await listAll("/v1/bots", "bots");
  fill(parts.bots, bots.length ? bots.map((bot) => { const choice = box(`bot-${bot.name}`, printable(bot.name)); choice.input.value = bot.name; choice.input.checked = chosen.includes(bot.name); choice.append(element("span", { class: "faint" }, bot.kind)); return choice; })
    : await firstBots(byId("new-problem"), async (names) => { await showBots(names).catch((error) => showProblem(byId("new-problem"), error)); update(); parts.bots.querySelector("input, button")?.focus(); }));
}

// ── the protocol ──────────────────────────────────────────────────────────────────────────────────────────────────────

const wholeOrNull = (input) => (input.value === "" ? undefined : Number(input.value));

/** Return the protocol that the form says; what a copied study has beside stays. */
export function protocolOf() {
  const { boxes } = parts, kind = parts.kind.value, chats = isChat(kind), practice = parts.practice.items(), translations = parts.translations.translations();
  const exclude = {
    ...(boxes.failedAttention.input.checked && Number(parts.attention.value) > 0 ? { failed_attention: base.exclude?.failed_attention || 1 } : {}), ...(boxes.notLower.input.checked && chats && boxes.degraded.input.checked ? { degraded_not_lower: true } : {}),
    ...(boxes.same.input.checked ? { same_answer_everywhere: true } : {}), ...(boxes.fast.input.checked ? (chats ? { seconds_per_turn_below: base.exclude?.seconds_per_turn_below || 2 } : { seconds_per_task_below: base.exclude?.seconds_per_task_below || 2 }) : {}),
    ...Object.fromEntries(["repeat_differs_by", "copied_messages"].filter((rule) => base.exclude?.[rule]).map((rule) => [rule, base.exclude[rule]])),
  };
  const completion = Object.fromEntries(Object.entries({ ...base.completion, code: parts.code.value.trim(), return_url: parts.back.value.trim() }).filter(([, words]) => words));
  const idle = base.kind === kind ? [] : [...ONLY_CHATS, ...ONLY_ITEMS], kept = Object.fromEntries(Object.entries(base).filter(([name]) => !idle.includes(name)));
  return {
    ...kept, kind, title: parts.title.value.trim() || "Study", language: parts.language.value.trim() || "en",
    ...(chats ? { bots: chosenBots(), target: Number(parts.target.value), min_turns: Number(parts.minTurns.value), max_turns: Number(parts.maxTurns.value), delay: parts.delay.value, votes: boxes.votes.input.checked } : { ratings_per_item: Number(parts.ratings.value) }),
    ...(kind === "chat-pair" ? { routing: parts.routing.value } : {}),
    ...(wholeOrNull(parts.perParticipant) ? { per_participant: wholeOrNull(parts.perParticipant) } : {}),
    form: parts.questions.form(isPair(kind) && boxes.ties.input.checked), consent: parts.consent.value, guidelines: parts.guidelines.value,
    ...(Object.keys(translations).length ? { translations } : {}),
    ...(practice.length ? { training: { items: practice, attempts: Number(parts.attempts.value), least: Number(parts.least.value) } } : {}),
    checks: { attention: Number(parts.attention.value), ...(chats && boxes.degraded.input.checked ? { degraded: typeof base.checks?.degraded === "string" ? base.checks.degraded : true } : {}), repeat: Number(parts.repeat.value) },
    exclude, ...(Object.keys(completion).length ? { completion } : {}),
    ...(parts.pay.value === "" ? {} : { pay: { amount: Number(parts.pay.value), currency: parts.currency.value.trim().toUpperCase(), minutes: Number(parts.minutes.value || 0) } }),
    ...(parts.stop.value === "" ? {} : { stop: { ...base.stop, participants: Number(parts.stop.value) } }),
    retention_days: Number(parts.retention.value), adult_content: boxes.adult.input.checked,
  };
}

function update() {
  if (!parts.file) return;
  parts.file.textContent = JSON.stringify(protocolOf(), null, 2);
}

/** Fill the form as a study is; its items are not copied. */
async function fillFrom(study) {
  const { protocol } = study, { boxes } = parts, own = { kind: protocol.kind };
  for (const name of Object.keys(protocol)) if (!["bot_hashes", "items_sha256", "training", "pay", "stop", "translations", "form", "bots", "kind", "per_participant"].includes(name) && protocol[name] !== null) own[name] = protocol[name];
  copied = study;
  base = own;
  const fields = { title: protocol.title, kind: protocol.kind, language: protocol.language, consent: protocol.consent, guidelines: protocol.guidelines, perParticipant: protocol.per_participant, target: protocol.target, ratings: protocol.ratings_per_item, minTurns: protocol.min_turns, maxTurns: protocol.max_turns, delay: protocol.delay, routing: protocol.routing,
    attention: protocol.checks.attention, repeat: protocol.checks.repeat, code: protocol.completion?.code, back: protocol.completion?.return_url, pay: protocol.pay?.amount, currency: protocol.pay?.currency, minutes: protocol.pay?.minutes, retention: protocol.retention_days, stop: protocol.stop?.participants, attempts: protocol.training?.attempts, least: protocol.training?.least };
  for (const [name, value] of Object.entries(fields)) if (value !== undefined && value !== null) parts[name].value = value;
  parts.name.value = `${study.name.slice(0, 58)}-copy`;
  const ticks = { votes: protocol.votes, degraded: Boolean(protocol.checks.degraded), adult: protocol.adult_content, failedAttention: protocol.exclude.failed_attention, notLower: protocol.exclude.degraded_not_lower, same: protocol.exclude.same_answer_everywhere, fast: protocol.exclude.seconds_per_turn_below || protocol.exclude.seconds_per_task_below };
  for (const [name, value] of Object.entries(ticks)) boxes[name].input.checked = Boolean(value);
  for (const input of parts.bots.querySelectorAll("input")) input.checked = protocol.bots.includes(input.value);
  await chooseForm();
  const known = [...parts.form.options].some(({ value }) => value === protocol.form.name);
  parts.form.value = known ? protocol.form.name : "own";
  parts.questions.set(protocol.form, !known);
  boxes.ties.input.checked = hasTies(protocol.form);
  parts.practice.set(protocol.training?.items ?? []);
  parts.translations.set(protocol.translations ?? {});
  for (const node of parts.chatOnly) node.hidden = !isChat(protocol.kind);
  for (const node of parts.itemOnly) node.hidden = isChat(protocol.kind);
  parts.tiesField.hidden = !isPair(protocol.kind);
  parts.routingField.hidden = protocol.kind !== "chat-pair";
  parts.questions.show();
  parts.practice.show();
  update();
}

// ── the last look ─────────────────────────────────────────────────────────────────────────────────────────────────────

/** Return what a study still lacks: a step, a field, and words; what a draft may lack, opening does not. */
function lacks() {
  const kind = parts.kind.value, least = kind === "chat-pair" ? 2 : 1, found = [];
  const add = (step, id, words) => found.push({ step, id, words });
  if (isChat(kind) && chosenBots().length < least) add("bots", "study-bots", `${least === 1 ? "a bot" : "two bots"} to talk with`);
  if (kind === "chat-pair" && parts.routing.value === "active" && chosenBots().length < 3) add("people", "study-routing", "three bots or more, or all pairs alike often");
  if (!isChat(kind) && !parts.items.files[0]) add("bots", "study-items", copied ? "the file of items: it is not copied" : "a file of items to judge");
  if (!parts.questions.questions().length) add("questions", "add-question", "a question");
  if (!parts.consent.value.trim()) add("people", "study-consent", "the text that participants agree to");
  for (const [id, words, name] of [["study-consent", parts.consent.value, "consent"], ["study-guidelines", parts.guidelines.value, "what to do"]]) if (gapsIn(words)) add("people", id, `your own words in ${countOf(gapsIn(words), "gap")} […] of ${name}`);
  return found;
}

function lastLook() {
  const missing = lacks(), link = ({ step, id, words }) => element("li", {}, element("button", { type: "button", class: "link", onclick: () => { walk.show(step); byId(id).focus(); } }, words));
  fill(parts.missing, missing.length ? element("div", { class: "notice warn" }, element("p", {}, "Before it can open, it needs"), element("ul", {}, missing.map(link)))
    : element("p", { class: "notice good" }, "Nothing is missing: the draft can open as soon as you have looked at it."));
  const protocol = protocolOf(), form = { name: "shown", questions: parts.questions.questions() };
  fill(parts.preview, form.questions.length ? laterPreview({ screening: [], ...protocol, training: protocol.training ?? null, form }) : null);
}

/** Return the items of the chosen file: one JSON object a line, or one JSON list. */
async function chosenItems() {
  const [file] = parts.items.files;
  if (!file) return undefined;
  const read = (words, where) => {
    try {
      return JSON.parse(words);
    } catch (error) {
      throw new Error(`${where}: this is not JSON (${error.message})`);
    }
  };
  const content = await file.text();
  if (content.trimStart().startsWith("[")) return read(content, file.name);
  return content.split("\n").map((line, place) => [line, place + 1]).filter(([line]) => line.trim()).map(([line, place]) => read(line, `${file.name}, line ${place}`));
}

async function make(onMade) {
  const form = byId("new-study"), trouble = byId("new-problem");
  clearFaults(form);
  showProblem(trouble, null);
  try {
    const items = isChat(parts.kind.value) ? undefined : await chosenItems();
    const study = await post("/v1/studies", { name: parts.name.value.trim(), protocol: protocolOf(), ...(items ? { items } : {}) });
    drawnFor = undefined;
    onMade(study);
  } catch (error) {
    if (error.document && !showFault(error, form, walk)) showProblem(trouble, error);
    else if (!error.document) fill(trouble, element("div", { class: "notice bad" }, element("p", {}, error.message)));
  }
}
