/** Tabs: one part of a page at a time; the address names it as `tab`, so that a link and a reload lead to the same part. */

import { element, fill } from "../dom.js";

/** The fragment of the address with `tab=NAME` in it; the first part needs no name. */
const inFragment = {
  read: () => new URLSearchParams(location.hash.slice(1)).get("tab"),
  keep: (name, isFirst) => {
    const parts = new URLSearchParams(location.hash.slice(1));
    if (isFirst) parts.delete("tab");
    else parts.set("tab", name);
    history.replaceState(null, "", `#${parts}`); // no event: nothing but the tab has changed
  },
};

/**
 * Return tabs as an element; `parts` are `{name, title, draw, count}`. `draw(panel)` fills a part when it is shown for the
 * first time, and `node.show(name)` shows one; `node.redraw(name)` draws a part anew, at once if it is in sight. A page
 * with addresses of its own passes `address`: `read()` returns the name of a part or null, `keep(name, isFirst)` writes it.
 */
export function tabs(label, parts, address = inFragment) {
  const drawn = new Set();
  const buttons = parts.map((part) => element("button", { type: "button", role: "tab", id: `tab-${part.name}`, "aria-controls": `panel-${part.name}`, onclick: () => show(part.name) },
    part.title, typeof part.count === "number" && element("span", { class: "count faint" }, part.count)));
  const panels = parts.map((part) => element("div", { role: "tabpanel", id: `panel-${part.name}`, "aria-labelledby": `tab-${part.name}`, hidden: true }));
  const list = element("div", { role: "tablist", class: "tab-list", "aria-label": label, onkeydown: (event) => {
    const at = buttons.indexOf(document.activeElement), last = buttons.length - 1;
    const next = { ArrowRight: at === last ? 0 : at + 1, ArrowLeft: at === 0 ? last : at - 1, Home: 0, End: last }[event.key];
    if (at < 0 || next === undefined) return;
    event.preventDefault();
    show(parts[next].name);
    buttons[next].focus();
  } }, buttons);
  let current = "";

  function show(name, { isKept = true } = {}) {
    const at = Math.max(0, parts.findIndex((part) => part.name === name));
    current = parts[at].name;
    buttons.forEach((button, place) => {
      button.setAttribute("aria-selected", String(place === at));
      button.tabIndex = place === at ? 0 : -1;
      panels[place].hidden = place !== at;
    });
    buttons[at].scrollIntoView({ block: "nearest", inline: "nearest" });
    if (isKept) address.keep(current, at === 0);
    draw(at);
  }

  function draw(at) {
    if (drawn.has(current)) return;
    drawn.add(current);
    parts[at].draw(panels[at]);
  }

  function redraw(name) {
    drawn.delete(name);
    const at = parts.findIndex((part) => part.name === name);
    if (name === current) draw(at);
    else fill(panels[at]);
  }

  const follow = () => {
    if (!list.isConnected) removeEventListener("hashchange", follow);
    else if ((address.read() ?? parts[0].name) !== current) show(address.read(), { isKept: false });
  };
  show(address.read() ?? parts[0].name, { isKept: false });
  addEventListener("hashchange", follow);
  return Object.assign(element("div", { class: "tabs" }, list, panels), { show, redraw });
}
