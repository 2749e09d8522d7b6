/** Studies: the list, a new one, how many people it needs; one study stands under its own address, and each of its tabs. */

import { listAll, untilAnswered } from "../api.js";
import { byId, element, fill, userText } from "../dom.js";
import { allows, empty, moment, ownKey, showProblem, start } from "../frame.js";
import { table } from "./fields.js";
import { KINDS, openNewStudy } from "./new_study.js";
import { setUpPower } from "./power.js";
import { closeStudy, openStudy, stateBadge } from "./study.js";

const TITLE = byId("page-title").textContent;
const VIEWS = { list: "start-view", "new": "new-view", study: "study-view" };
let mayChange = false;

/** Return what the address names: the list, a new study, perhaps as a copy of one, or a tab of a study. */
function addressed() {
  const [, study, tab] = /^#study=([0-9a-z]{26})(?:\/([a-z]+))?$/.exec(location.hash) ?? [];
  if (study) return { view: "study", study, tab: tab ?? "" };
  const [isNew, copyOf] = /^#new(?:=copy:([0-9a-z]{26}))?$/.exec(location.hash) ?? [];
  return isNew && mayChange ? { view: "new", copyOf: copyOf ?? null } : { view: "list" };
}

async function showList() {
  const rows = await listAll("/v1/studies", "studies");
  fill(byId("list"), rows.length ? table(["Study", "Title", "What people do", "State", "Made", "Opened"], rows.map((row) => [
    element("a", { href: `#study=${row.id}` }, userText(row.name)), userText(row.title), KINDS[row.kind]?.[1] ?? row.kind, stateBadge(row.state), moment(row.created), row.opened ? moment(row.opened) : "–"]))
    : empty(element("p", {}, "There is no study yet.", mayChange ? [" ", element("a", { href: "#new" }, "Make a draft"), ": nobody sees it before you invite them."] : "")));
  byId("list").removeAttribute("aria-busy");
}

async function show() {
  const place = addressed();
  for (const [view, id] of Object.entries(VIEWS)) byId(id).hidden = view !== place.view;
  byId("page-lead").hidden = place.view !== "list";
  if (place.view !== "list") byId("list").removeAttribute("aria-busy"); // it is asked for when it is shown
  if (place.view === "study") { await openStudy(place.study, place.tab, { mayChange }); return; }
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
    byId("to-new").hidden = !mayChange;
    if (!mayChange && !allows(own, "study-read")) {
      fill(byId("list"), empty(element("p", {}, own === null ? "This service asks for a key: press “Key” above and enter yours." : "This page needs a key with the scope study, or study-read to look at studies.")));
      byId("list").removeAttribute("aria-busy");
      return;
    }
    if (mayChange) setUpPower();
    await show();
  } catch (error) {
    showProblem(byId("page-problem"), error);
    byId("list").removeAttribute("aria-busy");
  }
}

window.addEventListener("hashchange", () => show().catch((error) => showProblem(byId("page-problem"), error)));
start(load);
