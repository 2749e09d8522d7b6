/** A form in steps: where one is, back and on, and at the end everything once more before it is sent. */

import { element, fill } from "../dom.js";

/**
 * Return a form in steps as an element. `parts` are `{name, title, node, check, summary}`: `check()` returns whether the
 * step may be left, beside what the browser checks of its fields; `summary()` returns pairs of a name and a value for
 * the last step. `finish` is `{title, label, act}`; `act(event)` may return a promise. Below the summary it shows `node`,
 * where it has one, after `update()`. `node.show(name)` goes to a step.
 */
export function steps(label, parts, finish) {
  const last = parts.length, seen = new Set([0]);
  const heads = [...parts.map((part) => part.title), finish.title].map((title, place) =>
    element("li", {}, element("button", { type: "button", class: "link", onclick: () => go(place) }, title)));
  const list = element("ol", { class: "step-list", "aria-label": label }, heads);
  const title = element("h3", { tabindex: -1 }), place = element("p", { class: "faint", role: "status" });
  const summary = element("div", { class: "step-summary" });
  const bodies = [...parts.map((part) => part.node), element("div", {}, summary, finish.node)];
  const back = element("button", { type: "button", onclick: () => show(at - 1) }, "Back");
  const on = element("button", { type: "button", class: "primary", onclick: advance }, "Next");
  let at = 0;

  /** Return whether a step may be left; the browser shows the field that is wrong. */
  function isRight(step) {
    const fields = [...parts[step].node.querySelectorAll("input, select, textarea")];
    const wrong = fields.find((field) => !field.checkValidity());
    if (wrong) { show(step); wrong.reportValidity(); }
    return !wrong && (parts[step].check?.() ?? true);
  }

  function go(to) {
    for (let step = at; step < to; step += 1) if (!isRight(step)) { if (at !== step) show(step); return; }
    show(to);
  }

  async function advance(event) {
    if (at < last) { go(at + 1); return; }
    on.disabled = true;
    try { await finish.act(event); } finally { on.disabled = false; }
  }

  function show(to, isFocused = true) {
    at = Math.max(0, Math.min(last, to));
    seen.add(at);
    heads.forEach((head, step) => {
      head.className = step < at || (seen.has(step) && step !== at && step < last) ? "done" : "";
      head.firstChild.disabled = !seen.has(step) && step > at;
      if (step === at) head.setAttribute("aria-current", "step");
      else head.removeAttribute("aria-current");
      bodies[step].hidden = step !== at;
    });
    title.textContent = heads[at].textContent;
    place.textContent = `Step ${at + 1} of ${last + 1}`;
    back.hidden = at === 0;
    on.textContent = at === last ? finish.label : "Next";
    if (at === last) finish.update?.();
    if (at === last) fill(summary, parts.map((part, step) => element("div", {}, element("dl", { class: "facts" },
      (part.summary?.() ?? []).map(([name, value]) => [element("dt", {}, name), element("dd", {}, value)])),
    element("button", { type: "button", class: "link", "aria-label": `Change: ${part.title}`, onclick: () => show(step) }, "Change"))));
    if (isFocused) title.focus();
  }

  const node = element("div", { class: "steps" }, list, element("div", { class: "step-part" }, title, place, bodies), element("div", { class: "row step-ends" }, back, on));
  show(0, false);
  return Object.assign(node, { show: (name) => show(parts.findIndex((part) => part.name === name)), isRight: () => parts.every((_, step) => isRight(step)) });
}
