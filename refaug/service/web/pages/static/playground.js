/** The playground: an utterance, its references, and replies whose scores follow the typing. */

import { Problem, address, download, get, key, onConnection, post, untilAnswered } from "./api.js";
import { byId, debounced, element, fill, printable } from "./dom.js";

import { score as scoreText } from "./format.js";
import { allows, copyText, empty, ownKey, showProblem, start } from "./frame.js";
import { excludedRow, keyOf, referenceRow } from "./references.js";
import { scoreTile } from "./scores.js";
import { SYSTEMS, blank, checked, draft, fromLink, isRecommended, keepDraft, lacksGold, linkOf, metricsOf, pairOf, repliesOf, retrievalOf } from "./state.js";
import { aligned, explained, pieces } from "./words.js";

const REFERENCE_PAUSE = 250; // milliseconds without typing before references are looked for
const SCORE_PAUSE = 30;
const EXCLUDED = 60;
const SHOWN = 10; // references; the others are shown on demand, and where they count

let isWaiting = fromLink() !== null; // a link may be a stranger's: what it asks for is sent when the reader says so
let state = fromLink() ?? draft() ?? blank();
let examples = [], served = { index: null, rater: null, metric: null }, own = null, versions = {};
let item = null; // as the service answered it, with references
let answer = null; // the last scores
let scored = { mark: "", replies: {} }; // what they are of: references and metrics, and the replies
let isOld = false; // whether they are from before the connection was lost
let searching = new AbortController(), scoring = new AbortController();
let searched = ""; // what the references on the page were found for
let looked = "A"; // the system whose likeness to the references is shown: that of the reply last typed into
let whyBox = null; // loaded where the index suits the recommended metric
const opened = new Map(); // by system, whether somebody has opened or closed what its score is made of
const explanations = new Map(); // by system, what the metric says that the words are explained by

// ── the dialogue ──────────────────────────────────────────────────────────────────────────────────────────────────────

function drawTurns() {
  const last = state.turns.length - 1;
  fill(byId("turns"), state.turns.map((turn, place) => {
    const id = `turn-${place}`;
    const field = element("textarea", {
      id, rows: 1, dir: "auto", placeholder: place === last ? "what the reply answers" : "what was said before",
      oninput: (event) => { state.turns[place] = event.target.value; state.given = []; dialogueChanged(); },
    });
    field.value = turn;
    const removal = place < last && element("button", {
      type: "button", class: "small", "aria-label": `Remove turn ${place + 1}`,
      onclick: () => { state.turns.splice(place, 1); drawTurns(); dialogueChanged(); },
    }, "Remove");
    return element("div", { class: "turn" }, element("div", {}, element("label", { for: id }, place === last ? "Utterance" : `Turn ${place + 1}`), field), removal);
  }));
}

function drawReplies() {
  scored = { mark: "", replies: {} }; // all are shown anew
  fill(byId("replies"), state.replies.map((reply, place) => {
    const id = `reply-${place}`, system = SYSTEMS[place];
    const field = element("textarea", {
      id, rows: 1, dir: "auto", placeholder: "a reply to score",
      onfocus: () => { if (looked !== system) { looked = system; showLikeness(); } },
      oninput: (event) => { state.replies[place] = event.target.value; changed(); scoreLater(); },
    });
    field.value = reply;
    const removal = state.replies.length > 1 && element("button", {
      type: "button", class: "small", "aria-label": `Remove reply ${system}`,
      onclick: () => { state.replies.splice(place, 1); drawReplies(); changed(); scoreNow(); },
    }, "Remove");
    return element("div", { class: "reply", role: "listitem" },
      element("div", { class: "head" }, element("label", { for: id }, `Reply ${system}`), removal), field,
      element("div", { class: "scores", id: `scores-${system}` }),
      element("div", { id: `why-box-${system}` }),
      element("p", { class: "words", id: `words-${system}` }));
  }));
}

function draw() {
  drawTurns();
  byId("gold").value = state.gold;
  drawReplies();
  drawSettings();
}

async function drawSettings() {
  const { buildSettings } = await import("./settings.js");
  buildSettings(byId("settings"), state, served.metric, (isRetrieval) => { changed(); if (isRetrieval) findNow(); else scoreNow(); });
}

function changed() { if (!isWaiting) keepDraft(state); }

function dialogueChanged() {
  state.weights = {};
  state.dropped = [];
  state.set = null;
  changed();
  findLater();
}

// ── references ────────────────────────────────────────────────────────────────────────────────────────────────────────

async function find() {
  searching.abort();
  const pair = pairOf(state), hasUtterance = state.turns.some((turn) => turn.trim());
  if (isWaiting || state.set !== null) return;
  if (!hasUtterance || served.index === null) {
    item = hasUtterance ? ownItem(pair) : null;
    searched = "";
    showReferences();
    return scoreNow();
  }
  const settings = retrievalOf(state, served.metric), mark = JSON.stringify([pair, settings]);
  if (mark === searched) return scoreNow();
  searching = new AbortController();
  byId("references-state").textContent = "looking …";
  const body = { items: [pair], settings: { ...settings, show_excluded: EXCLUDED } };
  try {
    const { signal } = searching;
    const found = await untilAnswered(() => post("/v1/references", body, { signal }), { signal });
    [item] = found.items;
    versions = { ...versions, ...found.versions };
    searched = mark;
    showProblem(byId("references-problem"), null);
    showReferences(found.warnings);
  } catch (error) {
    if (error.name === "AbortError") return;
    item = ownItem(pair);
    searched = "";
    showReferences();
    showProblem(byId("references-problem"), error);
  }
  return scoreNow();
}

/** Return an item with the references that the reader has given, where none can be found. */
const ownItem = (pair) => ({
  ...pair,
  references: [...(pair.references ?? []).map((text) => ({ text, source: "gold", weight: 1 })), ...state.given.map((reference) => ({ ...reference, source: "supplied" }))],
});

const findLater = debounced(find, REFERENCE_PAUSE);
function findNow() { findLater.cancel(); return find(); }

const NOTES = {
  no_known_word: "No word of the utterance is known to the index.",
  no_gold: "There is no gold reply, and the rater compares with one: write a gold, or set the weights to one.",
  no_utterance: "There is no utterance.",
};

function showReferences(warnings = []) {
  const list = byId("references"), about = byId("references-state");
  const box = byId("excluded-box");
  if (item === null) {
    about.textContent = "";
    box.hidden = true;
    byId("reset-weights").hidden = true;
    fill(list, element("li", {}, empty(element("p", {}, "What people said in answer to similar utterances appears here, and beside each reply its scores. Type an utterance and a reply, or start from an example:"),
      element("p", { class: "row" }, element("button", { type: "button", class: "primary", id: "first-example", onclick: () => showExample(0) }, "Show an example"),
        examples.slice(1).map((example, place) => element("button", { type: "button", onclick: () => showExample(place + 1) }, example.name))), served.isKnown && served.index === null && noIndex())));
    return;
  }
  const found = item.references.filter((reference) => reference.source === "retrieved").length;
  const notes = [
    served.index === null ? "" : `${found} found in ${versions.index?.split("#")[0] ?? served.index}.`,
    NOTES[item.note] ?? "",
    found && !isRecommended(state, served.metric) && lacksGold(state) ? "Without a gold reply each counts one; write a gold, and the rater weighs them." : "",
    ...warnings,
  ];
  fill(about, printable(notes.filter(Boolean).join(" ")), served.index === null && noIndex());
  const rows = item.references.map((reference, place) => referenceRow(reference, place, {
    weight: weightOf(reference),
    isDropped: state.dropped.includes(keyOf(reference)),
    isFurther: place >= SHOWN,
    onUse: (isUsed) => {
      state.dropped = isUsed ? state.dropped.filter((one) => one !== keyOf(reference)) : [...state.dropped, keyOf(reference)];
      weightsChanged();
    },
    onWeight: (weight) => { state.weights[keyOf(reference)] = weight; weightsChanged(); },
  }));
  fill(list, rows.length ? rows : element("li", {}, empty(element("p", {}, served.index === null ? "There is nothing to compare with yet. Write a gold reply: one that is known to fit." : "Nothing was found. Write a gold reply, or another utterance."))));
  list.classList.remove("all");
  byId("all-references").hidden = rows.length <= SHOWN;
  byId("all-references").textContent = `Show all ${rows.length}`;
  const excluded = item.excluded_references ?? [];
  const total = Object.values(item.excluded ?? {}).reduce((sum, number) => sum + number, 0);
  box.hidden = total === 0;
  byId("excluded-title").textContent = `${total} left out, such as what would give the gold away`;
  fill(byId("excluded"), excluded.map(excludedRow), total > excluded.length && element("li", { class: "faint" }, `and ${total - excluded.length} more`));
  byId("reset-weights").hidden = !isChanged();
}

/** Say what a server without an index compares with, and where one is made. */
const noIndex = () => element("span", {}, "This server has no index of dialogues yet: replies are compared with golds and given references alone. ", element("a", { href: address("/service") }, "Add dialogues and make an index"));

const isChanged = () => Object.keys(state.weights).length > 0 || state.dropped.length > 0;
const weightOf = (reference) => state.weights[keyOf(reference)] ?? reference.weight ?? (reference.source === "gold" ? 1 : 0);

function weightsChanged() {
  changed();
  byId("reset-weights").hidden = !isChanged();
  item.references.forEach((reference, place) => {
    byId(`reference-${place}`).classList.toggle("dropped", state.dropped.includes(keyOf(reference)));
  });
  scoreLater();
}

// ── scores ────────────────────────────────────────────────────────────────────────────────────────────────────────────

/** Return the item to score: the references in use with their weights; its provenance holds only where none was changed. */
function itemToScore() {
  const { excluded, excluded_references, note, evidence, provenance, ...rest } = item;
  const references = item.references
    .filter((reference) => !state.dropped.includes(keyOf(reference)))
    .map((reference) => ({ ...reference, weight: weightOf(reference) }));
  return { ...rest, references, replies: repliesOf(state), ...(provenance && !isChanged() ? { provenance } : {}) };
}

/** Return what there is to score with: it decides which metrics have a meaning. */
function what() {
  const used = (item?.references ?? []).filter((reference) => !state.dropped.includes(keyOf(reference)));
  return {
    hasReferences: used.some((reference) => reference.source !== "gold"),
    hasGold: used.some((reference) => reference.source === "gold"),
    hasRater: served.rater !== null,
    metric: served.metric,
  };
}

async function computeScores() {
  scoring.abort();
  if (item === null || !Object.keys(repliesOf(state)).length) {
    answer = null;
    showScores();
    return;
  }
  scoring = new AbortController();
  const { signal } = scoring;
  const metrics = metricsOf(state, what());
  if (!metrics.length) {
    answer = null;
    showScores();
    byId("score-state").textContent = "There is nothing to compare a reply with: write a gold reply.";
    return;
  }
  const { replies, ...rest } = itemToScore(), mark = JSON.stringify([rest, metrics]);
  const isSame = mark === scored.mark && answer !== null && !isOld; // then only replies that have changed are sent
  const fresh = isSame ? Object.fromEntries(Object.entries(replies).filter(([system, reply]) => scored.replies[system] !== reply)) : replies;
  performance.mark("scores-asked");
  try {
    if (Object.keys(fresh).length) {
      const body = { items: [{ ...rest, replies: fresh }], metrics, references: "given", explain: true, on_error: "report" };
      const found = await untilAnswered(() => post("/v1/scores", body, { signal }), { signal });
      if (isSame && !isAlike(answer, found)) { // the metrics are of another version now: the scores of the other replies are old
        scored = { mark: "", replies: {} };
        await computeScores();
        return;
      }
      answer = isSame ? merged(answer, found) : found;
    }
    scored = { mark, replies };
    isOld = false;
    showProblem(byId("score-problem"), null);
  } catch (error) {
    if (error.name === "AbortError") return;
    answer = null;
    showProblem(byId("score-problem"), error);
  }
  showScores(isSame ? Object.keys(fresh) : null);
  performance.mark("scores-shown");
}

/** Say whether two answers are of the same metrics, in the same versions. */
const isAlike = (earlier, later) => earlier.scores.length === later.scores.length && earlier.scores.every((metric, place) => metric.signature === later.scores[place].signature);

/** Return an answer with the replies of a later one in their places. */
function merged(earlier, later) {
  return { ...later, scores: later.scores.map((metric, place) => ({ ...metric, systems: { ...earlier.scores[place].systems, ...metric.systems } })) };
}

const scoreLater = debounced(() => computeScores(), SCORE_PAUSE);
function scoreNow() { scoreLater.cancel(); return computeScores(); }

/** Show the scores of some systems, or of all. */
function showScores(systems = null) {
  if (systems === null) explanations.clear();
  if (answer === null) isOld = false;
  state.replies.forEach((reply, place) => {
    const system = SYSTEMS[place], row = byId(`scores-${system}`);
    if (row === null || (systems !== null && !systems.includes(system) && reply.trim())) return;
    explanations.delete(system);
    const metrics = reply.trim() ? (answer?.scores ?? []) : [];
    fill(row, metrics.map((metric) => scoreTile(metric, system, { item, versions, isChanged: isChanged() })));
    const about = metrics.map((metric) => metric.systems[system]?.replies[0]).filter((one) => one?.credited || one?.matched);
    const main = metrics.find((metric) => metric.metric === "upsilon-bleu")?.systems[system]?.replies[0];
    const chosen = about.find((one) => one.matched) ?? (main?.credited ? main : about.at(-1));
    if (chosen) explanations.set(system, chosen);
    showWords(system, reply, chosen);
    showWhy(system, place, metrics);
  });
  const problems = answer?.problems ?? [];
  byId("score-state").textContent = printable([...problems.map((one) => one.message), ...(answer?.warnings ?? [])].join(" "));
  showAge();
  showMoves();
  showLikeness();
}

/** Return what the recommended metric says of the reply of a system, where it says anything. */
const recommended = (system) => answer?.scores.find((metric) => metric.metric === served.metric)?.systems[system]?.replies[0];

function showWhy(system, place, metrics) {
  const box = byId(`why-box-${system}`), reply = metrics.length ? recommended(system) : null;
  if (!reply?.combination) { fill(box); return; }
  fill(box, whyBox(reply, system, {
    isOpen: opened.get(system) ?? place === 0,
    onToggle: (isOpen) => opened.set(system, isOpen),
    placeOf: (text) => item.references.findIndex((reference) => reference.text === text),
    onPick: showReference,
  }));
}

function showReference(place) {
  const row = byId(`reference-${place}`);
  unpoint();
  row.classList.add("lit");
  row.scrollIntoView({ block: "center" });
  row.focus({ preventScroll: true });
}

/** Show in the list of references how like each is to the reply that is looked at, and which of them count. */
function showLikeness() {
  const system = recommended(looked)?.likenesses ? looked : "A", likenesses = recommended(system)?.likenesses ?? [];
  const by = new Map(likenesses.map((like) => [like.text, like]));
  item?.references.forEach((reference, place) => {
    const row = byId(`reference-${place}`), like = by.get(reference.text);
    if (row === null) return;
    row.classList.toggle("near", like?.counts === true);
    byId(`like-${place}`).textContent = like ? `like reply ${system}: ${scoreText(like.similarity)}${like.counts ? ", counts" : ""}` : "";
  });
}

/** Dim scores from before the connection was lost, and say so, until the service has answered again. */
function showAge() {
  byId("replies").classList.toggle("old", isOld);
  byId("references").classList.toggle("old", isOld);
  const notice = byId("old-scores");
  if (notice.hidden !== isOld) return;
  notice.hidden = !isOld;
  notice.textContent = isOld ? "The scores and weights shown are from before the connection was lost: they may not fit what is typed now." : "";
}

onConnection((isThere) => {
  if (isThere || answer === null) return; // what is shown is true again when it is answered again
  isOld = true;
  showAge();
});

/** Show beside each reference how the first reply's υ-score moves without it. */
function showMoves() {
  const about = explanations.values().next().value;
  item?.references.forEach((reference, place) => {
    const moved = byId(`moved-${place}`);
    if (moved === null) return;
    const without = about?.without_reference?.find((row) => row.text === reference.text);
    moved.textContent = typeof without?.change === "number" && Math.abs(without.change) >= 0.0005
      ? `without it ${without.change > 0 ? "+" : "−"}${scoreText(Math.abs(without.change))}` : "";
  });
}

// ── words ─────────────────────────────────────────────────────────────────────────────────────────────────────────────

function showWords(system, reply, explanation) {
  const place = byId(`words-${system}`);
  if (!explanation) { fill(place); return; }
  const { tokens, byPlace } = explained(explanation);
  fill(place, element("span", { class: "faint" }, "Point at a word: "), element("bdi", { dir: "auto" }, pieces(aligned(reply, tokens), (piece) => {
    const about = byPlace[piece.place];
    const best = about.credits.find((credit) => credit.order === 1) ?? about.credits[0];
    const strongest = best?.credit ?? about.matches[0]?.weight;
    const point = () => pointAtWord(piece.text, about, explanation);
    return {
      sign: strongest === undefined ? "" : strongest < 0 ? "negative" : "positive",
      attributes: { onpointerenter: point, onfocus: point, onclick: point, onpointerleave: unpoint, onblur: unpoint, "aria-describedby": "pointed" },
    };
  })));
}

/** Return the place in the page's list of a reference that an explanation names by its own number. */
function placeOf(explanation, reference) {
  const text = explanation.without_reference[reference]?.text;
  return item.references.findIndex((one) => one.text === text);
}

function pointAtWord(word, { credits, matches }, explanation) {
  unpoint();
  const parts = [];
  for (const credit of credits) {
    const place = placeOf(explanation, credit.reference);
    light(place, credit.ngram.split(" "));
    const weight = credit.weight.toFixed(2), sum = credit.credit.toFixed(2); // they differ where a word stands several times
    parts.push(element("div", {}, "“", printable(credit.ngram), "” is credited by reference ", element("b", {}, place + 1), ` with weight ${weight}`, sum !== weight && `: ${sum} in all`));
  }
  for (const match of matches.slice(0, 5)) {
    const place = placeOf(explanation, match.reference);
    light(place, [match.match]);
    parts.push(element("div", {}, "resembles “", printable(match.match), "” of reference ", element("b", {}, place + 1), `: similarity ${match.similarity.toFixed(2)}, weight ${match.weight.toFixed(2)}`));
  }
  const pointed = byId("pointed");
  fill(pointed, parts.length ? parts : element("div", {}, "“", printable(word), "” is in no reference, so it is credited by none."));
  pointed.hidden = false;
}

function light(place, words) {
  const row = byId(`reference-${place}`);
  if (row === null) return;
  row.classList.add("lit");
  for (const node of row.querySelectorAll(".said .word")) if (words.includes(node.textContent.toLowerCase())) node.classList.add("lit");
}

function unpoint() {
  for (const node of document.querySelectorAll(".lit")) node.classList.remove("lit");
  byId("pointed").hidden = true;
}

/** Show which words of the replies a word of a reference has credited: the other way round. */
document.addEventListener("refaug:point", (event) => {
  const { place, word } = event.detail;
  unpoint();
  const parts = [];
  for (const [system, explanation] of explanations) {
    const { tokens, byPlace } = explained(explanation);
    const isOf = (reference) => placeOf(explanation, reference) === place;
    tokens.forEach((token, at) => {
      const credit = byPlace[at].credits.find((one) => isOf(one.reference) && one.ngram.split(" ").includes(word));
      const match = byPlace[at].matches.find((one) => isOf(one.reference) && one.match === word);
      if (!credit && !match) return;
      const nodes = [...byId(`words-${system}`).querySelectorAll(".word")].filter((node) => node.textContent.toLowerCase() === token.toLowerCase());
      for (const node of nodes) node.classList.add("lit");
      const line = credit ? `“${printable(credit.ngram)}” in reply ${system}: credit ${credit.credit.toFixed(2)}` : `“${printable(token)}” in reply ${system}: similarity ${match.similarity.toFixed(2)}`;
      if (!parts.includes(line)) parts.push(line);
    });
  }
  byId(`reference-${place}`)?.classList.add("lit");
  fill(byId("pointed"), parts.length ? parts.map((line) => element("div", {}, line)) : element("div", {}, "“", printable(word), "” of this reference credits no word: another reference gives more for it, or no reply has it."));
  byId("pointed").hidden = false;
});
document.addEventListener("refaug:unpoint", unpoint);

// ── taking it along ───────────────────────────────────────────────────────────────────────────────────────────────────

async function copy(text, what) {
  const isCopied = await copyText(text);
  byId("share-state").textContent = isCopied ? `${what} is in the clipboard.` : `The browser does not let this page use the clipboard; ${what.toLowerCase()} is below.`;
  const shown = byId("share-text");
  shown.textContent = text;
  shown.hidden = false;
}

/** Return a listener that copies what the page asks for; the forms are loaded when they are needed. */
const copyAs = (name, write) => async () => {
  const forms = await import("./copying.js");
  const body = forms.bodyOf(state, { item: item && itemToScore(), isChanged: isChanged(), ...what() });
  await copy(write(forms, body), name);
};

async function freeze() {
  const { provenance, ...rest } = itemToScore();
  try {
    const frozen = await post("/v1/reference-sets", { items: [{ ...rest, ...(provenance ? { provenance } : {}) }], purpose: "test", references: "given" });
    state.set = frozen.id;
    changed();
    await copy(linkOf(state), `The link to set ${frozen.id}`);
  } catch (error) {
    byId("share-state").textContent = "";
    showProblem(byId("page-problem"), error);
    byId("page-problem").scrollIntoView({ block: "nearest" });
  }
}

/** Show the item of a frozen set: its references are those that were frozen, whatever the index is now. */
async function openSet() {
  try {
    const lines = (await download(`/v1/reference-sets/${state.set}/download?format=jsonl`)).split("\n").filter(Boolean).map((line) => JSON.parse(line));
    const frozen = lines.find((line) => Array.isArray(line.references));
    item = { ...pairOf(state), ...frozen };
    showReferences();
    byId("references-state").textContent = `Frozen in set ${state.set}; a change of the dialogue looks for references again.`;
    await scoreNow();
  } catch (error) {
    showProblem(byId("references-problem"), error);
  }
}

// ── start ─────────────────────────────────────────────────────────────────────────────────────────────────────────────

async function loadExamples() {
  examples = await (await fetch(`${document.body.dataset.files}/examples.json`)).json();
  const select = byId("example-select");
  examples.forEach((example, place) => select.append(element("option", { value: place }, example.name)));
  if (item === null) showReferences();
  select.addEventListener("change", () => {
    if (select.value !== "") showExample(Number(select.value));
    select.value = "";
  });
}

/** Show where a link has filled the page and nothing is sent before the reader presses the button. */
function wait(isNow) {
  isWaiting = isNow;
  byId("from-link").hidden = !isNow;
}

const begin = () => (state.set === null ? findNow() : openSet());

function openLink() {
  const linked = fromLink();
  if (linked === null) return;
  state = linked;
  searching.abort();
  scoring.abort();
  scoreLater.cancel();
  item = answer = null;
  searched = "";
  wait(true);
  draw();
  showReferences();
  showScores();
}

function showExample(place) {
  const example = examples[place];
  if (!example) return;
  wait(false);
  state = { ...checked(example), metrics: state.metrics, retrieval: state.retrieval, more: state.more };
  changed();
  draw();
  findNow();
}

async function load() {
  showProblem(byId("page-problem"), null);
  try {
    own = await ownKey();
    if (own === null) {
      showProblem(byId("page-problem"), new Problem({ code: "no_key", title: "This service asks for a key", detail: "enter the key that you were given; its scope “score” is enough for this page", remedy: "ask the operator for one: refaug admin keys create" }, 401));
      fill(byId("references"), element("li", {}, empty(element("p", {}, "References appear here when a key is entered."))));
      return;
    }
    if (!allows(own, "score")) {
      showProblem(byId("page-problem"), new Problem({ code: "not_allowed", scope: "score", title: "This key may not score", detail: `key ${own.name} allows ${own.scopes.join(", ")}, and this page needs score`, remedy: "ask the operator for a key with the scope score" }, 403));
      return;
    }
    const ready = await untilAnswered(() => get("/readyz"));
    served = { index: Object.keys(ready.versions.index ?? {})[0] ?? null, rater: Object.keys(ready.versions.rater ?? {})[0] ?? null, metric: null, isKnown: true };
    if (served.index !== null && allows(own, "read")) served.metric = (await get(`/v1/artefacts/index/${encodeURIComponent(served.index)}`)).published?.metric ?? null;
    if (served.metric !== null) ({ whyBox } = await import("./why.js"));
    versions = Object.fromEntries(Object.entries(ready.versions).flatMap(([kind, named]) => Object.entries(named).slice(0, 1).map(([name, version]) => [kind, `${name}@${version}`])));
    if (served.rater === null && served.metric === null && state.retrieval.weights === "rated") state.retrieval.weights = "one";
    byId("freeze").disabled = !allows(own, "write");
    byId("freeze").title = allows(own, "write") ? "" : "freezing needs a key with the scope write";
    drawSettings(); // not the fields: somebody may be typing into one
    searched = "";
    if (isWaiting) showReferences();
    else await begin();
  } catch (error) {
    showProblem(byId("page-problem"), error);
  }
}

byId("gold").addEventListener("input", (event) => { state.gold = event.target.value; dialogueChanged(); });
byId("add-turn").addEventListener("click", () => { state.turns.unshift(""); drawTurns(); changed(); byId("turn-0").focus(); });
byId("add-reply").addEventListener("click", () => {
  if (state.replies.length >= SYSTEMS.length) return;
  state.replies.push("");
  drawReplies();
  showScores();
  changed();
  byId(`reply-${state.replies.length - 1}`).focus();
});
byId("all-references").addEventListener("click", () => { byId("references").classList.add("all"); byId("all-references").hidden = true; });
byId("reset-weights").addEventListener("click", () => { state.weights = {}; state.dropped = []; changed(); showReferences(); scoreNow(); });
byId("copy-link").addEventListener("click", () => copy(linkOf(state), "The link"));
byId("copy-curl").addEventListener("click", copyAs("The request", ({ asCurl }, body) => asCurl(body, key.get() !== "")));
byId("copy-python").addEventListener("click", copyAs("The program", ({ asPython }, body) => asPython(body)));
byId("copy-command").addEventListener("click", copyAs("The command", ({ asCommand }, body) => asCommand(body, versions)));
byId("freeze").addEventListener("click", freeze);
byId("use-link").addEventListener("click", () => { wait(false); changed(); begin(); });
window.addEventListener("hashchange", openLink);
draw();
wait(isWaiting);
loadExamples().catch(() => undefined);
start(load);
