/** The API: every route of the OpenAPI document in its group, to be found by its words and tried. */

import { get } from "../api.js";
import { byId, element, fill, printable } from "../dom.js";
import { count } from "../format.js";
import { empty, showProblem, start } from "../frame.js";
import { groupsOf, wordsOf } from "./document.js";
import { inline, paragraphs } from "./prose.js";
import { routeRow } from "./route.js";

let groups = []; // each with its routes, and where they are shown

function draw(document) {
  fill(byId("about"), paragraphs(document.info?.description ?? ""));
  groups = groupsOf(document).map((group) => {
    const routes = group.routes.map((route) => ({ ...route, words: wordsOf(route, document), row: routeRow(route, document, (isOpen) => showAddress(route, isOpen)) }));
    const title = group.name.charAt(0).toUpperCase() + group.name.slice(1).replaceAll("-", " "), id = `/${group.name}`;
    const link = element("a", { href: `#${encodeURI(id)}` }, printable(title)), size = element("span", { class: "faint" });
    const card = element("section", { class: "card", "aria-labelledby": id }, element("h2", { id, tabindex: "-1" }, printable(title)), element("p", { class: "faint" }, inline(group.description)), routes.map(({ row }) => row));
    return { ...group, id, routes, card, size, entry: element("li", {}, link, " ", size) };
  });
  fill(byId("groups"), groups.map(({ entry }) => entry));
  fill(byId("routes"), groups.map(({ card }) => card), nothing);
  byId("routes").removeAttribute("aria-busy");
  filter();
  follow();
}

// ── filter ────────────────────────────────────────────────────────────────────────────────────────────────────────────

const nothing = empty(element("p", {}, "No route has all of these words."));

/** Show the routes that have all words of the filter. */
function filter() {
  const words = byId("filter").value.toLowerCase().split(/\s+/).filter(Boolean);
  let found = 0, all = 0;
  for (const { routes, card, entry, size } of groups) {
    for (const { row, words: texts } of routes) row.hidden = !words.every((word) => texts.includes(word));
    const shown = routes.filter(({ row }) => !row.hidden).length;
    card.hidden = entry.hidden = shown === 0;
    size.textContent = count(shown);
    found += shown;
    all += routes.length;
  }
  nothing.hidden = found > 0;
  byId("found").textContent = words.length ? `${count(found)} of ${count(all)} routes; Enter goes to the first` : `${count(all)} routes`;
}

function showFirst() {
  const first = groups.flatMap(({ routes }) => routes).find(({ row }) => !row.hidden);
  if (first) show(first);
}

// ── addresses ─────────────────────────────────────────────────────────────────────────────────────────────────────────

function show({ row }) {
  row.open = true;
  row.querySelector("summary").focus({ preventScroll: true });
  row.scrollIntoView({ block: "start" });
}

/** Let the address name the route that was opened last: it can be passed on. */
function showAddress({ anchor }, isOpen) {
  const hash = `#${encodeURI(anchor)}`;
  if (isOpen) history.replaceState(null, "", hash);
  else if (location.hash === hash) history.replaceState(null, "", location.pathname + location.search);
}

/** Open the route, or go to the group, that the address names: `#/jobs/start_job`, `#/jobs/post/v1/jobs` or `#/jobs`. */
function follow() {
  const wanted = decoded(location.hash.slice(1));
  const isNamed = ({ anchor, group, method, path }) => wanted === anchor || wanted === `/${group}/${method.toLowerCase()}${path}`;
  const route = groups.flatMap(({ routes }) => routes).find(isNamed), group = groups.find(({ id }) => id === wanted);
  if ((route?.row.hidden || group?.card.hidden)) { byId("filter").value = ""; filter(); }
  if (route) show(route);
  else if (group) { byId(group.id).focus({ preventScroll: true }); group.card.scrollIntoView({ block: "start" }); }
}

function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

async function load() {
  showProblem(byId("page-problem"), null);
  if (groups.length) return;
  try {
    draw(await get("/openapi.json"));
  } catch (error) {
    showProblem(byId("page-problem"), error);
  }
}

byId("filter").addEventListener("input", filter);
byId("filter").addEventListener("keydown", (event) => { if (event.key === "Enter" && !event.isComposing) { event.preventDefault(); showFirst(); } });
addEventListener("hashchange", follow);
start(load);
