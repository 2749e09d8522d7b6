/** The command palette and the list of shortcuts: every page, part, button and open job of a page by its name. */

import { byId, element, fill, printable } from "./dom.js";
import { SHORTCUTS, keysAreOn, switchKeys } from "./shortcut_list.js";

const SHOWN = 12;
let commands = [], matches = [], active = 0;

// ── commands ──────────────────────────────────────────────────────────────────────────────────────────────────────────

const isShown = (node) => node.getClientRects().length > 0 && !node.disabled;

/** Return what can be done on this page now: `{label, kind, run}`. */
function commandsOfPage() {
  const links = [...document.querySelectorAll("header nav a")].map((link) => ({ label: link.textContent, kind: "page", about: link.title, run: () => link.click() }));
  const parts = [...document.querySelectorAll("main h2")].filter(isShown).map((heading) => ({ label: heading.textContent, kind: "part of this page", run: () => showPart(heading) }));
  const buttons = [...document.querySelectorAll("main button[id], header .tools button[id]")].filter((button) => isShown(button) && button.id !== "palette-button")
    .map((button) => ({ label: button.getAttribute("aria-label") ?? button.textContent, kind: "do", about: button.title, run: () => { button.focus(); button.click(); } }));
  const jobs = [...document.querySelectorAll("#jobs tbody tr")].map((row) => ({ label: `Job ${row.querySelector("a").textContent}, ${row.querySelector(".badge").textContent}, ${row.children[2].textContent}`, kind: "open", run: () => row.querySelector("a").click() }));
  const help = { label: "Shortcuts", kind: "do", about: "every key that these pages know", run: showShortcuts };
  return [...links, ...buttons, ...parts, ...jobs, help].filter((command) => command.label);
}

function showPart(heading) {
  const details = heading.closest("details");
  if (details) details.open = true;
  heading.tabIndex = -1;
  heading.focus({ preventScroll: true });
  heading.scrollIntoView({ block: "start" });
}

/** Return the commands with all of the words, those that begin with the first one first. */
function matching(text) {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  const found = commands.filter(({ label, kind, about = "" }) => {
    const all = `${label} ${kind} ${about}`.toLowerCase();
    return words.every((word) => all.includes(word));
  });
  const rank = ({ label }) => (words.length && label.toLowerCase().startsWith(words[0]) ? 0 : 1);
  return found.sort((first, second) => rank(first) - rank(second)).slice(0, SHOWN);
}

// ── dialogs ───────────────────────────────────────────────────────────────────────────────────────────────────────────

/** Return a dialog of this name, made once; the Tab key stays inside, and closing gives the focus back. */
function dialogOf(id, title, build) {
  const there = byId(id);
  if (there) return there;
  const dialog = element("dialog", { id, "aria-labelledby": `${id}-title` }, element("h2", { id: `${id}-title` }, title), build());
  dialog.addEventListener("keydown", (event) => { if (event.key === "Tab") keepInside(dialog, event); });
  dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); }); // beside it
  document.body.append(dialog);
  return dialog;
}

function keepInside(dialog, event) {
  const stops = [...dialog.querySelectorAll("input, button")].filter(isShown);
  const end = event.shiftKey ? stops[0] : stops.at(-1);
  if (document.activeElement !== end) return;
  event.preventDefault();
  (event.shiftKey ? stops.at(-1) : stops[0]).focus();
}

/** Open the palette. */
export function showPalette() {
  commands = commandsOfPage();
  const dialog = dialogOf("palette", "Go to, or do", () => [
    element("input", {
      id: "palette-input", type: "text", role: "combobox", autocomplete: "off", spellcheck: "false", placeholder: "a page, a part of it, a button, a job …",
      "aria-labelledby": "palette-title", "aria-controls": "palette-list", "aria-expanded": "true", "aria-autocomplete": "list",
      oninput: () => { active = 0; draw(); }, onkeydown: move,
    }),
    element("ul", { id: "palette-list", role: "listbox", class: "plain", "aria-labelledby": "palette-title" }),
    element("p", { id: "palette-state", class: "faint", role: "status" }),
  ]);
  byId("palette-input").value = "";
  active = 0;
  draw();
  dialog.showModal();
  byId("palette-input").focus();
}

function draw() {
  matches = matching(byId("palette-input").value);
  active = Math.min(active, Math.max(0, matches.length - 1));
  fill(byId("palette-list"), matches.map((command, place) => element("li", {
    id: `palette-${place}`, role: "option", "aria-selected": String(place === active), onclick: () => run(place),
  }, element("span", {}, printable(command.label)), element("span", { class: "faint" }, command.kind))));
  const current = byId(`palette-${active}`), input = byId("palette-input");
  if (current) { input.setAttribute("aria-activedescendant", current.id); current.scrollIntoView({ block: "nearest" }); } else input.removeAttribute("aria-activedescendant");
  byId("palette-state").textContent = matches.length ? "" : "Nothing here is called that.";
}

function move(event) {
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (step && matches.length) { active = (active + step + matches.length) % matches.length; draw(); event.preventDefault(); }
  if (event.key === "Enter" && !event.isComposing) { event.preventDefault(); run(active); }
}

function run(place) {
  const command = matches[place];
  if (!command) return;
  byId("palette").close();
  command.run();
}

/** Open the list of shortcuts. */
export function showShortcuts() {
  const dialog = dialogOf("shortcuts", "Shortcuts", () => [
    element("dl", { class: "facts" }, SHORTCUTS().map(([keys, what]) => [element("dt", {}, keys.map((name) => [element("kbd", {}, name), " "])), element("dd", {}, what)])),
    element("p", { class: "faint" }, "While you type into a field, keys are letters."),
    element("label", { class: "inline" }, element("input", { type: "checkbox", id: "shortcuts-on", onchange: (event) => switchKeys(event.target.checked) }), "Use these keys; the button “Go to” opens the palette without them"),
    element("div", { class: "row" }, element("button", { type: "button", id: "shortcuts-close", onclick: () => byId("shortcuts").close() }, "Close")),
  ]);
  byId("shortcuts-on").checked = keysAreOn();
  dialog.showModal();
  byId("shortcuts-close").focus();
}
