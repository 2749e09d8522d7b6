/** What every page has: the line of what is served, the key of the tab, the scheme, and one shape for problems. */

import { Problem, get, key, listAll, onConnection, untilAnswered } from "./api.js";
import { emptyState, keepAgesRight, moment } from "./components/states.js";
import { watchTables } from "./components/tables.js";
import { byId, element, fill, userText } from "./dom.js";
import { setUpShortcuts } from "./shortcuts.js";

export { dueMoment, moment } from "./components/states.js";

// ── problems ──────────────────────────────────────────────────────────────────────────────────────────────────────────

/** Return what a page shows to a reader without a key, or with one that allows too little: an invitation, for nothing is broken. */
export const keyInvitation = (sentence = "This service asks for a key. Enter the one that its operator gave you: it stays in this tab.", title = "This part needs a key") =>
  emptyState(title, userText(sentence), { label: "Enter a key", act: openKeyDialog });

/** Return the invitation for the first part of a page that needs a key, and a line for the others. */
function needsKey(place) {
  const isInvited = [...document.querySelectorAll("main .needs-key")].some((node) => !place?.contains(node));
  if (isInvited) return element("p", { class: "faint" }, "This part needs a key, too.");
  const box = keyInvitation();
  box.classList.add("needs-key");
  return box;
}

const asSentence = (text) => `${text.charAt(0).toUpperCase()}${text.slice(1)}${/[.!?]$/u.test(text) ? "" : "."}`;

/** Return a problem document as an element: what happened, what would help, and each place that is wrong. */
export function problemBox(error, place = null) {
  if (!(error instanceof Problem)) {
    return element("div", { class: "notice bad" }, element("p", {}, `This page has a fault: ${error?.message ?? error}`),
      element("p", {}, "Load it again; if that does not help, tell the operator of this server."));
  }
  const { document } = error;
  if (document.code === "no_key") return needsKey(place);
  if (document.scope) return keyInvitation([document.detail, document.remedy].filter(Boolean).map(asSentence).join(" "), "This key does not allow it");
  const places = (document.errors ?? []).map((fault) =>
    element("li", {}, element("code", {}, fault.field), " ", userText(fault.message)));
  return element("div", { class: "notice bad", dataset: { code: document.code } },
    element("p", {}, element("strong", {}, userText(document.title)), ": ", userText(document.detail)),
    document.remedy && element("p", {}, "What helps: ", userText(document.remedy)),
    places.length > 1 && element("ul", {}, places),
    document.request_id && element("p", { class: "faint" }, "Request ", element("code", {}, document.request_id), ", as in the server's log"));
}

/** Show a problem in a place, or clear it with null. */
export function showProblem(place, error) {
  if (error === null) fill(place);
  else if (error.name !== "AbortError") fill(place, problemBox(error, place));
}

/** Return a paragraph for a list without rows, which says what to do next. */
export const empty = (...content) => element("div", { class: "empty" }, ...content);

// ── key ───────────────────────────────────────────────────────────────────────────────────────────────────────────────

/** Let the reader enter a key. */
export function openKeyDialog() {
  byId("key-input").value = "";
  fill(byId("key-problem"));
  byId("key-state").textContent = key.get() ? `In use: ${key.get().slice(0, 19)}…` : "";
  byId("key-forget").hidden = !key.get();
  byId("key-dialog").showModal();
}

function setUpKey() {
  byId("key-button").addEventListener("click", openKeyDialog);
  byId("key-close").addEventListener("click", () => byId("key-dialog").close());
  byId("key-forget").addEventListener("click", () => { key.set(""); byId("key-dialog").close(); });
  byId("key-form").addEventListener("submit", async (event) => {
    event.preventDefault();
    const before = key.get(), token = byId("key-input").value.trim();
    if (!token) return;
    sessionStorage.setItem("refaug.key", token);
    try {
      await get("/v1/key");
    } catch (error) {
      if (before) sessionStorage.setItem("refaug.key", before);
      else sessionStorage.removeItem("refaug.key");
      if (error instanceof Problem && error.status === 401) fill(byId("key-problem"), element("p", { class: "bad" }, userText([error.document.detail, error.document.remedy].filter(Boolean).map(asSentence).join(" "))));
      else showProblem(byId("key-problem"), error);
      byId("key-input").select();
      return;
    }
    key.set(token);
    byId("key-dialog").close();
  });
}

// ── what is served ────────────────────────────────────────────────────────────────────────────────────────────────────

const asking = new Map(); // answers to come, by key: the frame and its page ask at the same time

/** Return what the key of this tab allows, or null where it allows nothing. */
export function ownKey() {
  const token = key.get();
  if (!asking.has(token)) asking.set(token, get("/v1/key").catch((error) => (error instanceof Problem && error.status === 401 ? null : Promise.reject(error))).finally(() => asking.delete(token)));
  return asking.get(token);
}

export const allows = (own, scope) => own !== null && (own.scopes.includes(scope) || own.scopes.includes("admin"));

async function showServed() {
  const place = byId("served");
  const [health, ready, indexes] = await Promise.all([
    get("/healthz"),
    get("/readyz").catch((error) => (error.code === "not_ready" ? { versions: {}, missing: error.document.missing } : Promise.reject(error))),
    ownKey().then((own) => (allows(own, "read") ? listAll("/v1/artefacts/index", "artefacts", 200) : [])).catch(() => []),
  ]);
  const parts = [element("span", {}, `refaug ${health.version}`)];
  for (const [kind, named] of Object.entries(ready.versions)) {
    for (const [name, version] of Object.entries(named)) {
      const made = kind === "index" ? indexes.find((index) => index.name === name)?.published?.created : null;
      parts.push(element("span", {}, `${kind} `, element("b", {}, `${name}@${version}`), made ? [" ", moment(made)] : ""));
    }
  }
  if (ready.missing) parts.push(element("span", { class: "warn" }, `not ready yet: ${ready.missing.join(", ")}`));
  else if (!Object.keys(ready.versions).length) parts.push(element("span", {}, "no index and no rater are published yet"));
  for (const what of Object.keys(ready.troubles ?? {})) parts.push(element("span", { class: "bad" }, `${what} cannot be opened`));
  fill(place, parts);
}

// ── scheme, connection ────────────────────────────────────────────────────────────────────────────────────────────────

const SCHEMES = ["light dark", "light", "dark"];
const SCHEME_NAMES = { "light dark": "System", light: "Light", dark: "Dark" };

function setUpScheme() {
  const button = byId("scheme-button");
  const show = (scheme) => {
    document.documentElement.dataset.scheme = scheme;
    button.textContent = SCHEME_NAMES[scheme];
    button.setAttribute("aria-label", `Colours: ${SCHEME_NAMES[scheme]}`);
  };
  const kept = localStorage.getItem("refaug.scheme");
  show(SCHEMES.includes(kept) ? kept : SCHEMES[0]);
  button.addEventListener("click", () => {
    const next = SCHEMES[(SCHEMES.indexOf(document.documentElement.dataset.scheme) + 1) % SCHEMES.length];
    localStorage.setItem("refaug.scheme", next);
    show(next);
  });
}

function setUpConnection(reload) {
  const notice = byId("connection");
  onConnection((isThere) => {
    notice.hidden = isThere;
    notice.textContent = isThere ? "" : "The connection to the service is lost. This page tries again by itself and goes on when it is back.";
    if (isThere) reload();
    else untilAnswered(() => get("/healthz"));
  });
}

/** Set up the frame, and call `load` now, when the key changes, and when a lost connection is back. */
export function start(load) {
  watchTables(document.body);
  keepAgesRight();
  document.querySelector(".site nav [aria-current]")?.scrollIntoView({ block: "nearest", inline: "nearest" });
  const reload = () => { showServed().catch(() => undefined); return load(); };
  setUpKey();
  setUpScheme();
  setUpShortcuts();
  setUpConnection(reload);
  key.onChange(reload);
  return reload();
}

/** Copy a text; where the browser does not allow that, it can be selected where it is shown. */
export async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return false;
  }
}

