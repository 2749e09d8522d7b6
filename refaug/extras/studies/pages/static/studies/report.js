/** The report of a study: forests by question, who is left out and why, how far people came, and the data as files. */

import { downloadFile, get } from "../api.js";
import { forestPlot } from "../components/forest_plot.js";
import { table } from "../components/tables.js";
import { element, fill, userText } from "../dom.js";
import { count, countOf } from "../format.js";
import { showProblem } from "../frame.js";
import { figure, saveText, withoutDashes } from "./fields.js";
import { modelPart } from "./model.js";
import { RULES } from "./preregistration.js";

const CHATS = ["chat", "chat-pair", "rate-dialogue", "pair-dialogue", "label-turns"], DIALOGUES = CHATS.slice(0, -1), SINGLE = ["chat", "rate-dialogue"];
/** Formats of the export, with the kinds of studies that have what they need. */
const FILES = [
  ["jsonl", "Tasks as JSON lines", null], ["csv", "Chats as CSV", CHATS], ["items", "Items with ratings", ["chat", "chat-pair", "rate-reply"]], ["conversations", "Rated conversations", SINGLE],
  ["acute", "Pairs of dialogues", DIALOGUES], ["dpo", "Preference pairs", ["pair-reply", "rate-reply"]], ["weights", "Weights of references", ["rate-reference"]],
];
const MOST_REASONS = 500, MOST_STEPS = 50; // rows of a table
const KEPT = "without those left out", ALL = "everybody";

/** Return the report of a study, which is shown at once, and its data as files. */
export function reportSection(study) {
  const node = element("div", { id: "report", "aria-busy": "true" }), trouble = element("div", { "aria-live": "assertive" });
  let shown = null;
  const load = async () => {
    again.disabled = true;
    node.setAttribute("aria-busy", "true");
    showProblem(trouble, null);
    try {
      const { counts } = await get(`/v1/studies/${study.id}/progress`);
      if (["tasks_done", "skipped", "expired"].every((name) => !counts[name])) {
        fill(node, element("p", { class: "empty" }, "There is nothing to report yet: it begins with the first task that a participant ends."));
      } else {
        ({ report: shown } = await get(`/v1/studies/${study.id}/report`));
        fill(node, numbers(shown));
      }
    } catch (error) {
      showProblem(trouble, error);
    }
    node.removeAttribute("aria-busy");
    again.disabled = false;
  };
  const button = (label, act, attributes = {}) => element("button", { type: "button", class: "small", ...attributes, onclick: async () => {
    showProblem(trouble, null);
    try {
      await act();
    } catch (error) {
      showProblem(trouble, error);
    }
  } }, label);
  const again = button("Compute again", load, { id: "show-report" });
  const asPage = async () => saveText((await get(`/v1/studies/${study.id}/report?page=true`)).page, `${study.name}-report.html`, "text/html");
  const asFile = ([format, label]) => button(label, async () => {
    const { content, name } = await downloadFile(`/v1/studies/${study.id}/export?format=${format}`);
    saveText(content, name ?? `${study.name}.${format === "csv" ? "csv" : "jsonl"}`);
  });
  load();
  return [
    element("div", { class: "row" }, button("Download as HTML", asPage, { id: "report-page", class: null }), button("Figures as JSON", async () => shown && saveText(JSON.stringify(shown, null, 2), `${study.name}-report.json`, "application/json")), again),
    trouble, node,
    element("h3", {}, "Data as files"), element("div", { class: "row" }, FILES.filter(([, , kinds]) => kinds === null || kinds.includes(study.kind)).map(asFile)),
  ];
}

// ── figures ───────────────────────────────────────────────────────────────────────────────────────────────────────────

const both = (report) => (report.exclusions.excluded > 0 ? [[KEPT, report.analyses.kept], [ALL, report.analyses.all]] : [["", report.analyses.all]]);
const titleOf = (question) => (question === "(mean of all)" ? "mean of all questions" : question);

/** Return a difference the other way round: two analyses may put two bots in another order. */
const turned = (row) => ({ ...row, first: row.second, second: row.first, difference: -row.difference, low: row.high === null ? null : -row.high, high: row.low === null ? null : -row.low });
const pairOf = (rows, { first, second }) => rows?.find((row) => row.first === first && row.second === second) ?? rows?.map(turned).find((row) => row.first === first && row.second === second) ?? null;
const botOf = (rows, { bot }) => rows?.find((row) => row.bot === bot) ?? null;
const samePair = (rows, { first, second }) => rows?.find((row) => row.first === first && row.second === second) ?? null;
const strengthsOf = (analysis, question) => analysis.choices[question]?.bradley_terry.half.bots;

/** Return everything that the report says, part by part. */
function numbers(report) {
  const { counts, exclusions, analyses } = report, kept = both(report)[0][1];
  const missing = reasonsOf(report), needed = report.people_needed;
  const questions = [...Object.keys(analyses.all.ratings).map((question) => ratingForests(report, question)), ...Object.keys(analyses.all.choices).map((question) => choiceForest(report, question)), ...Object.keys(analyses.all.labels).map((question) => labelForests(report, question))];
  return [
    element("p", {}, `${countOf(counts.tasks.done, "task")} of ${countOf(counts.participants, "participant")} ${counts.tasks.done === 1 ? "is" : "are"} done; ${countOf(exclusions.excluded, "participant")} ${exclusions.excluded === 1 ? "is" : "are"} left out.`),
    exclusions.excluded > 0 && kept.tasks === 0 && element("p", { class: "notice warn" }, "Everybody is left out: only the figures of everybody are shown."),
    kept.participants > 0 && kept.participants < needed.conclusion && element("p", { class: "notice warn", id: "too-few" }, element("b", {}, "Too few: "), `${countOf(kept.participants, "participant")} counted. Below ${needed.conclusion} the figures show a direction at best, and below ${needed.interval} there are no intervals.`),
    report.routing && element("p", { class: "notice", id: "routing" }, userText(report.routing.note)),
    Object.keys(report.protocols).length > 1 && element("p", { class: "notice warn" }, `The protocol was amended: tasks of ${Object.keys(report.protocols).length} protocols are counted together.`),
    report.decisions?.decisions > 0 && element("p", {}, `${countOf(report.decisions.decisions, "decision")} about disagreements ${report.decisions.decisions === 1 ? "changes" : "change"} ${count(report.decisions.answers_that_differ)} of ${count(report.decisions.answers)} answers; every other figure is that of the participants alone.`),
    questions.length ? questions : element("p", { class: "empty" }, "No finished task has an answer yet that could be counted."),
    missing.length > 0 && element("p", { class: "faint", id: "few-participants" }, missing.join(" ")),
    exclusionPart(report), coursePart(report), votePart(report), tablePart(report),
  ];
}

/** Return why some figures have no interval, in words; what the reasons are is said by the service. */
function reasonsOf(report) {
  const { analyses, people_needed: needed } = report, { kept, all } = analyses, shown = kept.tasks ? kept : all;
  const figures = [...Object.values(shown.ratings).flatMap(({ means, differences }) => [...means, ...differences]), ...Object.values(shown.choices).flatMap(({ pairs, bradley_terry: fits }) => [...pairs, ...fits.half.bots]), ...Object.values(shown.labels).flatMap(({ labels }) => Object.values(labels).flatMap(({ means, differences }) => [...means, ...differences]))];
  const isFew = figures.some(({ why }) => why === "few") || Object.keys(all.ratings).some((question) => all.ratings[question].means.some((row) => !botOf(shown.ratings[question]?.means, row)));
  return [isFew && `Where no interval stands, fewer than ${needed.interval} people gave the answers: it would say nothing.`, figures.some(({ why }) => why === "same") && "Where several people and no interval stand, all said the same: that does not show how others would vary."].filter(Boolean);
}

function ratingForests(report, question) {
  const analyses = both(report), { means, differences } = report.analyses.all.ratings[question];
  const series = analyses.map(([name]) => name), level = `${Math.round(report.settings.level * 100)} %`;
  const plot = (title, rows, zero, unit) => forestPlot({ title, rows, series, zero, unit });
  const estimate = (row, name) => row && { value: row[name], low: row.low, high: row.high, why: "–" };
  return questionPart(report, question, [
    plot(`Means with ${level} intervals`, means.map((row) => ({ label: row.bot, estimates: analyses.map(([, one]) => estimate(botOf(one.ratings[question]?.means, row), "mean")) })), null, scaleOf(report, question)),
    differences.length > 0 && plot("Differences: right of the line the first is better", differences.map((row) => ({ label: `${row.first} − ${row.second}`, estimates: analyses.map(([, one]) => estimate(pairOf(one.ratings[question]?.differences, row), "difference")) })), 0, ""),
  ]);
}

function choiceForest(report, question) {
  const analyses = both(report), bots = strengthsOf(report.analyses.all, question);
  const of = (analysis, row) => botOf(strengthsOf(analysis, question), row);
  const ranks = (row) => (!row ? "–" : row.rank_low === null ? String(row.rank) : `${row.rank} (${row.rank_low} to ${row.rank_high})`);
  return questionPart(report, question, [
    forestPlot({ title: "Bradley–Terry strengths, a tie as half a win; 0 is the average", series: analyses.map(([name]) => name), zero: 0,
      rows: bots.map((row) => ({ label: row.bot, estimates: analyses.map(([, one]) => { const own = of(one, row); return own && { value: own.strength, low: own.low, high: own.high }; }) })) }),
    table(["System", ...analyses.map(([name]) => ({ name: name ? `Rank, ${name}` : "Rank", isNumber: true }))], bots.map((row) => [userText(row.bot), ...analyses.map(([, one]) => ranks(of(one, row)))]), { caption: "Ranks with their intervals" }),
  ]);
}

/** Return the shares of turns that have each label; a label that no turn has is told in words. */
function labelForests(report, question) {
  const analyses = both(report), { labels, spans } = report.analyses.all.labels[question], series = analyses.map(([name]) => name), level = `${Math.round(report.settings.level * 100)} %`;
  const percent = (row, name) => row && { value: 100 * row[name], low: row.low === null ? null : 100 * row.low, high: row.high === null ? null : 100 * row.high, why: "–" };
  const textOf = (label) => report.questions[question]?.labels?.[label] ?? label, own = (one, label) => one.labels[question]?.labels[label];
  const used = Object.keys(labels).filter((label) => labels[label].means.some(({ mean }) => mean > 0)), unused = Object.keys(labels).filter((label) => !used.includes(label));
  const rows = used.flatMap((label) => labels[label].means.map((row) => ({ label: `${textOf(label)} · ${row.bot}`, estimates: analyses.map(([, one]) => percent(botOf(own(one, label)?.means, row), "mean")) })));
  const gaps = used.flatMap((label) => labels[label].differences.map((row) => ({ label: `${textOf(label)} · ${row.first} − ${row.second}`, estimates: analyses.map(([, one]) => percent(pairOf(own(one, label)?.differences, row), "difference")) })));
  return questionPart(report, question, [
    rows.length > 0 && forestPlot({ title: `Turns with each label, with ${level} intervals`, rows, series, zero: null, unit: "in % of a bot's turns", digits: 1 }),
    gaps.length > 0 && forestPlot({ title: "Differences: right of the line the first has the label more often", rows: gaps, series, zero: 0, unit: "in percentage points", digits: 1 }),
    unused.length > 0 && element("p", { class: "faint" }, "No turn has: ", userText(unused.map(textOf).join(", ")), "."),
    spans && element("p", { class: "faint" }, "Parts that are marked: ", userText(Object.entries(spans).map(([bot, number]) => `${bot} ${count(number)}`).join(", ")), "."),
  ]);
}

const questionPart = (report, question, content) => element("section", { class: "report-question" }, element("h3", {}, userText(titleOf(question))), report.questions[question]?.text && element("p", { class: "faint" }, userText(report.questions[question].text), report.questions[question].reversed && " Answers are turned: higher is better."), content);

/** Return the scale of a question in words, for the axis. */
function scaleOf(report, question) {
  const scale = report.questions[question] ?? Object.values(report.questions).find(({ least }) => least !== null);
  return typeof scale?.least === "number" ? `on a scale from ${scale.least} to ${scale.most}` : "";
}

// ── people ────────────────────────────────────────────────────────────────────────────────────────────────────────────

const ruleOf = (name, setting) => (name === "by_hand" ? "excluded by hand" : RULES[name]?.(setting) ?? name);

function exclusionPart(report) {
  const { exclusions } = report, reasons = Object.entries(exclusions.reasons);
  const rules = Object.entries(exclusions.by_rule).filter(([name, number]) => name !== "by_hand" || number > 0);
  if (!rules.length) return null;
  const who = ([code, own]) => [element("code", {}, code), own.map(({ rule, detail }) => element("div", {}, rule === "by_hand" ? "by hand: " : "", userText(detail)))];
  return [element("h3", {}, "Who is left out, and why"),
    table(["Rule", { name: "Could be judged", isNumber: true }, { name: "Left out", isNumber: true }], rules.map(([name, number]) => [ruleOf(name, exclusions.rules[name]), count(exclusions.judged[name]), count(number)]), { id: "exclusion-rules" }),
    reasons.length > 0 && element("details", { id: "left-out", open: reasons.length <= 10 }, element("summary", {}, countOf(reasons.length, "participant")), table(["Participant", "Reason"], reasons.slice(0, MOST_REASONS).map(who))),
    reasons.length > MOST_REASONS && element("p", { class: "faint", id: "left-out-more" }, `${countOf(reasons.length - MOST_REASONS, "more participant")} ${reasons.length === MOST_REASONS + 1 ? "is" : "are"} in the file of the figures.`)];
}

function coursePart({ steps, minutes }) {
  if (!steps.length) return null;
  const most = Math.max(...steps.map((step) => step.begun));
  const spread = (name, own) => own && element("div", {}, element("dt", {}, name), element("dd", {}, `${figure(own.median, 1)} min`, element("span", { class: "faint" }, ` (half took ${figure(own.lower, 1)} to ${figure(own.upper, 1)})`)));
  return [element("h3", {}, "How far people came"),
    element("div", { class: "balance", id: "dropout" }, steps.slice(0, MOST_STEPS).map((step) => [element("div", {}, `Task ${count(step.task)}`), element("progress", { value: step.done, max: most, "aria-label": `Task ${step.task}: ${step.done} of ${step.begun} finished` }),
      element("div", {}, [`${count(step.done)} of ${count(step.begun)} finished`, step.skipped ? `${count(step.skipped)} skipped` : "", step.expired ? `${count(step.expired)} left` : ""].filter(Boolean).join(", "))])),
    element("dl", { class: "facts-line" }, spread("A task", minutes.a_task), spread("A participant", minutes.a_participant))];
}

function votePart(report) {
  const analyses = both(report), bots = Object.entries(report.analyses.all.votes);
  if (!bots.length) return null;
  const share = (own) => (typeof own?.share_up.value !== "number" ? "–" : `${Math.round(own.share_up.value * 100)} %${typeof own.share_up.low === "number" ? ` [${Math.round(own.share_up.low * 100)}, ${Math.round(own.share_up.high * 100)}]` : ""}`);
  return [element("h3", {}, "Arrows on replies"), table(["System", "Replies", "Up", "Down", ...analyses.map(([name]) => ({ name: name ? `Up, ${name}` : "Share up", isNumber: true }))], bots.map(([bot, own]) => [userText(bot), count(own.replies), count(own.up), count(own.down), ...analyses.map(([, one]) => share(one.votes[bot]))]))];
}

// ── every number ──────────────────────────────────────────────────────────────────────────────────────────────────────

const interval = (row) => (typeof row?.low === "number" ? `${figure(row.low)} to ${figure(row.high)}` : "–");
const order = (row) => (row ? ["wins", "losses", "ties"].map((name) => count(row.outcome[name])).join(" · ") : "0 · 0 · 0");

/** Return a table without the columns that have nothing but dashes. */
function numberTable(title, columns, rows) {
  if (!rows.length) return null;
  return [element("h3", {}, title), table(...withoutDashes(columns.map((name, place) => ({ name, isNumber: place > 1 })), rows))];
}

function tablePart(report) {
  const { all, decided } = report.analyses, analyses = both(report), hasBoth = analyses.length > 1, kept = analyses[0][1];
  const ofEverybody = (cells) => (hasBoth ? cells : []), ofDecided = (cells) => (decided ? cells : []);
  const ratings = (cells, rows) => Object.entries(all.ratings).flatMap(([question, own]) => own[rows].map((row) => cells(question, row)));
  const means = ratings((question, row) => { const own = botOf(kept.ratings[question]?.means, row); return [userText(row.bot), titleOf(question), count(own?.n ?? 0), count(own?.participants ?? 0), figure(own?.mean), interval(own), ...ofEverybody([figure(row.mean), interval(row)]), ...ofDecided([figure(botOf(decided?.ratings[question]?.means, row)?.mean)])]; }, "means");
  const gapCells = (row) => [figure(row?.difference), interval(row), figure(row?.p_holm, 3)];
  const differences = ratings((question, row) => [[userText(row.first), " − ", userText(row.second)], titleOf(question), ...gapCells(pairOf(kept.ratings[question]?.differences, row)), ...ofEverybody(gapCells(row))], "differences");
  const choices = Object.entries(all.choices).flatMap(([question, { pairs }]) => pairs.map((row) => { const own = samePair(kept.choices[question]?.pairs, row); return [[userText(row.first), " and ", userText(row.second)], question, order(own), figure(own?.halved_holm, 3), ...ofEverybody([order(row), figure(row.halved_holm, 3)]), ...ofDecided([order(samePair(decided?.choices[question]?.pairs, row))])]; }));
  const shares = Object.entries(all.labels).flatMap(([question, { labels }]) => Object.entries(labels).flatMap(([label, { means: rows }]) => rows.map((row) => { const own = botOf(kept.labels[question]?.labels[label]?.means, row); return [userText(row.bot), userText(`${question}: ${report.questions[question]?.labels?.[label] ?? label}`), count(own?.n ?? 0), count(own?.participants ?? 0), figure(own?.mean), interval(own), ...ofEverybody([figure(row.mean), interval(row)])]; })));
  return [
    numberTable("Labels of turns", ["System", "Label", "Turns", "Participants", "Share", "Interval", ...ofEverybody(["Share of everybody", "Interval of everybody"])], shares),
    numberTable("Means", ["System", "Question", "n", "Participants", "Mean", "Interval", ...ofEverybody(["Mean of everybody", "Interval of everybody"]), ...ofDecided(["Mean with decisions"])], means),
    numberTable("Differences", ["Systems", "Question", "Difference", "Interval", "p, after Holm", ...ofEverybody(["Difference of everybody", "Interval of everybody", "p of everybody"])], differences),
    modelPart(report),
    numberTable("Choices", ["Systems", "Question", "First · second · ties", "p, after Holm", ...ofEverybody(["Everybody: first · second · ties", "p of everybody"]), ...ofDecided(["With decisions: first · second · ties"])], choices),
  ];
}
