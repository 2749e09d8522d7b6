/** One evaluation: its job while it runs, and all that is known when it is done. */

import { ENDED, downloadFile, get, remove } from "./api.js";
import { byId, element, fill, userText } from "./dom.js";
import { agreementSections } from "./evaluation_agreement.js";
import { besideSection } from "./evaluation_beside.js";
import { watchEvaluation } from "./evaluation_job.js";
import { repliesSection } from "./evaluation_replies.js";
import { differences, metricCharts, partsTable, scatter, systemsTable } from "./evaluation_systems.js";
import { badRows } from "./evaluate_order.js";
import { countOf, day, duration, exactTime } from "./format.js";
import { allows, moment, showProblem } from "./frame.js";
import { ask } from "./question.js";

let shown = { id: null, isDone: false, replies: null }, watching = new AbortController();

/** Return a title for an evaluation: its name, or its files. */
export const titleOf = (evaluation) => evaluation.name || evaluation.files.slice(0, 3).join(", ") || `evaluation ${evaluation.id.slice(-6)}`;

/** Forget what is shown. */
export function closeEvaluation() {
  watching.abort();
  shown = { id: null, isDone: false, replies: null };
}

/** Show an evaluation, or only a reply of it if it is there already. */
export async function openEvaluation({ id, reply, besideId }, own) {
  if (shown.id === id && shown.isDone) {
    shown.replies?.again();
    return;
  }
  closeEvaluation();
  watching = new AbortController();
  const { signal } = watching, place = byId("evaluation-view");
  place.setAttribute("aria-busy", "true");
  try {
    const evaluation = await get(`/v1/evaluations/${id}`, { signal });
    if (signal.aborted) return;
    shown = { id, isDone: evaluation.state === "done", replies: null };
    draw(place, evaluation, own, { reply, besideId }, signal);
  } catch (error) {
    if (error.name !== "AbortError") fill(place, backLink(), problemElement(error));
  }
  place.removeAttribute("aria-busy");
}

function problemElement(error) {
  const box = element("div");
  showProblem(box, error);
  return box;
}

const backLink = () => element("p", {}, element("a", { href: "#" }, "All evaluations"));

const fact = (name, ...content) => element("div", {}, element("dt", {}, name), element("dd", {}, ...content));

function draw(place, evaluation, own, { reply, besideId }, signal) {
  byId("page-title").textContent = "";
  byId("page-title").append(userText(titleOf(evaluation)));
  const job = element("div", { id: "evaluation-job" }), isDone = evaluation.state === "done";
  const again = () => openEvaluation({ id: evaluation.id, reply, besideId }, own);
  fill(place, backLink(),
    element("section", { class: "card", "aria-label": "This evaluation" },
      element("dl", { class: "facts-line" }, fact("Files", evaluation.files.map((name, at) => [at ? ", " : "", userText(name)])),
        evaluation.counts && fact("Read", `${countOf(evaluation.counts.items, "item")}, ${countOf(evaluation.counts.replies, "reply", "replies")}`, evaluation.counts.bad ? element("span", { class: "warn" }, `, ${countOf(evaluation.counts.bad, "bad row")}`) : ""),
        isDone && fact("Done", moment(evaluation.finished), evaluation.started ? `, in ${duration(evaluation.started, evaluation.finished)}` : ""),
        isDone && evaluation.expires && fact("Kept until", element("time", { datetime: evaluation.expires, title: exactTime(evaluation.expires) }, day(evaluation.expires)))),
      !isDone && job, actions(evaluation)),
    isDone && (evaluation.kind === "meta" ? agreementSections(evaluation.agreement) : scoreSections(evaluation, { reply, besideId, mayNote: allows(own, "score") })));
  if (!isDone) {
    watchEvaluation(job, evaluation, { mayFollow: allows(own, "read"), signal, onEnd: (ended) => { if (ended.state === "done") again(); else ENDED.has(ended.state) && draw(place, ended, own, { reply, besideId }, signal); } })
      .catch((error) => { if (error.name !== "AbortError") showProblem(job, error); });
  }
}

// ── acts ──────────────────────────────────────────────────────────────────────────────────────────────────────────────

const FORMATS = [["json", "JSON"], ["csv", "CSV"], ["latex", "LaTeX"], ["html", "HTML report"]];

function actions(evaluation) {
  if (!ENDED.has(evaluation.state)) return null;
  const trouble = element("div", { "aria-live": "assertive" });
  const save = ([format, label]) => element("button", { type: "button", class: "small", onclick: async (event) => {
    event.target.disabled = true;
    showProblem(trouble, null);
    try {
      await saveFile(`/v1/evaluations/${evaluation.id}/download?format=${format}`, `${evaluation.id}.${format === "latex" ? "tex" : format}`);
    } catch (error) {
      showProblem(trouble, error);
    }
    event.target.disabled = false;
  } }, label);
  const away = element("button", { type: "button", class: "small danger last", onclick: () => ask({
    title: "Remove this evaluation?", text: [element("p", {}, "Its scores and notes are gone for everybody; the files that were sent stay until they expire.")], yes: "Remove it",
    act: async () => { await remove(`/v1/evaluations/${evaluation.id}`); location.hash = ""; },
  }) }, "Remove");
  return [element("div", { class: "row actions-row" }, evaluation.state === "done" && [element("span", { class: "faint", id: "download-label" }, "Download"), FORMATS.map(save)], away), trouble];
}

/** Let the browser keep a file; a link could not send the key of the tab. */
async function saveFile(path, fallback) {
  const { content, name } = await downloadFile(path), link = element("a", { href: URL.createObjectURL(content), download: name ?? fallback });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}

// ── scores ────────────────────────────────────────────────────────────────────────────────────────────────────────────

function scoreSections(evaluation, { reply, besideId, mayNote }) {
  const { summary } = evaluation;
  const card = (id, title, ...content) => element("section", { class: "card", "aria-labelledby": id }, element("h2", { id }, title), content);
  const notices = [
    summary.warnings?.length > 0 && element("div", { class: "notice warn" }, summary.warnings.length === 1 ? element("p", {}, userText(summary.warnings[0])) : element("ul", {}, summary.warnings.map((warning) => element("li", {}, userText(warning))))),
    summary.bad_metrics?.map((metric) => element("div", { class: "notice bad" }, element("p", {}, element("strong", {}, userText(metric.metric)), " gave no scores: ", userText(metric.message)))),
    badRows(summary.bad_rows ?? [], summary.more_bad_rows),
  ];
  if (!summary.metrics.length) return [notices, element("p", { class: "empty" }, "No metric gave scores. Start another evaluation of the same files with other metrics.")];
  const replies = repliesSection(evaluation, summary, { mayNote });
  shown.replies = replies;
  const drawing = scatter(evaluation, summary, (place) => replies.openReply(place));
  const different = differences(summary);
  if (reply !== null) queueMicrotask(() => replies.openReply(reply)); // its dialog has to be in the document
  return [
    notices.flat().some(Boolean) && element("section", { class: "notices", "aria-label": "What to know of these scores" }, notices),
    card("systems-title", "Systems", systemsTable(summary), partsTable(summary)),
    different && card("differences-title", "Paired differences", different),
    card("charts-title", "Distributions", metricCharts(summary)),
    drawing && card("scatter-title", "Two metrics", drawing),
    card("replies-title", "Replies", replies.section),
    card("beside-title", "Beside another evaluation", besideSection(evaluation, summary, besideId)),
  ];
}
