/** Responses of a study: all of them in a list with filters, and one of them to read, with the keyboard to the next. */

import { download, get } from "../api.js";
import { debounced, element, fill, printable } from "../dom.js";
import { age, count, countOf } from "../format.js";
import { showProblem } from "../frame.js";
import { VirtualTable } from "../virtual_table.js";
import { asGiven, brief, isScale } from "./decisions.js";
import { saveText } from "./fields.js";
import { card } from "./parts.js";
import { FLAGS, responseView } from "./response.js";

/** Return the tab, which the address may narrow to a participant or an item: `participant=P-…`, `item=…`. */
export function responsesTab(study, context, add) {
  if (study.state === "draft") return card("responses-title", "Responses", element("p", { class: "empty" }, "Nobody has answered yet: begin the pilot, or open the study."));
  const { questions } = study.protocol.form, scales = questions.filter(isScale), pair = questions.find((question) => question.type === "pair");
  const named = new URLSearchParams(location.hash.slice(1));
  const query = { bot: "", participant: named.get("participant") ?? "", item: named.get("item") ?? "", flag: "", question: scales[0]?.id ?? "", low: "", high: "", sort: "ended", order: "descending" };
  const problem = element("div", { "aria-live": "polite" }), total = element("p", { class: "faint", role: "status", id: "responses-total" });
  const asked = () => scales.find((question) => question.id === query.question), turn = (given) => (given === "" ? "" : asGiven(asked(), Number(given)));
  const pathOf = (offset, limit) => {
    const turned = asked()?.reverse ? { low: turn(query.high), high: turn(query.low), ...(query.sort === "score" && { order: query.order === "ascending" ? "descending" : "ascending" }) } : {}; // the list shows what was given
    return `/v1/studies/${study.id}/responses?${new URLSearchParams([...Object.entries({ ...query, ...turned }).filter(([, value]) => value !== ""), ["offset", offset], ["limit", limit]])}`;
  };

  const sorted = (name, className, sort) => ({ name, className, sort: query.sort === sort ? query.order : null, onSort: () => {
    query.order = query.sort === sort && query.order === "descending" ? "ascending" : "descending";
    query.sort = sort;
    refresh();
  } });
  const columns = () => [{ name: "Participant", className: "name" }, { name: study.bots?.length ? "Bots" : "Systems", className: "name" },
    ...(scales.length ? [sorted(asked()?.id ?? "Score", "number", "score")] : []), ...(pair ? [{ name: "Preferred", className: "name" }] : []),
    sorted("Minutes", "number", "seconds"), { name: "Flags", className: "text" }, { name: "Comment", className: "text" }, sorted("Ended", "name", "ended")];
  const draw = (row) => [row.participant, printable(row.bots.join(", ")), ...(scales.length ? [typeof row.scores[query.question] === "number" ? brief(asGiven(asked(), row.scores[query.question])) : "–"] : []), ...(pair ? [printable(row.chosen[pair.id] ?? "–")] : []),
    typeof row.seconds === "number" ? (row.seconds / 60).toFixed(1) : "–", [row.check && `check: ${row.check}`, ...row.flags.filter(({ rule }) => rule !== "commented").map(({ rule }) => FLAGS[rule] ?? rule)].filter(Boolean).join(", "), printable(row.comment), row.ended ? age(row.ended) : "–"];

  const list = new VirtualTable({
    label: "Responses", draw,
    load: async (offset, limit) => { const page = await get(pathOf(offset, limit)); showProblem(problem, null); return { rows: page.responses, total: page.total }; },
    open: (row, place) => view.open(row, place),
    onProblem: (error) => showProblem(problem, error),
    onTotal: (number) => { total.textContent = number ? `${countOf(number, "response")}. A click or Enter opens one.` : "No response is like this. Take a filter away to see more."; list.node.hidden = !number; },
  });
  const view = responseView(study, context, { list });
  const refresh = () => { list.setColumns(columns()); list.reset(); keep.hidden = !query.participant; };

  const control = (id, label, node) => { node.id = id; return element("div", {}, element("label", { for: id }, label), node); };
  const choice = (name, choices) => { const node = element("select", { onchange: () => { query[name] = node.value; refresh(); } }, choices.map(([value, label]) => element("option", { value }, label))); node.value = query[name]; return node; };
  const typed = (name, attributes) => element("input", { autocomplete: "off", spellcheck: "false", value: query[name], oninput: debounced((event) => { query[name] = event.target.value.trim(); refresh(); }, 250), ...attributes });
  const bots = [...new Set((study.bots ?? []).map((row) => row.bot))].map((name) => [name, printable(name)]);
  const rules = Object.entries(study.protocol.exclude ?? {}).filter(([, setting]) => setting !== false && setting !== null).map(([rule]) => rule);
  const flags = [["", "all"], ["any", "any flag"], ["none", "no flag"], ...["commented", "skipped", "expired", "wrong_attention", "same_answer", "names_bot", ...rules, "by_hand"].map((rule) => [rule, FLAGS[rule] ?? rule])];
  const keep = element("button", { type: "button", class: "small", id: "keep-participant", hidden: !query.participant, onclick: async () => {
    try {
      saveText(await download(`/v1/studies/${study.id}/participants/${query.participant}`), `${study.name}-${query.participant}.json`, "application/json");
    } catch (error) {
      showProblem(problem, error);
    }
  } }, "Keep what this participant did as a file");
  const node = element("section", { class: "card", id: "responses", "aria-labelledby": "responses-title" }, element("div", { class: "row apart" }, element("h2", { id: "responses-title" }, "Responses"), element("span", { class: "row" }, keep, element("button", { type: "button", class: "small", id: "again", onclick: refresh }, "Look again"))),
    element("div", { class: "tools-row" }, bots.length > 1 && control("response-bot", "Bot", choice("bot", [["", "all"], ...bots])), control("response-flag", "Flag", choice("flag", flags)),
      control("response-participant", "Participant", typed("participant", { type: "search", placeholder: "P-…" })),
      scales.length > 1 && control("response-question", "Score of", choice("question", scales.map((question) => [question.id, printable(question.id)]))),
      scales.length > 0 && [control("response-low", "Score from", typed("low", { type: "number", step: "any" })), control("response-high", "to", typed("high", { type: "number", step: "any" }))],
      query.item && control("response-item", "Item", typed("item", { type: "search" }))),
    problem, total, list.node, view.dialog);
  refresh();
  let known = study.counts.tasks_done;
  add({ node, show: (now) => { // what somebody reads does not move; the number of new ones is said
    const more = now.counts.tasks_done + now.counts.skipped - known;
    if (list.total === null) known = now.counts.tasks_done + now.counts.skipped;
    else if (more > 0) node.querySelector("#again").textContent = `Look again: ${count(more)} more`;
  } });
  fill(total);
  return node;
}
