/** Dialogs of the participants' page: a second question, and why a task is skipped. */

import { element, fill } from "../dom.js";
import { say } from "./words.js";

/** Open a dialog and return it; closing it removes it and gives the focus back. */
export function openDialog(title, build) {
  const back = document.activeElement;
  const dialog = element("dialog", { "aria-labelledby": "dialog-title" }, element("h2", { id: "dialog-title" }, title));
  const close = () => dialog.close();
  dialog.append(element("div", { class: "dialog-body" }, build(close)));
  dialog.addEventListener("close", () => { dialog.remove(); if (back?.isConnected) back.focus(); });
  document.body.append(dialog);
  dialog.showModal();
  return dialog;
}

/** Ask whether something that cannot be undone is meant. */
export function confirmAct({ title, text, yes, act }) {
  openDialog(title, (close) => [
    element("p", {}, text),
    element("div", { class: "row" },
      element("button", { type: "button", class: "danger", id: "dialog-yes", onclick: () => { close(); act(); } }, yes),
      element("button", { type: "button", onclick: close }, say("keep"))),
  ]);
}

/** Ask for a reason, in given words or own ones. */
export function askReason(act) {
  openDialog(say("skip_why"), (close) => {
    const other = element("textarea", { id: "skip-other", rows: 2, maxlength: 500, dir: "auto", "aria-label": say("skip_why"), oninput: () => { problem.hidden = true; } });
    const problem = element("p", { class: "bad problem", id: "skip-problem", role: "alert", hidden: true }, say("answer_first"));
    const reasons = say("skip_reasons").split("\n");
    const inputs = reasons.map((reason, place) => element("input", { type: "radio", name: "skip", id: `skip-${place}`, value: reason, onchange: () => { problem.hidden = true; } }));
    return element("form", { onsubmit: (event) => {
      event.preventDefault();
      const words = [inputs.find((input) => input.checked)?.value, other.value.trim()].filter(Boolean);
      problem.hidden = words.length > 0;
      if (!words.length) { inputs[0].focus(); return; }
      close();
      act(words.join(": "));
    } },
    element("fieldset", { class: "question choice" }, element("legend", { class: "visually-hidden" }, say("skip_why")), element("div", { class: "options" }, inputs.map((input, place) => element("label", { class: "option", for: input.id }, input, element("span", { class: "option-text" }, reasons[place]))))),
    other, problem,
    element("div", { class: "row" }, element("button", { type: "submit", class: "primary", id: "skip-yes" }, say("skip")), element("button", { type: "button", onclick: close }, say("close"))));
  });
}

/** Show the participant's own data, and let it be saved. */
export function showData(data) {
  openDialog(say("my_data"), (close) => {
    const text = JSON.stringify(data, null, 2);
    const save = element("button", { type: "button", class: "primary", onclick: () => {
      const link = element("a", { href: URL.createObjectURL(new Blob([text], { type: "application/json" })), download: "my-data.json" });
      document.body.append(link);
      link.click();
      link.remove();
      setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
    } }, say("save"));
    const shown = fill(element("pre", { tabindex: 0, id: "own-data", dir: "ltr", "aria-label": say("my_data") }), text);
    return [element("p", {}, say("my_data_text")), shown, element("div", { class: "row" }, save, element("button", { type: "button", onclick: close }, say("close")))];
  });
}

/** Show the link by which one goes on on another device. */
export function showLink(link) {
  openDialog(say("elsewhere"), (close) => [element("p", {}, say("elsewhere_text")), element("pre", { tabindex: 0, id: "resume-link", dir: "ltr", "aria-label": say("elsewhere") }, link),
    element("div", { class: "row" }, element("button", { type: "button", onclick: close }, say("close")))]);
}
