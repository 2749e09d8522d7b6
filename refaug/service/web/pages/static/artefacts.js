/** Versions of indexes and raters: what each is and what made it, and publishing another one after a second question. */

import { get, listAll, put } from "./api.js";
import { emptyState } from "./components/states.js";
import { element, printable, userText } from "./dom.js";
import { bytes, count, countOf, score } from "./format.js";
import { moment } from "./frame.js";
import { jobLink } from "./jobs.js";
import { ask } from "./question.js";

const KINDS = [["index", "Index"], ["rater", "Rater"]];
const COLUMNS = { index: ["Version", "Made", "Pairs", "Recall@15", "Drift", "Size", "From", ""], rater: ["Version", "Made", "Languages", "Size", "From", ""] };
const NUMBERS = new Set(["Pairs", "Recall@15", "Drift", "Size"]);
const JOBS = 100; // the newest ones of an artefact; older versions are rarely looked at

/** Return a table of versions for every index and rater. */
export async function showVersions(isAdmin, refresh) {
  const tables = [];
  for (const [kind, title] of KINDS) {
    for (const artefact of await listAll(`/v1/artefacts/${kind}`, "artefacts")) {
      const [versions, makers] = await Promise.all([
        listAll(`/v1/artefacts/${kind}/${artefact.name}/versions`, "versions"), makersOf(kind, artefact.name),
      ]);
      const before = versionBefore(versions, artefact.current);
      const context = { kind, artefact, makers, before, isAdmin, refresh };
      tables.push(element("h3", {}, `${title} ${artefact.name}`), table(context, versions.reverse()));
    }
  }
  return tables.length ? tables : emptyState("No index and no rater yet", "Ingest a log, train word vectors, then start the jobs “index-build” and “rater-train”: “New job” below has a form for each.");
}

/** Return the job that made each version, as far as jobs are still stored. */
async function makersOf(kind, name) {
  const { jobs } = await get(`/v1/jobs?limit=${JOBS}&resource=${encodeURIComponent(`${kind}/${name}`)}`);
  const makers = new Map();
  for (const job of jobs) if (typeof job.result?.version === "string") makers.set(job.result.version, job); // the oldest one stays
  return makers;
}

/** Return the version that rolling back returns to, null if there is none, and undefined if that is not known. */
function versionBefore(versions, current) {
  const older = versions.slice(0, versions.findIndex((version) => version.version === current));
  if (older.some((version) => version.was_published === null)) return undefined;
  return older.findLast((version) => version.was_published)?.version ?? null;
}

function table(context, versions) {
  return element("div", { class: "scroll" }, element("table", {},
    element("thead", {}, element("tr", {}, COLUMNS[context.kind].map((name) => element("th", { scope: "col", class: NUMBERS.has(name) ? "number" : null }, name || element("span", { class: "visually-hidden" }, "Acts"))))),
    element("tbody", {}, versions.map((version) => rows(context, version)))));
}

function rows(context, version) {
  const { kind, makers } = context;
  const cell = (name, ...content) => element("td", { class: NUMBERS.has(name) ? "number" : null, dataset: { name } }, ...content);
  const job = makers.get(version.version);
  const made = cell("Made", moment(version.created), element("div", { class: "faint" },
    job ? ["by ", jobLink(job.id, `${job.kind}, `), job.schedule ? `of schedule ${printable(job.schedule)}` : ""] : "by a command, or a job of long ago"));
  const facts = kind === "index"
    ? [made, cell("Pairs", version.pairs === null ? "–" : count(version.pairs)), cell("Recall@15", recallOf(version, job)), cell("Drift", driftOf(job)), cell("Size", bytes(version.bytes))]
    : [made, cell("Languages", (version.languages ?? []).join(", ") || "–"), cell("Size", bytes(version.bytes))];
  const why = version.problem ? ["Cannot be opened: ", userText(version.problem)] : version.refused ? ["A check refused it: ", userText(version.refused)] : null;
  return [
    element("tr", { class: why ? "has-note" : null },
      element("th", { scope: "row" }, version.version, " ", badge(version)), facts,
      cell("From", userText((version.logs ?? []).join(", ") || "–"), version.vectors ? element("div", { class: "faint" }, userText(version.vectors)) : ""),
      element("td", { class: "actions" }, actions(context, version))),
    why && element("tr", { class: "note" }, element("td", { colspan: COLUMNS[kind].length, class: "bad" }, why)),
  ];
}

function badge(version) {
  if (version.problem) return element("span", { class: "badge bad" }, "damaged");
  if (version.published) return element("span", { class: "badge good" }, "serves");
  if (version.refused) return element("span", { class: "badge bad" }, "refused");
  return version.was_published ? element("span", { class: "badge" }, "served before") : "";
}

const percent = (share) => `${Number((share * 100).toFixed(1))} %`;

/** The recall of the version's own check, else the one that the job behind it measured. */
function recallOf(version, job) {
  const recall = version.recall_at_15 ?? job?.result?.recall?.recall, target = version.recall_target;
  if (typeof recall !== "number") return "not measured";
  const isLow = typeof target === "number" && recall < target;
  return [element("span", { class: isLow ? "warn" : "" }, percent(recall)), typeof target === "number" ? element("div", { class: "faint" }, `wanted: ${percent(target)}`) : ""];
}

/** How far scores on a frozen set have moved, as the night that made the version has measured. */
function driftOf(job) {
  const drift = job?.result?.drift;
  if (!drift?.worst) return "not measured";
  const { mean_absolute: mean, references_changed: changed } = drift.worst;
  return element("span", { title: `on the frozen set ${drift.set}, ${countOf(drift.items, "item")}, against version ${drift.old}` },
    `${score(mean)} a reply`, element("div", { class: "faint" }, `${Math.round((changed ?? 0) * 100)} % of items have other references`));
}

function actions(context, version) {
  const { kind, artefact, before, isAdmin } = context;
  if (!isAdmin || version.problem) return "";
  const button = (label, name, onclick) => element("button", { type: "button", class: "small", "aria-label": name, onclick }, label);
  if (!version.published) return button("Publish", `Publish ${kind} ${artefact.name}@${version.version}`, () => publish(context, version));
  return before === null ? "" : button("Roll back", `Roll back ${kind} ${artefact.name}`, () => rollBack(context));
}

function publish({ kind, artefact, refresh }, version) {
  const send = async (more) => { await put(`/v1/artefacts/${kind}/${artefact.name}/current`, { version: version.version, ...more }); await refresh(); };
  const refused = { yes: "Publish it although a check refused it", word: version.version, act: () => send({ even_refused: true }) };
  ask({
    title: `Publish ${kind} ${artefact.name}@${version.version}?`,
    text: [
      element("p", {}, `Requests that name ${artefact.name} without a version get this one from now on, instead of ${artefact.current ?? "none"}. Scores against different versions do not compare.`),
      version.refused && element("p", { class: "notice bad" }, "A check refused it: ", userText(version.refused)),
    ],
    yes: "Publish it",
    act: () => send({}),
    again: (error) => (error.code === "conflict" && /refused/.test(error.message) ? refused : null),
    ...(version.refused ? refused : {}),
  });
}

function rollBack({ kind, artefact, before, refresh }) {
  ask({
    title: `Roll ${kind} ${artefact.name} back?`,
    text: [element("p", {}, `${before ?? "The version that was published before"} serves again, instead of ${artefact.current}.`)],
    yes: "Roll back",
    act: async () => { await put(`/v1/artefacts/${kind}/${artefact.name}/current`, { rollback: true }); await refresh(); },
  });
}
