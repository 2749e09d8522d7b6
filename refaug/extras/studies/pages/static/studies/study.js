/** One study: its state and acts, what participants see, links, progress, agreement, people, report. */

import { get, post, put, remove, studyEvents, wait } from "../api.js";
import { byId, element, fill, userText } from "../dom.js";
import { moment, showProblem } from "../frame.js";
import { ask } from "../question.js";
import { agreementSection, disagreementSection } from "./agreement.js";
import { derivedSetSection } from "./derived_set.js";
import { area, field, saveText, table, text } from "./fields.js";
import { inviteSection } from "./invites.js";
import { KINDS } from "./new_study.js";
import { participantSection } from "./participants.js";
import { preregistration } from "./preregistration.js";
import { previewOf } from "./preview.js";
import { progressSection } from "./progress.js";
import { reportSection } from "./report.js";

const STATES = { draft: "", pilot: "warn", open: "good", paused: "warn", closed: "" };
const BETWEEN_MS = 2_000;
let watching = new AbortController();

export const stateBadge = (state) => element("span", { class: `badge ${STATES[state] ?? ""}` }, state);

/** Stop following the study that is shown. */
export const closeStudy = () => watching.abort();

/** Show a study, and follow it while it runs. */
export async function openStudy(id) {
  closeStudy();
  watching = new AbortController();
  const { signal } = watching, place = byId("study-view");
  place.setAttribute("aria-busy", "true");
  try {
    const study = await get(`/v1/studies/${id}`, { signal });
    if (!signal.aborted) draw(place, study, signal);
  } catch (error) {
    if (error.name !== "AbortError") { const box = element("div"); showProblem(box, error); fill(place, backLink(), box); }
  }
  place.removeAttribute("aria-busy");
}

const backLink = () => element("p", {}, element("a", { href: "#" }, "All studies"));
const card = (id, title, ...content) => element("section", { class: "card", "aria-labelledby": id }, element("h2", { id }, title), content);

function draw(place, study, signal) {
  byId("page-title").textContent = "";
  byId("page-title").append(userText(study.name));
  const again = () => openStudy(study.id), isDraft = study.state === "draft";
  const trouble = element("div", { "aria-live": "assertive" });
  const progress = progressSection(study), agreement = agreementSection(study), disagreements = disagreementSection(study), people = participantSection(study, trouble);
  fill(place, backLink(),
    element("section", { class: "card", "aria-label": "This study" }, element("dl", { class: "facts-line" },
      fact("State", stateBadge(study.state)), fact("What people do", KINDS[study.kind]?.[1] ?? study.kind), fact("Made", moment(study.created)), fact("Protocol", element("code", { title: study.protocol_sha256 }, study.protocol_sha256.slice(0, 12)))),
    actions(study, again, trouble), trouble, element("div", { id: "follow-problem", "aria-live": "polite" })),
    element("section", { class: "card", "aria-labelledby": "preview-title" }, element("details", { open: isDraft, id: "preview-box" }, element("summary", {}, element("h2", { id: "preview-title" }, "What participants see")), previewOf(study.protocol))),
    study.state !== "closed" && card("invites-title", "Links", inviteSection(study)),
    !isDraft && [card("progress-title", "Progress", progress.node), card("agreement-title", "Agreement", agreement.node), card("disagreements-title", "Disagreements", disagreements.node), card("report-title", "Report and files", reportSection(study)), study.kind === "rate-reference" && study.state === "closed" && card("derive-title", "A set with these weights", derivedSetSection(study)), card("people-title", "Participants", people.node)],
    card("protocol-title", "Protocol", protocolSection(study, again)),
    element("section", { class: "card to-print", "aria-labelledby": "preregistration-title" }, preregistration(study)));
  if (!isDraft) follow(study, [progress, agreement, disagreements, people], signal);
}

/** Return a protocol as its author would write it: without what is not there. */
const written = (protocol) => JSON.stringify(Object.fromEntries(Object.entries(protocol).filter(([name, value]) => value !== null && !(name === "bots" && value.length === 0))), null, 2);

const fact = (name, ...content) => element("div", {}, element("dt", {}, name), element("dd", {}, ...content));

// ── acts ──────────────────────────────────────────────────────────────────────────────────────────────────────────────

const ACTS = {
  pilot: ["Begin the pilot", "Begin the pilot?", ["draft", "paused"], "People whom you invite can take part; what they do stays out of the report.", false],
  open: ["Open it", "Open this study?", ["draft", "pilot", "paused"], "The protocol is frozen: later changes are amendments, and the report names both.", true],
  pause: ["Pause it", "Pause this study?", ["pilot", "open"], "Nobody gets a new task; tasks that were begun can be finished.", false],
  close: ["Close it", "Close this study?", ["pilot", "open", "paused"], "Nothing more is taken. A closed study cannot be opened again.", false],
};

function actions(study, again, trouble) {
  const button = ([act, [label, title, states, about, isPrimary]]) => states.includes(study.state) && element("button", { type: "button", class: isPrimary ? "primary" : null, id: `act-${act}`, onclick: () => ask({
    title, text: [element("p", {}, about)], yes: label, act: async () => { await post(`/v1/studies/${study.id}/${act}`); await again(); },
  }) }, label);
  const away = ["draft", "closed"].includes(study.state) && element("button", { type: "button", class: "danger last", id: "remove-study", onclick: () => ask({
    title: "Remove this study?", text: [element("p", {}, "Everything that people did in it is gone, for everybody. Export it first.")], yes: "Remove it", word: study.name, act: async () => { await remove(`/v1/studies/${study.id}`); location.hash = ""; },
  }) }, "Remove");
  const copy = element("button", { type: "button", class: "small", onclick: () => saveText(`${written(study.protocol)}\n`, `${study.name}.json`, "application/json") }, "Keep the protocol as a file");
  showProblem(trouble, null);
  return element("div", { class: "row actions-row" }, Object.entries(ACTS).map(button), copy, away);
}

// ── protocol ──────────────────────────────────────────────────────────────────────────────────────────────────────────

function protocolSection(study, again) {
  const words = area(written(study.protocol), { rows: 14, spellcheck: "false", class: "mono" }), reason = text({ maxlength: 500 });
  const problem = element("div", { "aria-live": "assertive" });
  const change = element("form", { onsubmit: async (event) => {
    event.preventDefault();
    showProblem(problem, null);
    try {
      const protocol = JSON.parse(words.value);
      await put(`/v1/studies/${study.id}/protocol`, { protocol, reason: reason.value.trim() });
      await again();
    } catch (error) {
      if (error instanceof SyntaxError) fill(problem, element("div", { class: "notice bad" }, element("p", {}, `This is not JSON: ${error.message}`)));
      else showProblem(problem, error);
    }
  } }, field("protocol-words", "The protocol as JSON", words, null, { isWide: true }), study.state !== "draft" && field("protocol-reason", "Why it is amended", reason, "it is reported, with both hashes"), problem,
  element("div", { class: "row start-row" }, element("button", { type: "submit", id: "amend" }, study.state === "draft" ? "Keep the changes" : "Amend it")));
  const amendments = study.amendments ?? [];
  return [amendments.length > 0 && table(["Protocol", "When", "By", "Why"], amendments.map((row) => [element("code", { title: row.sha256 }, row.sha256.slice(0, 12)), moment(row.at), userText(row.actor), userText(row.reason)])),
    study.state !== "closed" && element("details", {}, element("summary", {}, study.state === "draft" ? "Change it" : "Amend it"), change)];
}

// ── while it runs ─────────────────────────────────────────────────────────────────────────────────────────────────────

/** Show how the study stands, whenever it changes; what is computed anew waits a moment between two times. */
async function follow(study, [progress, ...others], signal) {
  const refresh = refresher(others, signal);
  try {
    for await (const { data: now } of studyEvents(study.id, { signal })) {
      if (signal.aborted) return;
      if (now.state !== study.state) { openStudy(study.id); return; }
      progress.update(now);
      refresh();
    }
  } catch (error) {
    showProblem(byId("follow-problem"), error);
  }
}

/** Return what updates parts while somebody looks at them, soon and never twice at once; parts that fail are tried again. */
function refresher(parts, signal) {
  let isWanted = false, isRunning = false;
  const run = async () => {
    if (isRunning || document.visibilityState !== "visible") return;
    isRunning = true;
    while (isWanted && !signal.aborted && document.visibilityState === "visible") {
      isWanted = false;
      const ends = await Promise.allSettled(parts.map((part) => part.update()));
      isWanted ||= ends.some((end) => end.status === "rejected");
      await wait(BETWEEN_MS, signal);
    }
    isRunning = false;
  };
  document.addEventListener("visibilitychange", run, { signal });
  return () => { isWanted = true; run(); };
}
