/** People of a study by their codes: what they did, excluding with a reason, their data, erasing. */

import { address, get, listAll, post, put, remove } from "../api.js";
import { byId, element, fill, userText } from "../dom.js";
import { count } from "../format.js";
import { moment, showProblem } from "../frame.js";
import { ask } from "../question.js";
import { figure, saveText, table } from "./fields.js";

const SHOWN = 200;

export function participantSection(study, trouble) {
  const list = element("div"), newLink = element("div", { id: "new-resume-link", "aria-live": "polite" }), node = element("div", { id: "people" }, newLink, list);
  const update = async () => {
    const rows = await listAll(`/v1/studies/${study.id}/participants`, "participants", SHOWN);
    const focused = document.activeElement?.id;
    fill(list, rows.length === 0 ? element("p", { class: "empty" }, "No participant has come yet.") : [
      element("p", { class: "faint" }, `${count(rows.length)}${rows.length >= SHOWN ? ", the first ones" : ""}. Codes are random and identify no one.`),
      table(["Code", "State", "Tasks", "Minutes", "Pay", "Seen", "Excluded", ""], rows.map((row) => [
        element("code", {}, row.code), [row.state, row.reason ? `: ${row.reason}` : "", row.pilot ? " (pilot)" : ""], `${count(row.done)}${row.skipped ? `, ${count(row.skipped)} skipped` : ""}`, figure(row.minutes, 1), row.pay ? `${figure(row.pay.due)} ${row.pay.currency}` : "–", moment(row.seen),
        row.excluded ? userText(row.excluded) : "–", buttonsOf(row)]), { isNumber: (place) => place > 1 && place < 5 })]);
    if (focused && byId(focused) && node.contains(byId(focused))) byId(focused).focus();
  };
  const buttonsOf = (row) => [
    element("button", { type: "button", class: "small", id: `data-${row.code}`, "aria-label": `Data of ${row.code}`, onclick: () => showData(study, row).catch((error) => showProblem(trouble, error)) }, "Data"),
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

async function showData(study, row) {
  const data = await get(`/v1/studies/${study.id}/participants/${row.code}`), words = JSON.stringify(data, null, 2);
  const dialog = element("dialog", { class: "wide", "aria-labelledby": "data-title" }, element("h2", { id: "data-title" }, `Data of ${row.code}`), element("pre", { tabindex: 0, id: "data-text", "aria-label": "Data" }, words),
    element("div", { class: "row" }, element("button", { type: "button", class: "primary", onclick: () => saveText(words, `${study.name}-${row.code}.json`, "application/json") }, "Keep it as a file"), element("button", { type: "button", id: "data-close", onclick: () => dialog.close() }, "Close")));
  dialog.addEventListener("close", () => { dialog.remove(); byId(`data-${row.code}`)?.focus(); });
  document.body.append(dialog);
  dialog.showModal();
}
