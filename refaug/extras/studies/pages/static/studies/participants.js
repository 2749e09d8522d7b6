/** People of a study by their codes: what they did, excluding with a reason, a new link, erasing. */

import { address, get, post, put, remove } from "../api.js";
import { moment } from "../components/states.js";
import { table } from "../components/tables.js";
import { byId, element, fill, userText } from "../dom.js";
import { count } from "../format.js";
import { showProblem } from "../frame.js";
import { ask } from "../question.js";
import { figure } from "./fields.js";

const PAGE = 20;

export function participantSection(study, trouble, { mayChange }) {
  const list = element("div"), newLink = element("div", { id: "new-resume-link", "aria-live": "polite" }), node = element("div", { id: "people" }, newLink, list);
  const before = [""]; // the code behind which each page that was turned to begins
  const turn = (label, act, isThere) => element("button", { type: "button", class: "small", disabled: !isThere, onclick: async () => { act(); try { await update(); } catch (error) { showProblem(trouble, error); } } }, label);
  const update = async () => {
    const { participants: rows, next } = await get(`/v1/studies/${study.id}/participants?limit=${PAGE}&after=${before.at(-1)}`);
    const focused = document.activeElement?.id;
    fill(list, rows.length === 0 && before.length === 1 ? element("p", { class: "empty" }, "No participant has come yet.") : [
      table(["Code", "State", { name: "Tasks", isNumber: true }, { name: "Minutes", isNumber: true }, { name: "Pay", isNumber: true }, { name: "Seen", isMinor: true }, "Excluded", ""], rows.map((row) => [
        element("a", { href: `#study=${study.id}&tab=responses&participant=${row.code}`, id: `data-${row.code}`, title: "Their responses" }, element("code", {}, row.code)), [row.state.replaceAll("_", " "), row.reason ? `: ${row.reason}` : "", row.pilot ? " (pilot)" : ""], `${count(row.done)}${row.skipped ? `, ${count(row.skipped)} skipped` : ""}`, figure(row.minutes, 1), row.pay ? `${figure(row.pay.due)} ${row.pay.currency}` : "–", moment(row.seen),
        row.excluded ? userText(row.excluded) : "–", mayChange ? buttonsOf(row) : ""])),
      (next || before.length > 1) && element("div", { class: "row" }, turn("Previous", () => before.pop(), before.length > 1), turn("Next", () => before.push(next), next !== null), element("span", { class: "faint" }, `page ${count(before.length)}, by code`))]);
    if (focused && byId(focused) && node.contains(byId(focused))) byId(focused).focus();
  };
  const buttonsOf = (row) => row.state !== "withdrawn" && [
    element("button", { type: "button", class: "small", id: `exclude-${row.code}`, "aria-label": `${row.excluded ? "Include" : "Exclude"} ${row.code}`, onclick: () => exclude(row) }, row.excluded ? "Include" : "Exclude"),
    element("button", { type: "button", class: "small", id: `link-${row.code}`, "aria-label": `New link for ${row.code}`, onclick: () => ask({
      title: `A new link for ${row.code}?`, text: [element("p", {}, "It opens what this person wrote: send it only to whom you know to be this person. Their former link, and every browser in which they take part, end.")], yes: "Make the link",
      act: async () => { const { token } = await post(`/v1/studies/${study.id}/participants/${row.code}/resume-link`); fill(newLink, element("div", { class: "notice" }, element("p", {}, `The link for ${row.code}, shown this once:`), element("pre", { class: "links", tabindex: 0, "aria-label": "New link" }, `${location.origin}${address("/take")}#${token}`))); },
    }) }, "New link"),
    element("button", { type: "button", class: "small danger", id: `erase-${row.code}`, "aria-label": `Erase ${row.code}`, onclick: () => ask({
      title: `Erase ${row.code}?`, text: [element("p", {}, "All messages and answers of this person are erased for good, here and in every later report.")], yes: "Erase", word: row.code,
      act: async () => { await remove(`/v1/studies/${study.id}/participants/${row.code}`); await update(); },
    }) }, "Erase"),
  ];
  function exclude(row) {
    const reason = element("input", { type: "text", id: "exclude-reason", maxlength: 500, value: row.excluded ?? "" });
    ask({
      title: row.excluded ? `Take ${row.code} in again?` : `Leave ${row.code} out of the report?`,
      text: [element("p", {}, "The report is shown with and without exclusions, and lists the reasons."), !row.excluded && [element("label", { for: "exclude-reason" }, "Reason"), reason]], yes: row.excluded ? "Include" : "Exclude",
      act: async () => { await put(`/v1/studies/${study.id}/participants/${row.code}/exclusion`, { reason: row.excluded ? null : reason.value.trim() }); await update(); },
    });
  }
  return { node, update };
}
