/** The report of a study, and its data as files. */

import { downloadFile, get } from "../api.js";
import { element, fill, userText } from "../dom.js";
import { count, countOf } from "../format.js";
import { showProblem } from "../frame.js";
import { figure, saveText, table } from "./fields.js";

const CHATS = ["chat", "chat-pair", "rate-dialogue", "pair-dialogue"], SINGLE = ["chat", "rate-dialogue"];
/** Formats of the export, with the kinds of studies that have what they need. */
const FILES = [
  ["jsonl", "Tasks as JSON lines", null], ["csv", "Chats as CSV", CHATS], ["items", "Items with ratings", ["chat", "chat-pair", "rate-reply"]], ["conversations", "Rated conversations", SINGLE],
  ["acute", "Pairs of dialogues", CHATS], ["dpo", "Preference pairs", ["pair-reply", "rate-reply"]], ["weights", "Weights of references", ["rate-reference"]],
];

const FEWEST = 6, MOST_REASONS = 500; // participants of an interval, as the figures have it; rows of the table of reasons

/** Return a difference the other way round: kept participants may put two bots in another order. */
const turned = (row) => ({ ...row, first: row.second, second: row.first, difference: -row.difference, low: row.high === null ? null : -row.high, high: row.low === null ? null : -row.low });

export function reportSection(study) {
  const node = element("div", { id: "report" }), trouble = element("div", { "aria-live": "assertive" });
  const show = element("button", { type: "button", class: "primary", id: "show-report", onclick: async () => {
    show.disabled = true;
    showProblem(trouble, null);
    try {
      const { report } = await get(`/v1/studies/${study.id}/report`);
      fill(node, numbers(report, study));
    } catch (error) {
      showProblem(trouble, error);
    }
    show.disabled = false;
  } }, "Show the report");
  const files = FILES.filter(([, , kinds]) => kinds === null || kinds.includes(study.kind));
  const save = ([format, label]) => element("button", { type: "button", class: "small", onclick: async () => {
    showProblem(trouble, null);
    try {
      const { content, name } = await downloadFile(`/v1/studies/${study.id}/export?format=${format}`);
      saveText(content, name ?? `${study.name}.${format === "csv" ? "csv" : "jsonl"}`);
    } catch (error) {
      showProblem(trouble, error);
    }
  } }, label);
  return [element("div", { class: "row" }, show, files.map(save)), trouble, node];
}

/** Return the main figures; the command makes a page of all of them from the two files. */
function numbers(report, study) {
  const { kept, all } = report.analyses, { counts, exclusions } = report;
  const interval = (row) => (typeof row.low === "number" ? `${figure(row.low)} to ${figure(row.high)}` : "–");
  const hasExclusions = exclusions.excluded > 0, ofEverybody = (cells) => (hasExclusions ? cells : []);
  const { decisions } = report, decided = report.analyses.decided ?? null;
  const ofDecided = (question, bot) => decided?.ratings[question]?.means.find((row) => row.bot === bot);
  const ofKept = (question, bot) => kept.ratings[question]?.means.find((row) => row.bot === bot);
  const meanRow = (question, row) => { const own = ofKept(question, row.bot); return [userText(row.bot), userText(question), count(own?.n ?? 0), count(own?.participants ?? 0), figure(own?.mean), own ? interval(own) : "–", figure(row.mean), ...ofEverybody([interval(row)]), ...(decided ? [figure(ofDecided(question, row.bot)?.mean)] : [])]; };
  const means = Object.entries(all.ratings).flatMap(([question, { means: rows }]) => rows.map((row) => meanRow(question, row)));
  const pairOf = (rows, { first, second }) => rows?.find((row) => row.first === first && row.second === second) ?? rows?.map(turned).find((row) => row.first === first && row.second === second) ?? null;
  const differenceCells = (row) => (row ? [figure(row.difference), interval(row), figure(row.p_holm, 3)] : ["–", "–", "–"]);
  const differences = Object.entries(all.ratings).flatMap(([question, { differences: rows }]) => rows.map((row) => [[userText(row.first), " − ", userText(row.second)], userText(question), ...differenceCells(pairOf(kept.ratings[question]?.differences, row)), ...ofEverybody(differenceCells(row))]));
  const samePair = (analysis, question, { first, second }) => analysis?.choices[question]?.pairs.find((row) => row.first === first && row.second === second);
  const inOrder = (row) => (row ? ["wins", "losses", "ties"].map((name) => count(row.outcome[name])).join(" · ") : "–");
  const choiceCells = (row) => (row ? [count(row.outcome.wins), count(row.outcome.losses), count(row.outcome.ties), figure(row.halved_holm, 3)] : ["0", "0", "0", "–"]);
  const choices = Object.entries(all.choices).flatMap(([question, { pairs }]) => pairs.map((row) => [[userText(row.first), " and ", userText(row.second)], userText(question), ...choiceCells(samePair(kept, question, row)), ...ofEverybody([inOrder(row), figure(row.halved_holm, 3)]), ...(decided ? [inOrder(samePair(decided, question, row))] : [])]));
  const isBare = (row) => typeof row?.low !== "number";
  const lacksMean = ([question, { means: rows, differences: gaps }]) => rows.some(({ bot }) => isBare(ofKept(question, bot))) || gaps.some((row) => isBare(pairOf(kept.ratings[question]?.differences, row)));
  const lacksPair = ([question, { pairs }]) => pairs.some((row) => isBare(samePair(kept, question, row)?.outcome.halved));
  const lacksIntervals = Object.entries(all.ratings).some(lacksMean) || Object.entries(all.choices).some(lacksPair);
  const reasons = Object.entries(exclusions.reasons);
  const numeric = (from) => ({ isNumber: (place) => place >= from });
  return [
    element("p", {}, `${countOf(counts.tasks.done, "task")} of ${countOf(counts.participants, "participant")} ${counts.tasks.done === 1 ? "is" : "are"} done; ${countOf(exclusions.excluded, "participant")} ${exclusions.excluded === 1 ? "is" : "are"} left out.`),
    hasExclusions && kept.tasks === 0 && element("p", { class: "notice warn" }, "Everybody is left out: only the columns of everybody have figures."),
    lacksIntervals && element("p", { class: "notice warn", id: "few-participants" }, `Intervals and p need at least ${FEWEST} participants who judged the system or compared the pair; those of means also need ratings that differ.`),
    hasExclusions && [element("h3", {}, "Who is left out, and why"), table(["Participant", "Reason"], reasons.slice(0, MOST_REASONS).map(([code, own]) => [element("code", {}, code), own.map(({ rule, detail }) => element("div", {}, rule === "by_hand" ? "by hand: " : "", userText(detail)))]), { id: "left-out" }),
      reasons.length > MOST_REASONS && element("p", { class: "faint", id: "left-out-more" }, `${countOf(reasons.length - MOST_REASONS, "more participant")} ${reasons.length === MOST_REASONS + 1 ? "is" : "are"} in the file of the figures.`)],
    Object.keys(report.protocols).length > 1 && element("p", { class: "notice warn" }, `The protocol was amended: tasks of ${Object.keys(report.protocols).length} protocols are counted together.`),
    decisions?.decisions > 0 && element("p", {}, `${countOf(decisions.decisions, "decision")} about disagreements ${decisions.decisions === 1 ? "changes" : "change"} ${count(decisions.answers_that_differ)} of ${count(decisions.answers)} answers; every other figure is that of the participants alone.`),
    means.length > 0 && [element("h3", {}, "Means"), table(["System", "Question", "n", "Participants", "Mean", "Interval", "Mean of everybody", ...ofEverybody(["Interval of everybody"]), ...(decided ? ["Mean with decisions"] : [])], means, numeric(2))],
    differences.length > 0 && [element("h3", {}, "Differences"), table(["Systems", "Question", "Difference", "Interval", "p, after Holm", ...ofEverybody(["Difference of everybody", "Interval of everybody", "p of everybody"])], differences, numeric(2))],
    choices.length > 0 && [element("h3", {}, "Choices"), table(["Systems", "Question", "First", "Second", "Ties", "p, after Holm", ...ofEverybody(["Everybody: first, second, ties", "p of everybody"]), ...(decided ? ["First, second, ties with decisions"] : [])], choices, numeric(2))],
    element("p", { class: "faint" }, "A page with everything: ", element("code", {}, `refaug studies report ${study.name}.jsonl --protocol ${study.name}.json --to report`)),
    element("button", { type: "button", class: "small", onclick: () => saveText(JSON.stringify(report, null, 2), `${study.name}-report.json`, "application/json") }, "Keep the figures as a file"),
  ];
}
