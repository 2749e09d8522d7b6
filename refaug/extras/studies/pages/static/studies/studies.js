/** Studies: the list, a new one, how many people it needs; one study stands under its own address, and each of its tabs. */

import { listAll, untilAnswered } from "../api.js";
import { emptyState, stateBadge } from "../components/states.js";
import { table } from "../components/tables.js";
import { byId, element, fill, userText } from "../dom.js";
import { allows, keyInvitation, moment, ownKey, showProblem, start } from "../frame.js";
import { KINDS, openNewStudy } from "./new_study.js";
import { setUpPower } from "./power.js";
import { closeStudy, openStudy } from "./study.js";

const TITLE = byId("page-title").textContent;
const VIEWS = { list: "start-view", "new": "new-view", study: "study-view" };
let mayChange = false, mayDerive = false;

/** Return what the address names: the list, a new study, perhaps as a copy of one, or a study; its tabs follow the address. */
function addressed() {
  const parts = new URLSearchParams(location.hash.slice(1)), study = parts.get("study") ?? "", [, copyOf] = /^copy:([0-9a-z]{26})$/.exec(parts.get("new") ?? "") ?? [];
  if (/^[0-9a-z]{26}$/.test(study)) return { view: "study", study };
  return parts.has("new") && mayChange ? { view: "new", copyOf: copyOf ?? null } : { view: "list" };
}

async function showList() {
  const rows = await listAll("/v1/studies", "studies");
  fill(byId("list"), rows.length ? table(["Study", "Title", { name: "What people do", isMinor: true }, "State", "Made", "Opened"], rows.map((row) => [
    element("a", { href: `#study=${row.id}` }, userText(row.name)), userText(row.title), KINDS[row.kind]?.[1] ?? row.kind, stateBadge(row.state), moment(row.created), row.opened ? moment(row.opened) : "–"]))
    : emptyState("There is no study yet", mayChange ? "Make a draft: nobody sees it before you invite them." : "Whoever has a key of the scope study can make one."));
  byId("list").removeAttribute("aria-busy");
}

async function show() {
  const place = addressed();
  for (const [view, id] of Object.entries(VIEWS)) byId(id).hidden = view !== place.view;
  byId("page-lead").hidden = place.view !== "list";
  if (place.view !== "list") byId("list").removeAttribute("aria-busy"); // it is asked for when it is shown
  if (place.view === "study") { await openStudy(place.study, { mayChange, mayDerive }); return; }
  closeStudy();
  fill(byId("study-view"));
  byId("page-title").textContent = TITLE;
  if (place.view === "new") openNewStudy(place.copyOf, (study) => { location.hash = `study=${study.id}`; });
  else await showList();
}

async function load() {
  showProblem(byId("page-problem"), null);
  try {
    const own = await untilAnswered(ownKey);
    mayChange = allows(own, "study");
    mayDerive = allows(own, "read") && allows(own, "write"); // lists sets, and freezes one
    byId("to-new").hidden = !mayChange;
    if (!mayChange && !allows(own, "study-read")) {
      fill(byId("list"), own === null ? keyInvitation() : keyInvitation("This page needs a key with the scope study, or study-read to look at studies.", "This key does not allow it"));
      byId("list").removeAttribute("aria-busy");
      return;
    }
    if (mayChange) setUpPower();
    closeStudy(); // another key may see another page
    await show();
  } catch (error) {
    showProblem(byId("page-problem"), error);
    byId("list").removeAttribute("aria-busy");
  }
}

window.addEventListener("hashchange", () => show().catch((error) => showProblem(byId("page-problem"), error)));
start(load);
