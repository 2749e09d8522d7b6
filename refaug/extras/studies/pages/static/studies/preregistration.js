/** A preregistration to print: what is fixed before the first participant, as the protocol has it. */

import { element, userText } from "../dom.js";
import { countOf } from "../format.js";
import { paragraphs } from "../take/dialogues.js";
import { KINDS } from "./new_study.js";

/** What each rule of exclusion says of those whom it leaves out. */
export const RULES = {
  failed_attention: (value) => `participants who fail ${value} or more attention checks`, degraded_not_lower: () => "participants who do not rate the degraded bot lower (one-sided Mann–Whitney test)",
  same_answer_everywhere: () => "participants who give the same answer everywhere", seconds_per_turn_below: (value) => `participants who take less than ${value} seconds a turn`, seconds_per_task_below: (value) => `participants who take less than ${value} seconds a task`,
  repeat_differs_by: (value) => `participants whose repeated task differs by more than ${value}`, copied_messages: (value) => `participants of whose messages a share of ${value} or more is copied`,
};

export function preregistration(study) {
  const { protocol } = study, facts = [];
  const fact = (name, ...content) => facts.push(element("dt", {}, name), element("dd", {}, ...content));
  fact("Study", userText(study.name), ", ", userText(protocol.title));
  fact("Protocol (SHA-256)", element("code", {}, study.protocol_sha256));
  fact("State", study.state === "draft" ? "a draft: the hash changes until the study opens" : study.state);
  fact("Task", KINDS[study.kind]?.[1] ?? study.kind);
  if (protocol.bots?.length) fact("Systems", (study.bots?.length ? study.bots : protocol.bots.map((bot) => ({ bot }))).map((row) => element("div", {}, userText(row.bot), row.degraded ? " (degraded on purpose)" : "", row.sha256 ? element("code", { class: "faint" }, ` ${row.sha256.slice(0, 16)}`) : "")));
  fact("Sample", protocol.target ? `${countOf(protocol.target, "chat")} of each ${protocol.kind === "chat-pair" ? "pair of systems" : "system"}` : `${countOf(protocol.ratings_per_item, "rating")} of each item`, `, ${countOf(protocol.per_participant, "task")} of each participant`, protocol.stop?.participants ? `; it pauses after ${countOf(protocol.stop.participants, "participant")}` : "");
  fact("Assignment", protocol.routing === "active" ? "the two bots whose order is least certain, one in five times those with the fewest votes, until every two neighbours of the order are 1.96 standard errors apart; " : protocol.order === "williams" ? "rows of balanced Latin squares (Williams), least used first; " : "in random order; ", "sides alternate; participants do not see which system is which");
  if (protocol.min_turns !== undefined) fact("Conversations", `${protocol.min_turns} to ${protocol.max_turns} turns of the participant`);
  fact("Measures", element("ol", {}, protocol.form.questions.map((question) => element("li", {}, userText(question.text), element("span", { class: "faint" }, ` ${question.type}${question.type === "likert" || question.type === "slider" ? ` ${question.least}–${question.most}` : ""}${question.ends ? `, ${question.ends.join(" to ")}` : ""}${question.reverse ? ", reversed" : ""}${question.required ? "" : ", optional"}`)))));
  fact("Practice", protocol.training ? `${countOf(protocol.training.items.length, "item")}, ${countOf(protocol.training.attempts, "attempt")}, at least ${Math.round(protocol.training.least * 100)} % right` : "none");
  const checks = protocol.checks ?? {};
  fact("Checks", [checks.attention ? `${checks.attention} of attention` : "", checks.degraded ? "a degraded system" : "", checks.repeat ? countOf(checks.repeat, "repeated task") : ""].filter(Boolean).join(", ") || "none");
  const rules = Object.entries(protocol.exclude ?? {}).filter(([, value]) => value !== false);
  fact("Exclusions", rules.length ? element("ul", {}, rules.map(([name, value]) => element("li", {}, RULES[name]?.(value) ?? `${name}: ${value}`))) : "none", element("div", {}, "Results are reported with and without them."));
  const analysis = protocol.analysis ?? {};
  fact("Analysis", `means with ${Math.round((analysis.level ?? 0.95) * 100)} % intervals by bootstrap of ${analysis.cluster === "none" ? "ratings" : "participants"}; pairs by Bradley–Terry (ties: ${analysis.ties ?? "half"}); ${analysis.holm === false ? "no correction of" : "Holm's correction over"} pairs; agreement as Krippendorff's α`, analysis.main?.length ? `; main questions: ${analysis.main.join(", ")}` : "");
  fact("Keeping", `texts are kept for ${protocol.retention_days} days`);
  const print = element("button", { type: "button", id: "print", onclick: () => { document.body.classList.add("printing"); window.print(); } }, "Print it");
  window.addEventListener("afterprint", () => document.body.classList.remove("printing"), { once: true });
  return element("div", { class: "preregistration" }, element("div", { class: "row apart" }, element("h2", { id: "preregistration-title" }, "Preregistration"), print), element("dl", { class: "facts" }, facts), element("details", {}, element("summary", {}, "Consent"), paragraphs(protocol.consent)));
}
