/** Evaluate: files in, a job, and a table that stays under its address, which is in the fragment and holds no key. */

import { listAll, untilAnswered } from "./api.js";
import { emptyState, stateBadge } from "./components/states.js";
import { table } from "./components/tables.js";
import { byId, element, fill, userText } from "./dom.js";
import { loadChoices, setUpOrder } from "./evaluate_order.js";
import { closeEvaluation, openEvaluation, titleOf } from "./evaluation.js";
import { countOf } from "./format.js";
import { allows, keyInvitation, moment, ownKey, showProblem, start } from "./frame.js";

const TITLE = byId("page-title").textContent;
let own = null;

/** Return what the address names: an evaluation, a reply of it, and another one beside it. */
function addressed() {
  const match = /^#e=([0-9a-z]{26})(?:&reply=(\d{1,9}))?(?:&with=([0-9a-z]{26}))?$/.exec(location.hash);
  return match === null ? null : { id: match[1], reply: match[2] === undefined ? null : Number(match[2]), besideId: match[3] ?? null };
}

async function showList() {
  const place = byId("list"), rows = await listAll("/v1/evaluations", "evaluations", 200);
  fill(place, rows.length ? table(["Evaluation", "State", { name: "Read", isMinor: true }, "Asked for"], rows.map((row) => [
    [element("a", { href: `#e=${row.id}` }, userText(titleOf(row))), row.kind === "meta" ? element("span", { class: "faint" }, " agreement with people") : ""],
    stateBadge(row.state),
    row.counts ? `${countOf(row.counts.items, "item")}, ${countOf(row.counts.replies, "reply", "replies")}` : "–",
    [moment(row.created), row.owner && row.owner !== "anonymous" ? [" by ", userText(row.owner)] : ""]]))
    : emptyState("No evaluation yet", "Drop a file with the replies of your systems above: it takes a minute from there to a table of their scores.", { label: "Choose a file", act: () => byId("file-input").click() }));
  place.removeAttribute("aria-busy");
}

async function show() {
  const target = addressed(), view = byId("evaluation-view");
  byId("start-view").hidden = target !== null;
  byId("page-lead").hidden = target !== null;
  view.hidden = target === null;
  if (target === null) {
    closeEvaluation();
    fill(view);
    byId("page-title").textContent = TITLE;
    await showList();
  } else {
    byId("list").removeAttribute("aria-busy"); // it is asked for when it is shown
    await openEvaluation(target, own);
  }
}

async function load() {
  showProblem(byId("page-problem"), null);
  try {
    own = await untilAnswered(ownKey);
    const mayScore = allows(own, "score");
    byId("new-box").hidden = !mayScore;
    if (!mayScore) { fill(byId("list"), own === null ? keyInvitation() : keyInvitation("This page needs a key with the scope score.", "This key does not allow it")); byId("list").removeAttribute("aria-busy"); return; }
    await Promise.all([loadChoices(), show()]);
  } catch (error) {
    showProblem(byId("page-problem"), error);
    byId("list").removeAttribute("aria-busy");
  }
}

window.addEventListener("hashchange", () => show().catch((error) => showProblem(byId("page-problem"), error)));
setUpOrder((evaluation) => { location.hash = `e=${evaluation.id}`; });
start(load);
