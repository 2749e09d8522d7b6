/** What became of people of a recruiting service: whom to approve, to look at, to ask to return, who was screened out, and bonuses. */

import { post } from "../api.js";
import { element, fill, userText } from "../dom.js";
import { count, countOf } from "../format.js";
import { showProblem } from "../frame.js";
import { area, field, number, saveText, select } from "./fields.js";
import { copyButton, csvOf } from "./parts.js";

const PARAMETERS = ["PROLIFIC_PID", "workerId", "participantId", "participant_id", "survey_code", "rid", "pid", "id"];
const GROUPS = [
  ["approve", "Approve", "finished"], ["look", "Look at first", "finished, but left out of the report by a rule or by hand"], ["at_it", "At it now", "not finished yet: seen within five minutes, or with a task that is still theirs"], ["return", "Ask to return", "began, did not finish, and are gone"],
  ["screened_out", "Screened out", "by the questions at the start, a quota, or because the study was full"], ["unknown", "Not here", "nobody came with this id, or what they did is erased"],
];
const SHOWN = 12; // of a group; all of it is copied

export function recruitsSection(study) {
  const ids = area("", { rows: 4, spellcheck: "false", class: "mono", placeholder: "one id a line" }), parameter = select(PARAMETERS.map((name) => [name, name]));
  const bonus = number("", 0, 10_000, { step: 0.01 }), result = element("div", { id: "recruits", "aria-live": "polite" });
  const form = element("form", { id: "recruits-form", onsubmit: async (event) => {
    event.preventDefault();
    const named = ids.value.split(/[\s,;]+/).filter(Boolean);
    if (!named.length) { fill(result, element("p", { class: "faint" }, "Paste the ids first.")); return; }
    try {
      const { recruits } = await post(`/v1/studies/${study.id}/recruits`, { ids: named, parameter: parameter.value });
      showGroups(result, study, recruits, Number(bonus.value) || 0);
    } catch (error) {
      showProblem(result, error);
    }
  } }, field("recruit-ids", "Ids of its list of submissions", ids, "they are looked up by their hashes, and not kept"), element("div", { class: "fields" }, field("recruit-parameter", "Parameter of the address", parameter), field("recruit-bonus", `Bonus of each finished person${study.protocol.pay ? `, ${study.protocol.pay.currency}` : ""}`, bonus, "empty: none")),
  element("div", { class: "row start-row" }, element("button", { type: "submit", id: "sort-recruits" }, "Sort them")));
  return [element("p", {}, "Recruiting services send their people to the same link with an id, such as ", element("code", {}, "/take?PROLIFIC_PID={{%PROLIFIC_PID%}}#…"), ". Only its keyed hash is kept: paste the ids, and see what became of each."), form, result];
}

function showGroups(place, study, recruits, bonus) {
  const of = (decision) => recruits.filter((recruit) => recruit.decision === decision);
  const finished = recruits.filter((recruit) => ["approve", "look"].includes(recruit.decision));
  const whole = [["id", "decision", "participant", "state", "minutes", "reasons"], ...recruits.map((recruit) => [recruit.id, recruit.decision, recruit.code ?? "", recruit.state ?? "", recruit.minutes ?? "", recruit.reasons.join("; ")])];
  const bonuses = () => finished.map((recruit) => `${recruit.id},${bonus.toFixed(2)}`).join("\n");
  fill(place, element("div", { class: "groups" }, GROUPS.map(([decision, title, about]) => {
    const group = of(decision);
    return element("section", { class: "group", dataset: { decision }, "aria-label": title }, element("div", { class: "row apart" }, element("h3", {}, title, " ", element("span", { class: "faint" }, count(group.length))), group.length > 0 && decision !== "at_it" && copyButton("Copy", () => group.map((recruit) => recruit.id).join("\n"), { "aria-label": `Copy the ids: ${title}` })),
      element("p", { class: "faint" }, about),
      element("ul", { class: "plain" }, group.slice(0, SHOWN).map((recruit) => element("li", {}, element("code", {}, userText(recruit.id)), recruit.code && element("a", { href: `#study=${study.id}&tab=responses&participant=${recruit.code}`, class: "faint" }, ` ${recruit.code}`), recruit.reasons.length > 0 && element("div", { class: "faint" }, userText(recruit.reasons.join("; ")))))),
      group.length > SHOWN && element("p", { class: "faint" }, `and ${count(group.length - SHOWN)} more, in the file`));
  })),
  bonus > 0 && element("p", { id: "bonuses" }, `Bonuses: ${countOf(finished.length, "person", "people")}, ${(finished.length * bonus).toFixed(2)} ${study.protocol.pay?.currency ?? ""} in all. `, copyButton("Copy the bonuses", bonuses)),
  element("div", { class: "row" }, element("button", { type: "button", class: "small", id: "keep-recruits", onclick: () => saveText(csvOf(whole), `${study.name}-recruits.csv`, "text/csv") }, "Keep as CSV")));
}
