/** States, moments and empty places: what several pages show in one way. */

import { element, printable } from "../dom.js";
import { age, exactTime, timeIn } from "../format.js";

const SIGNS = {
  running: "running", pilot: "running", done: "good", open: "good", published: "good", serves: "good", failed: "bad",
  refused: "bad", paused: "warn", waiting: "warn",
};

/** Return a text as a badge; its sign is `good`, `warn`, `bad`, `running`, or nothing where it is none of them. */
export const badge = (text, sign = "", attributes = {}) => element("span", { class: `badge ${sign}`.trim(), ...attributes }, text);

/** Return a state of the API as a badge in the colour of that state. */
export const stateBadge = (state) => badge(printable(state), SIGNS[state] ?? "");

/** Return a moment as its age, which goes on while the page is open; the date and the zone are its title. */
export const moment = (iso) => iso
  ? element("time", { datetime: iso, title: exactTime(iso), class: "age" }, age(iso))
  : element("span", {}, "–");

/** Return a moment to come with the clock of a schedule's zone, which is named. */
export const dueMoment = (iso, zone) => element("time", { datetime: iso, title: exactTime(iso) }, `${age(iso)}, ${timeIn(iso, zone)}`);

/** Let the ages of a page go on. */
export function keepAgesRight() {
  setInterval(() => {
    for (const node of document.querySelectorAll("time.age")) {
      const now = age(node.dateTime);
      if (node.textContent !== now) node.textContent = now;
    }
  }, 20_000);
}

/**
 * Return what stands where nothing is yet: a title, one sentence, and the button or link that changes it:
 * `{label, act}` or `{label, href}`, with `isPrimary` where it is what the page is for.
 */
export function emptyState(title, sentence, action = null) {
  const attributes = action && { class: action.isPrimary ? "primary" : null };
  return element("div", { class: "empty empty-state" }, element("p", { class: "empty-title" }, title), sentence && element("p", {}, sentence),
    action && (action.href ? element("a", { class: `button ${attributes.class ?? ""}`.trim(), href: action.href }, action.label)
      : element("button", { type: "button", ...attributes, onclick: action.act }, action.label)));
}
