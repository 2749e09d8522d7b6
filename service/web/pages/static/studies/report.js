/** The report of a study, and its data as files. */

import { downloadFile, get } from "../api.js";
import { element, fill, userText } from "../dom.js";
import { count } from "../format.js";
import { showProblem } from "../frame.js";
import { figure, saveText, table } from "./fields.js";

const FILES = [["report?format=html", "Report as HTML", "html"], ["report?format=md", "Report as Markdown", "md"], ["export?format=jsonl", "Tasks as JSON lines", "jsonl"], ["export?format=csv", "Chats as CSV", "csv"], ["export?format=items", "Items with ratings", "jsonl"], ["export?format=acute", "Pairs", "jsonl"], ["export?format=dpo", "Preference pairs", "jsonl"], ["export?format=weights", "Weights of references", "jsonl"]];

export function reportSection(study) {
  const node = element("div", { id: "report" }), trouble = element("div", { "aria-live": "assertive" });
  const show = element("button", { type: "button", class: "primary", id: "show-report", onclick: async () => {
    show.disabled = true;
    showProblem(trouble, null);
    try {
      fill(node, numbers(await get(`/v1/studies/${study.id}/report`)));
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

/** Return the main figures; all of them stand in the HTML report. */
function numbers(report) {
  const means = report.means ?? [];
  return [element("p", {}, `${count(report.tasks ?? 0)} tasks of ${count(report.participants ?? 0)} participants`),
    means.length > 0 && table(["System", "Question", "n", "Mean", "Interval"], means.map((row) => [userText(row.bot), userText(row.question), count(row.n), figure(row.mean), row.interval ? `${figure(row.interval[0])} to ${figure(row.interval[1])}` : "–"]), { isNumber: (place) => place > 1 })];
}
