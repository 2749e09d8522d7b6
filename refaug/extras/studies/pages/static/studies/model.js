/** The mixed model of a report: differences of systems beside whom and what the ratings vary by. */

import { table } from "../components/tables.js";
import { element, userText } from "../dom.js";
import { count } from "../format.js";
import { figure, withoutDashes } from "./fields.js";

const NUMBERS = (...names) => names.map((name) => ({ name, isNumber: true }));
const chance = (p) => (typeof p === "number" && p < 0.001 ? "< 0.001" : figure(p, 3));
const percent = (share) => `${Math.round(100 * share)} %`;
const share = (row) => (row ? percent(row.share) : "–");
const pair = (row) => [userText(row.first), " − ", userText(row.second)];
const interval = (row) => (typeof row.low === "number" ? `${figure(row.low)} to ${figure(row.high)}` : "–");

/** Return the tables of the models of a report, or nothing where no question is rated. */
export function modelPart(report) {
  const shown = report.analyses.kept.tasks ? report.analyses.kept : report.analyses.all;
  const models = Object.entries(shown.ratings).filter(([, { model }]) => model);
  const fitted = models.filter(([, { model }]) => model.why === null), failed = models.filter(([, { model }]) => model.why !== null);
  const ordinal = fitted.filter(([, figures]) => figures.ordinal).map(([question, figures]) => [question, figures.ordinal]);
  if (!models.length) return null;
  const differences = fitted.flatMap(([question, { model }]) => model.differences.map((row) => [pair(row), userText(question), figure(row.difference), figure(row.se), interval(row), chance(row.p_holm)]));
  const odds = ordinal.filter(([, model]) => model.why === null).flatMap(([question, model]) => model.differences.map((row) => [pair(row), userText(question), figure(row.log_odds), interval(row), chance(row.p_holm), percent(row.better)]));
  const shares = fitted.map(([question, { model }]) => {
    const of = (...names) => share(model.variances.find((row) => names.includes(row.of)));
    return [userText(question), count(model.ratings), of("participants"), of("items", "openings"), of("residual")];
  });
  return element("section", { id: "model" }, element("h3", {}, "Model"),
    element("p", { class: "faint" }, "Systems, with levels of participants and of items taken out: random intercepts by REML, t intervals by Satterthwaite."),
    differences.length > 0 && table(...withoutDashes(["Systems", "Question", ...NUMBERS("Difference", "SE", "Interval", "p, after Holm")], differences), { caption: "Differences by the model" }),
    shares.length > 0 && table(...withoutDashes(["Question", ...NUMBERS("Ratings", "Participants", "Items", "Rest")], shares), { caption: "Where ratings vary" }),
    odds.length > 0 && [element("p", { class: "faint" }, "The same with levels in order, not equally spaced: cumulative logit. Log odds of a higher rating, and how often the first is rated better."),
      table(...withoutDashes(["Systems", "Question", ...NUMBERS("Log odds", "Interval", "p, after Holm", "First better")], odds), { caption: "Differences by the ordinal model" })],
    ordinal.filter(([, model]) => model.why !== null).map(([question, model]) => element("p", { class: "faint" }, userText(question), `: no ordinal model, since ${model.why}.`)),
    failed.map(([question, { model }]) => element("p", { class: "faint" }, userText(question), `: no model, since ${model.why}.`)));
}
