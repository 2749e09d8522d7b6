/** The report of a study, and its data as files. */

import { downloadFile, get } from "../api.js";
import { element, fill, userText } from "../dom.js";
import { count } from "../format.js";
import { showProblem } from "../frame.js";
import { figure, saveText, table } from "./fields.js";

const FILES = [["export?format=jsonl", "Tasks as JSON lines", "jsonl"], ["export?format=csv", "Chats as CSV", "csv"], ["export?format=items", "Items with ratings", "jsonl"], ["export?format=acute", "Pairs of dialogues", "jsonl"], ["export?format=dpo", "Preference pairs", "jsonl"], ["export?format=weights", "Weights of references", "jsonl"]];

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
  const save = ([path, label, ending]) => element("button", { type: "button", class: "small", onclick: async () => {
    showProblem(trouble, null);
    try {
      const { content, name } = await downloadFile(`/v1/studies/${study.id}/${path}`);
      saveText(content, name ?? `${study.name}.${ending}`);
    } catch (error) {
      showProblem(trouble, error);
    }
  } }, label);
  return [element("div", { class: "row" }, show, FILES.map(save)), trouble, node];
}

/** Return the main figures; the command makes a page of all of them from the two files. */
function numbers(report, study) {
  const { kept, all } = report.analyses, { counts, exclusions } = report;
  const interval = (row) => (typeof row.low === "number" ? `${figure(row.low)} to ${figure(row.high)}` : "–");
  const ofAll = (question, bot) => all.ratings[question]?.means.find((row) => row.bot === bot);
  const means = Object.entries(kept.ratings).flatMap(([question, { means: rows }]) => rows.map((row) => [userText(row.bot), userText(question), count(row.n), count(row.participants), figure(row.mean), interval(row), figure(ofAll(question, row.bot)?.mean)]));
  const differences = Object.entries(kept.ratings).flatMap(([question, { differences: rows }]) => rows.map((row) => [[userText(row.first), " − ", userText(row.second)], userText(question), figure(row.difference), interval(row), figure(row.p_holm, 3)]));
  const choices = Object.entries(kept.choices).flatMap(([question, { pairs }]) => pairs.map((row) => [[userText(row.first), " and ", userText(row.second)], userText(question), count(row.outcome.wins), count(row.outcome.losses), count(row.outcome.ties), figure(row.halved_holm, 3)]));
  const numeric = (from) => ({ isNumber: (place) => place >= from });
  return [
    element("p", {}, `${count(counts.tasks.done)} tasks of ${count(counts.participants)} participants are done; ${count(exclusions.excluded)} ${exclusions.excluded === 1 ? "participant is" : "participants are"} left out by the rules.`),
    Object.keys(report.protocols).length > 1 && element("p", { class: "notice warn" }, `The protocol was amended: tasks of ${Object.keys(report.protocols).length} protocols are counted together.`),
    means.length > 0 && [element("h3", {}, "Means"), table(["System", "Question", "n", "Participants", "Mean", "Interval", "Without exclusions"], means, numeric(2))],
    differences.length > 0 && [element("h3", {}, "Differences"), table(["Systems", "Question", "Difference", "Interval", "p, after Holm"], differences, numeric(2))],
    choices.length > 0 && [element("h3", {}, "Choices"), table(["Systems", "Question", "First", "Second", "Ties", "p, after Holm"], choices, numeric(2))],
    element("p", { class: "faint" }, "A page with everything: ", element("code", {}, `refaug studies report ${study.name}.jsonl --protocol ${study.name}.json --to report`)),
    element("button", { type: "button", class: "small", onclick: () => saveText(JSON.stringify(report, null, 2), `${study.name}-report.json`, "application/json") }, "Keep the figures as a file"),
  ];
}
