/** Versions of indexes and raters: what each is, and publishing another one after a second question. */

import { get, listAll, put } from "./api.js";
import { element, userText } from "./dom.js";
import { bytes, count } from "./format.js";
import { empty, moment } from "./frame.js";
import { ask } from "./question.js";

const KINDS = [["index", "indexes", "Index"], ["rater", "raters", "Rater"]];

/** Return a table of versions for every index and rater. */
export async function showVersions(isAdmin, refresh) {
  const tables = [];
  for (const [kind, plural, title] of KINDS) {
    for (const artefact of await listAll(`/v1/${plural}`, plural)) {
      const versions = await listAll(`/v1/${plural}/${artefact.name}/versions`, "versions");
      tables.push(element("h3", {}, `${title} ${artefact.name}`), table(kind, plural, artefact, versions.reverse(), isAdmin, refresh));
    }
  }
  return tables.length ? tables : empty(element("p", {}, "No index and no rater yet. Ingest a log, train word vectors (“vectors”), then start the jobs “index-build” and “rater-train”: “New job” below has a form for each."));
}

function table(kind, plural, artefact, versions, isAdmin, refresh) {
  const names = kind === "index" ? ["Version", "Made", "Pairs", "Recall@15", "Size", "From", ""] : ["Version", "Languages", "Size", "From", ""];
  return element("div", { class: "scroll" }, element("table", { class: "stacked" },
    element("thead", {}, element("tr", {}, names.map((name) => element("th", { scope: "col" }, name || element("span", { class: "visually-hidden" }, "Acts"))))),
    element("tbody", {}, versions.map((version) => row(kind, plural, artefact, version, isAdmin, refresh)))));
}

function row(kind, plural, artefact, version, isAdmin, refresh) {
  const cell = (name, ...content) => element("td", { dataset: { name } }, ...content);
  const recall = version.recall_at_15;
  const isLow = typeof recall === "number" && typeof version.recall_target === "number" && recall < version.recall_target;
  const facts = kind === "index"
    ? [cell("Made", moment(version.created)), cell("Pairs", version.pairs === null ? "–" : count(version.pairs)),
      cell("Recall@15", typeof recall === "number" ? element("span", { class: isLow ? "warn" : "" }, `${recall.toFixed(3)}${typeof version.recall_target === "number" ? ` of ${version.recall_target}` : ""}`) : "not measured"),
      cell("Size", bytes(version.bytes))]
    : [cell("Languages", (version.languages ?? []).join(", ") || "–"), cell("Size", bytes(version.bytes))];
  return element("tr", {},
    element("th", { scope: "row" }, version.version, " ", version.published ? element("span", { class: "badge good" }, "serves") : "", version.problem ? element("div", { class: "bad" }, userText(version.problem)) : ""),
    facts, cell("From", userText((version.logs ?? []).join(", ") || "–")),
    element("td", { class: "actions" }, isAdmin && !version.published && !version.problem ? element("button", { type: "button", class: "small", "aria-label": `Publish ${kind} ${artefact.name}@${version.version}`, onclick: () => publish(plural, kind, artefact, version, refresh) }, "Publish") : "",
      isAdmin && version.published && artefact.versions.length > 1 ? element("button", { type: "button", class: "small", "aria-label": `Roll back ${kind} ${artefact.name}`, onclick: () => rollBack(plural, kind, artefact, refresh) }, "Roll back") : ""));
}

function publish(plural, kind, artefact, version, refresh) {
  ask({
    title: `Publish ${kind} ${artefact.name}@${version.version}?`,
    text: [element("p", {}, `Requests that name ${artefact.name} without a version get this one from now on, instead of ${artefact.current ?? "none"}. Scores against different versions do not compare.`)],
    yes: "Publish it",
    act: async () => { await put(`/v1/${plural}/${artefact.name}/current`, { version: version.version }); await refresh(); },
    again: (error) => error.code === "conflict" && /refused/.test(error.message)
      ? { yes: "Publish it although a check refused it", act: async () => { await put(`/v1/${plural}/${artefact.name}/current`, { version: version.version, even_refused: true }); await refresh(); } }
      : null,
  });
}

function rollBack(plural, kind, artefact, refresh) {
  ask({
    title: `Roll ${kind} ${artefact.name} back?`,
    text: [element("p", {}, `The version that was published before ${artefact.current} serves again.`)],
    yes: "Roll back",
    act: async () => { await put(`/v1/${plural}/${artefact.name}/current`, { rollback: true }); await refresh(); },
  });
}

/** Return the names of indexes, raters and logs, for forms. */
export async function namesOf(plural) {
  return (await get(`/v1/${plural}?limit=200`))[plural].map((row) => row.name);
}
