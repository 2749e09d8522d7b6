/** Agreement while a study runs, and what people disagree about most, to be decided by somebody with reasons. */

import { get } from "../api.js";
import { element, fill, userText } from "../dom.js";
import { count } from "../format.js";
import { showProblem } from "../frame.js";
import { decisionForm } from "./decisions.js";
import { figure, table, text } from "./fields.js";

export function agreementSection(study) {
  const node = element("div", { id: "agreement" }, element("p", { class: "faint" }, "asking …"));
  const update = async () => {
    try {
      const { questions } = await get(`/v1/studies/${study.id}/agreement`);
      fill(node, questions.length ? table(["Question", "Judged by several", "Participants", "α ordinal", "α interval", "κ, median of pairs", "Even choices"], questions.map((row) => [
        userText(row.question), `${count(row.rows)} ${row.rows_are}`, count(row.participants), figure(row.alpha_ordinal), figure(row.alpha_interval), figure(row.kappa_median), typeof row.ambiguous === "number" ? `${Math.round(row.ambiguous * 100)} %` : "–"]), { isNumber: (place) => place > 1 })
        : element("p", { class: "empty" }, "Agreement is shown as soon as somebody has answered. In chats everybody has conversations of their own: there it says how far people see the same differences between bots."));
    } catch (error) {
      showProblem(node, error);
    }
  };
  return { node, update };
}

export function disagreementSection(study, { mayChange }) {
  const node = element("div", { id: "disagreements" }, element("p", { class: "faint" }, "asking …"));
  const update = async () => {
    if (node.contains(document.activeElement)) return; // somebody is deciding
    try {
      const { items } = await get(`/v1/studies/${study.id}/disagreements?limit=20`);
      fill(node, items.length ? element("ul", { class: "plain items" }, items.map((item) => row(study, item, mayChange))) : element("p", { class: "empty" }, "There are no large disagreements yet."));
    } catch (error) {
      showProblem(node, error);
    }
  };
  return { node, update };
}

function row(study, { item, question, bot, ratings, adjudicated }, mayChange) {
  const asked = study.protocol.form.questions.find((one) => one.id === question) ?? { id: question };
  const value = text({ "aria-label": `Value that counts for ${question} of ${item}`, value: adjudicated?.value ?? "" }), note = text({ "aria-label": `Reason for ${question} of ${item}`, placeholder: "reason", value: adjudicated?.note ?? "", maxlength: 2_000 });
  const state = element("p", { role: "status", class: "faint" }, adjudicated ? "decided" : "");
  const mayDecide = mayChange && !bot; // a decision names no bot
  const decided = adjudicated && !mayDecide && element("p", { class: "faint" }, "decided: ", userText(String(adjudicated.value)), adjudicated.note && [", ", userText(adjudicated.note)]);
  return element("li", {}, element("p", {}, element("b", {}, userText(question)), bot && [" about ", userText(bot)], " of ", userText(item), ": ", ratings.map((one, place) => [place ? ", " : "", String(one.value)])),
    mayDecide ? [decisionForm(study, { item, question: asked, value, note, state, className: "row" }), state] : decided);
}
