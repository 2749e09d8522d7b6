/** Studies: the list, a new one, how many people it needs; one study stands under its own address. */

import { listAll, untilAnswered } from "../api.js";
import { byId, element, fill, userText } from "../dom.js";
import { allows, empty, moment, ownKey, showProblem, start } from "../frame.js";
import { table } from "./fields.js";
import { KINDS, setUpNewStudy } from "./new_study.js";
import { setUpPower } from "./power.js";
import { closeStudy, openStudy, stateBadge } from "./study.js";

const TITLE = byId("page-title").textContent;

const addressed = () => /^#study=([0-9a-z]{26})$/.exec(location.hash)?.[1] ?? null;

async function showList() {
  const rows = await listAll("/v1/studies", "studies");
  fill(byId("list"), rows.length ? table(["Study", "Title", "What people do", "State", "Made", "Opened"], rows.map((row) => [
    element("a", { href: `#study=${row.id}` }, userText(row.name)), userText(row.title), KINDS[row.kind]?.[1] ?? row.kind, stateBadge(row.state), moment(row.created), row.opened ? moment(row.opened) : "–"]))
    : empty(element("p", {}, "There is no study yet. The form below makes a draft; nobody sees it before you invite them.")));
  byId("list").removeAttribute("aria-busy");
}

async function show() {
  const id = addressed();
  byId("start-view").hidden = id !== null;
  byId("page-lead").hidden = id !== null;
  byId("study-view").hidden = id === null;
  closeStudy();
  if (id === null) {
    fill(byId("study-view"));
    byId("page-title").textContent = TITLE;
    await showList();
  } else {
    byId("list").removeAttribute("aria-busy"); // it is asked for when it is shown
    await openStudy(id);
  }
}

async function load() {
  showProblem(byId("page-problem"), null);
  try {
    const own = await untilAnswered(ownKey), mayStudy = allows(own, "study");
    byId("new-box").hidden = !mayStudy;
    byId("power-box").hidden = !mayStudy;
    if (!mayStudy) {
      fill(byId("list"), empty(element("p", {}, own === null ? "This service asks for a key: press “Key” above and enter yours." : "This page needs a key with the scope study.")));
      byId("list").removeAttribute("aria-busy");
      return;
    }
    setUpNewStudy((study) => { location.hash = `study=${study.id}`; });
    setUpPower();
    await show();
  } catch (error) {
    showProblem(byId("page-problem"), error);
    byId("list").removeAttribute("aria-busy");
  }
}

window.addEventListener("hashchange", () => show().catch((error) => showProblem(byId("page-problem"), error)));
start(load);
