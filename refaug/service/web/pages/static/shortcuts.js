/** Keys of the pages: `/` and `?` open dialogs, `g` and a letter another page; never while somebody types. */

import { byId } from "./dom.js";
import { keysAreOn, pages } from "./shortcut_list.js";

const TYPING = "textarea, select, [contenteditable], input:not([type=checkbox], [type=radio], [type=range], [type=button])";
const LEADER_MS = 1_500; // in which a letter may follow `g`
let leader = 0;

/** Listen for the keys. The palette is loaded when it is asked for first. */
export function setUpShortcuts() {
  byId("palette-button").addEventListener("click", () => open("showPalette"));
  document.addEventListener("keydown", (event) => {
    const isPlain = !event.ctrlKey && !event.metaKey && !event.altKey && !event.isComposing && !event.defaultPrevented;
    const field = event.target.closest?.(TYPING); // one of a dialog that was just closed is not shown any more
    if (!isPlain || !keysAreOn() || field?.getClientRects().length || document.querySelector("dialog[open]")) return;
    const follows = event.timeStamp - leader < LEADER_MS;
    leader = event.key === "g" && !follows ? event.timeStamp : 0;
    const link = follows ? pages().find(([letter]) => letter === event.key)?.[1] : undefined;
    const name = { "/": "showPalette", "?": "showShortcuts" }[event.key];
    if (link) link.click();
    else if (name) { event.preventDefault(); open(name); }
  });
}

async function open(name) {
  (await import("./palette.js"))[name]();
}
