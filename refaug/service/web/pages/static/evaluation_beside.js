/** Two evaluations side by side: paired tests, and the replies that changed most. */

import { get, listAll } from "./api.js";
import { intervalFigure } from "./charts.js";
import { element, fill, userText } from "./dom.js";
import { count, score, time } from "./format.js";
import { showProblem } from "./frame.js";
import { difference, pValue } from "./evaluation_systems.js";

/** Return the section that sets another evaluation beside this one. */
export function besideSection(evaluation, summary, chosenId = null) {
  const outcome = element("div", { id: "beside-outcome", "aria-live": "polite" });
  const form = element("form", { class: "tools-row" });
  const load = async () => {
    const others = (await listAll("/v1/evaluations?kind=score", "evaluations", 200)).filter((row) => row.id !== evaluation.id && row.state === "done");
    if (!others.length) { fill(form, element("p", { class: "empty" }, "There is no second evaluation yet. Start one of the same items, with replies of another day, and it can be chosen here.")); return; }
    const other = element("select", { id: "beside-other" }, others.map((row) => element("option", { value: row.id }, `${row.name || row.files.join(", ") || row.id.slice(-6)}, ${time(row.created)}`)));
    const choices = (names) => [["", "those of one name"], ...names.map((name) => [name, name])].map(([value, label]) => element("option", { value }, label));
    const system = element("select", { id: "beside-system" }, choices(summary.systems)), theirs = element("select", { id: "beside-with" });
    const showSystems = async () => {
      fill(theirs, choices([]));
      const { summary: second } = await get(`/v1/evaluations/${other.value}`);
      if (second) fill(theirs, choices(second.systems));
    };
    other.addEventListener("change", showSystems);
    if (chosenId && others.some((row) => row.id === chosenId)) other.value = chosenId;
    fill(form, field("beside-other", "The other evaluation", other), field("beside-system", "System of this one", system), field("beside-with", "System of the other one", theirs), element("div", {}, element("button", { type: "submit" }, "Set side by side")));
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      history.replaceState(null, "", `#e=${evaluation.id}&with=${other.value}`);
      const more = `${system.value ? `&system=${encodeURIComponent(system.value)}` : ""}${theirs.value ? `&with_system=${encodeURIComponent(theirs.value)}` : ""}`;
      await show(outcome, `/v1/evaluations/${evaluation.id}/comparison?with=${other.value}${more}&limit=20`);
    });
    await showSystems();
    if (chosenId && other.value === chosenId) form.requestSubmit();
  };
  load().catch((error) => showProblem(outcome, error));
  return element("div", {}, form, outcome);
}

const field = (id, label, control) => element("div", {}, element("label", { for: id }, label), control);

async function show(place, path) {
  place.setAttribute("aria-busy", "true");
  try {
    fill(place, outcomeOf(await get(path)));
  } catch (error) {
    showProblem(place, error);
  }
  place.removeAttribute("aria-busy");
}

function outcomeOf({ comparisons, differences, warnings }) {
  const main = (pair) => pair.tests.find((test) => test.p_randomisation !== null) ?? pair.tests[0];
  const names = ["Metric", "System", "This one", "The other", "Difference", "p", "The other is"];
  const rows = comparisons.map((pair) => ({ pair, test: main(pair), label: `${pair.metric}, ${pair.first_system === pair.second_system ? pair.first_system : `${pair.first_system} and ${pair.second_system}`}` }));
  return [
    warnings.length > 0 && element("div", { class: "notice warn" }, element("ul", {}, warnings.map((warning) => element("li", {}, userText(warning))))),
    differences.length > 0 && element("p", {}, "What differs beside the replies: ", differences.map((row) => userText(`${row.metric ? `${row.metric}: ` : ""}${row.what} (${row.first || "nothing"} and ${row.second || "nothing"}); `))),
    element("div", { class: "scroll" }, element("table", { id: "beside-table" }, element("thead", {}, element("tr", {}, names.map((name, place) => element("th", { scope: "col", class: place > 1 && place < 6 ? "number" : "" }, name)))),
      element("tbody", {}, rows.map(({ pair, test }) => element("tr", {}, element("th", { scope: "row" }, pair.metric), element("td", { dataset: { name: "System" } }, userText(pair.first_system === pair.second_system ? pair.first_system : `${pair.first_system} / ${pair.second_system}`)),
        element("td", { class: "number", dataset: { name: "This one" } }, score(test.first)), element("td", { class: "number", dataset: { name: "The other" } }, score(test.second)),
        element("td", { class: "number", dataset: { name: "Difference" } }, difference(test.difference), test.interval && element("div", { class: "faint" }, `[${score(test.interval[0])} to ${score(test.interval[1])}]`)),
        element("td", { class: "number", dataset: { name: "p" } }, pValue(test.holm_p)), element("td", { dataset: { name: "The other is" } }, element("span", { class: `badge ${{ better: "good", worse: "bad" }[pair.verdict] ?? ""}` }, pair.verdict), test.note && element("div", { class: "faint" }, userText(test.note)))))))),
    intervalFigure({ title: "The other, less this one", zero: true, note: "grey: not shown", names: ["", "Difference", "from", "to"], rows: rows.map(({ pair, test, label }) => ({ label, value: test.difference, low: test.interval?.[0] ?? null, high: test.interval?.[1] ?? null, sign: { better: "good", worse: "bad" }[pair.verdict] ?? "unclear" })) }),
    comparisons.map((pair) => element("details", {}, element("summary", {}, `Replies that changed most by ${pair.metric}: `, userText(pair.second_system)), changes(pair))),
  ];
}

function changes(pair) {
  if (!pair.changes.length) return element("p", { class: "faint" }, "No reply changed its score.");
  const names = ["Item", "Change", "Before", "Now"];
  return element("div", { class: "scroll" }, element("table", {}, element("thead", {}, element("tr", {}, names.map((name, place) => element("th", { scope: "col", class: place === 1 ? "number" : "" }, name)))),
    element("tbody", {}, pair.changes.map((change) => element("tr", {}, element("th", { scope: "row" }, userText(change.id), change.utterance && element("div", { class: "faint" }, userText(change.utterance))), element("td", { class: "number", dataset: { name: "Change" } }, difference(change.change)),
      [["Before", change.first], ["Now", change.second]].map(([name, side]) => element("td", { dataset: { name } }, side.text !== null ? userText(side.text) : "", element("div", { class: "faint" }, side.score === null ? side.problem ?? "no score" : score(side.score)))))))), pair.counts && element("p", { class: "faint" }, Object.entries(pair.counts).map(([name, number]) => `${count(number)} ${name}`).join(", ")));
}
