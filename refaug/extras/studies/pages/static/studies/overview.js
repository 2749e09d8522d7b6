/** How a study stands: what to do next, counts, who is here, the balance over bots, agreement, and the participants. */

import { get, post, remove } from "../api.js";
import { moment } from "../components/states.js";
import { element, fill } from "../dom.js";
import { countOf } from "../format.js";
import { showProblem } from "../frame.js";
import { ask } from "../question.js";
import { agreementSection, disagreementSection } from "./agreement.js";
import { participantSection } from "./participants.js";
import { card } from "./parts.js";
import { progressSection } from "./progress.js";

const ACTS = {
  pilot: ["Begin the pilot", "Begin the pilot?", ["draft", "paused"], "People whom you invite can take part; what they do stays out of the report."],
  open: ["Open it", "Open this study?", ["draft", "pilot", "paused"], "The protocol is frozen: later changes are amendments, and the report names both."],
  pause: ["Pause it", "Pause this study?", ["pilot", "open"], "Nobody gets a new task; tasks that were begun can be finished."],
  close: ["Close it", "Close this study?", ["pilot", "open", "paused"], "Nothing more is taken. A closed study cannot be opened again."],
};

/** Return what comes next: a title, a sentence, and the act, or the tab, that is the primary one. */
function nextStep(study, { counts, bots }) {
  const wanted = bots.filter((bot) => !bot.degraded), isFull = wanted.length > 0 && wanted.every((bot) => bot.target !== null && bot.done >= bot.target);
  switch (study.state) {
    case "draft": return ["Try it first", "Begin the pilot, make a link, and do a task yourself. Nobody sees a draft.", "pilot"];
    case "pilot": return counts.tasks_done ? ["Open it when the pilot is right", `${countOf(counts.tasks_done, "task")} done in the pilot. Look at the responses, then open the study: the pilot no longer counts.`, "open"] : ["Do a task as participants do", "Make a link, and open it in another browser.", "links"];
    case "open": return isFull ? [study.protocol.routing === "active" ? "It has its votes, and takes no more" : "Every bot has its target", "Close the study, and read the report.", "close"] : counts.participants ? ["It runs", "Read what comes in; attention checks and hasty answers have flags.", "responses"] : ["Invite people", "Nobody has come yet: make links, and send them.", "links"];
    case "paused": return ["It pauses", "Nobody gets a new task until you open it again.", "open"];
    default: return ["It is over", "The report has means, differences and agreement.", "report"];
  }
}
const TABS = { links: "Make links", responses: "Read responses", report: "See the report" };

function nextSection(study, { mayChange, again }) {
  const node = element("div", { id: "next" });
  let drawn = "";
  const show = (now) => {
    const [title, about, step] = nextStep(study, now), key = `${title} ${about}`;
    if (key === drawn) return; // the focus may be on a button
    drawn = key;
    const act = ([name, [label, question, states, text]]) => states.includes(study.state) && element("button", { type: "button", class: name === step ? "primary" : null, id: `act-${name}`, onclick: () => ask({
      title: question, text: [element("p", {}, text)], yes: label, act: async () => { await post(`/v1/studies/${study.id}/${name}`); await again(); },
    }) }, label);
    const away = ["draft", "closed"].includes(study.state) && element("button", { type: "button", class: "danger last", id: "remove-study", onclick: () => ask({
      title: "Remove this study?", text: [element("p", {}, "Everything that people did in it is gone, for everybody. Export it first.")], yes: "Remove it", word: study.name, act: async () => { await remove(`/v1/studies/${study.id}`); location.hash = ""; },
    }) }, "Remove");
    const to = TABS[step] && (mayChange || step !== "links") && element("a", { class: "button primary", href: `#study=${study.id}&tab=${step}`, id: "next-link" }, TABS[step]);
    const acts = mayChange ? Object.entries(ACTS).sort(([name]) => (name === step ? -1 : 0)).map(act) : [];
    fill(node, element("h2", { id: "next-title" }, title), element("p", {}, about), element("div", { class: "row actions-row" }, to, acts, mayChange && away));
  };
  show(study);
  return { node, show };
}

/** Return who did something within the last minutes, by code. */
function hereSection(study) {
  const node = element("div", { id: "here" }, element("p", { class: "faint" }, "asking …"));
  const update = async () => {
    try {
      const { participants, next } = await get(`/v1/studies/${study.id}/participants?active=true&limit=20`);
      fill(node, participants.length ? element("ul", { class: "plain here" }, participants.map((row) => element("li", {}, element("code", {}, row.code), ` ${countOf(row.done, "task")} done, seen `, moment(row.seen))), next && element("li", {}, "and more"))
        : element("p", { class: "faint" }, "Nobody in the last five minutes."));
    } catch (error) {
      showProblem(node, error);
    }
  };
  return { node, update };
}

export function overviewTab(study, context, add) {
  const next = element("section", { class: "card", "aria-labelledby": "next-title" }, add(nextSection(study, context)));
  if (study.state === "draft") return next;
  const trouble = element("div", { "aria-live": "assertive" });
  return [next, trouble,
    card("progress-title", "Progress", add(progressSection(study))),
    study.state !== "closed" && card("here-title", "Here now", add(hereSection(study))),
    card("agreement-title", "Agreement", add(agreementSection(study))),
    card("disagreements-title", "Disagreements", add(disagreementSection(study, context))),
    card("people-title", "Participants", add(participantSection(study, trouble, context)))];
}
