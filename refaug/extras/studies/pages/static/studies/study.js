/** One study as a place: overview, links, responses, report and protocol, each drawn when it is looked at. */

import { get, studyEvents, wait } from "../api.js";
import { stateBadge } from "../components/states.js";
import { tabs } from "../components/tabs.js";
import { byId, element, fill, userText } from "../dom.js";
import { showProblem } from "../frame.js";
import { derivedSetSection } from "./derived_set.js";
import { linksTab } from "./invites.js";
import { KINDS } from "./new_study.js";
import { overviewTab } from "./overview.js";
import { card } from "./parts.js";
import { protocolTab } from "./protocol.js";
import { reportSection } from "./report.js";
import { responsesTab } from "./responses.js";

const BETWEEN_MS = 2_000;
let watching = new AbortController();
let shown = null; // the id of the study that is shown

/** Stop following the study that is shown. */
export function closeStudy() {
  watching.abort();
  shown = null;
}

/** Show a study, and follow it while it runs; the tabs follow the address by themselves. */
export async function openStudy(id, rights) {
  if (shown === id) return;
  await drawStudy(id, rights);
}

async function drawStudy(id, rights) {
  closeStudy();
  shown = id;
  watching = new AbortController();
  const { signal } = watching, place = byId("study-view");
  place.setAttribute("aria-busy", "true");
  try {
    const study = await get(`/v1/studies/${id}`, { signal });
    if (!signal.aborted) draw(place, study, { ...rights, signal, again: () => drawStudy(id, rights) });
  } catch (error) {
    if (error.name !== "AbortError") { const box = element("div"); showProblem(box, error); fill(place, backLink(), box); shown = null; }
  }
  if (!signal.aborted) place.removeAttribute("aria-busy");
}

const backLink = () => element("p", {}, element("a", { href: "#" }, "All studies"));

function draw(place, study, context) {
  fill(byId("page-title"), userText(study.name), " ", stateBadge(study.state));
  const isDraft = study.state === "draft", parts = [], trouble = element("div", { id: "follow-problem", "aria-live": "polite" });
  const following = { parts, latest: null };
  const add = (part) => {
    parts.push(part);
    if (following.latest) { part.show?.(following.latest); part.update?.().catch(() => undefined); } // otherwise the first event is still to come
    return part.node;
  };
  const node = tabs("Parts of the study", [
    { name: "overview", title: "Overview", draw: (panel) => fill(panel, overviewTab(study, context, add)) },
    { name: "links", title: "Links", draw: (panel) => fill(panel, linksTab(study, context)) },
    { name: "responses", title: "Responses", draw: (panel) => fill(panel, responsesTab(study, context, add)) },
    { name: "report", title: "Report", draw: (panel) => fill(panel, reportTab(study, context)) },
    { name: "protocol", title: "Protocol", draw: (panel) => fill(panel, protocolTab(study, context)) },
  ]);
  fill(place, element("p", { class: "lead" }, element("a", { href: "#" }, "All studies"), " · ", userText(study.protocol.title), " · ", KINDS[study.kind]?.[1] ?? study.kind, !context.mayChange && " · this key looks on, and changes nothing"), trouble, node);
  if (!isDraft) follow(study, following, trouble, context);
}

function reportTab(study, { mayDerive }) {
  if (study.state === "draft") return card("report-title", "Report", element("p", { class: "empty" }, "There is nothing to report before the pilot begins."));
  return [card("report-title", "Report and files", reportSection(study)), mayDerive && study.kind === "rate-reference" && study.state === "closed" && card("derive-title", "A set with these weights", derivedSetSection(study))];
}

// ── while it runs ─────────────────────────────────────────────────────────────────────────────────────────────────────

/** Show how the study stands, whenever it changes; what is computed anew waits a moment between two times. */
async function follow(study, following, trouble, { signal, again }) {
  const { parts } = following, refresh = refresher(parts, signal);
  try {
    for await (const { data: now } of studyEvents(study.id, { signal })) {
      if (signal.aborted) return;
      if (now.state !== study.state) { again(); return; }
      following.latest = now;
      for (const part of parts) part.show?.(now);
      refresh();
    }
  } catch (error) {
    showProblem(trouble, error);
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
      const ends = await Promise.allSettled(parts.map((part) => part.update?.()));
      isWanted ||= ends.some((end) => end.status === "rejected");
      await wait(BETWEEN_MS, signal);
    }
    isRunning = false;
  };
  document.addEventListener("visibilitychange", run, { signal });
  return () => { isWanted = true; run(); };
}
