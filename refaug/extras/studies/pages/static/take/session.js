/**
 * The way to the study: every act of the participant has an id, lies in the page's storage until the service has
 * acknowledged it, and is sent again after a lost connection. The same id twice counts once.
 */

const root = document.body.dataset.root ?? "";
const AWAY = new Set([408, 425, 429, 500, 502, 503, 504]);
const PAUSES_MS = [300, 600, 1_200, 2_500, 5_000];
const TIMEOUT_MS = 60_000, WAIT_S = 20;
const TRIES_OF_500 = 6;

/** An answer that says no, and why. */
export class Refusal extends Error {
  constructor(document, status) {
    super(document.detail ?? document.title ?? "");
    this.document = document;
    this.status = status;
    this.code = document.code ?? "";
  }
}

class Away extends Error {}

// ── storage ───────────────────────────────────────────────────────────────────────────────────────────────────────────

const memory = new Map(); // for browsers that refuse storage
let tag = "none";

function write(key, text) {
  memory.set(key, text);
  try {
    localStorage.setItem(key, text);
  } catch { /* full or forbidden: then it lasts as long as the page does */ }
}

function forget(key) {
  memory.delete(key);
  try {
    localStorage.removeItem(key);
  } catch { /* forbidden */ }
}

function read(key) {
  try {
    return localStorage.getItem(key) ?? memory.get(key) ?? null;
  } catch {
    return memory.get(key) ?? null;
  }
}

function keysWith(prefix) {
  const keys = new Set(memory.keys());
  try {
    for (const key of Object.keys(localStorage)) keys.add(key);
  } catch { /* forbidden */ }
  return [...keys].filter((key) => key.startsWith(prefix)).sort();
}

/** What is typed and not sent yet, by the task that it belongs to. */
export const drafts = {
  get: (name) => read(`refaug.take.${tag}.draft.${name}`),
  set: (name, text) => write(`refaug.take.${tag}.draft.${name}`, text),
  drop: (name) => forget(`refaug.take.${tag}.draft.${name}`),
  keepOnly: (task) => keysWith(`refaug.take.${tag}.draft.`).filter((key) => !key.startsWith(`refaug.take.${tag}.draft.${task}/`)).forEach(forget),
};

/** Return a short name for a token that does not give the token away. */
function nameOf(token) {
  let first = 0xdeadbeef, second = 0x41c6ce57;
  for (const character of token) {
    const code = character.codePointAt(0);
    first = Math.imul(first ^ code, 2_654_435_761);
    second = Math.imul(second ^ code, 1_597_334_677);
  }
  return ((first >>> 0).toString(36) + (second >>> 0).toString(36));
}

// ── requests ──────────────────────────────────────────────────────────────────────────────────────────────────────────

const wait = (milliseconds) => new Promise((resolve) => { setTimeout(resolve, milliseconds); });
export const newAction = () => [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("");

async function once(method, path, body, action) {
  const headers = { Accept: "application/json" };
  if (body !== undefined) headers["Content-Type"] = "application/json";
  if (action) headers["X-Action"] = action;
  let response, text;
  try {
    response = await fetch(`${root}/v1/take/${path}`, {
      method, headers, body, credentials: "same-origin", cache: "no-store", signal: AbortSignal.timeout(TIMEOUT_MS),
    });
    text = await response.text();
  } catch {
    throw new Away("no answer");
  }
  if (AWAY.has(response.status)) throw Object.assign(new Away("not now"), { status: response.status, document: parsed(text) });
  const document = parsed(text);
  if (!response.ok) throw new Refusal(document ?? { detail: `status ${response.status}` }, response.status);
  if (document === null) throw new Away("not an answer of the study");
  return document;
}

function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

let isThere = true;
const watchers = new Set();
export const onConnection = (watcher) => watchers.add(watcher);
function setConnection(now) {
  if (now === isThere) return;
  isThere = now;
  for (const watcher of watchers) watcher(now);
}

/** Ask until there is an answer, yes or no. */
async function ask(method, path, body, action) {
  let faults = 0;
  for (let tries = 0; ; tries += 1) {
    try {
      const answer = await once(method, path, body, action);
      setConnection(true);
      return answer;
    } catch (error) {
      if (!(error instanceof Away)) { setConnection(true); throw error; }
      faults += error.status === 500 ? 1 : 0;
      if (faults >= TRIES_OF_500) throw new Refusal(error.document ?? { detail: "status 500" }, 500);
      if (tries > 0 || error.status !== 429) setConnection(false);
    }
    await Promise.race([wait(PAUSES_MS[Math.min(tries, PAUSES_MS.length - 1)]), new Promise((resolve) => { window.addEventListener("online", resolve, { once: true }); })]);
  }
}

// ── state ─────────────────────────────────────────────────────────────────────────────────────────────────────────────

let begun = 0, shown = 0, show = () => undefined;

/** Draw a state unless a younger one is drawn already. */
function arrived(number, state) {
  if (number <= shown) return;
  shown = number;
  show(state);
}

/** Ask how things stand, and draw it; with `isWaiting` the answer comes when a reply is there, or after a while. */
export async function refresh({ isWaiting = false } = {}) {
  const number = ++begun;
  const state = await ask("GET", isWaiting ? `state?wait=${WAIT_S}` : "state");
  if (!isBusy()) arrived(number, state); // an act that is on its way answers with a younger state
  return state;
}

// ── acts ──────────────────────────────────────────────────────────────────────────────────────────────────────────────

const waiting = [];
let isSending = false, counter = 0;

export const isBusy = () => isSending || waiting.length > 0;

/** Do something: it is stored here at once, sent when its turn comes, and acknowledged: `{done, state}`. */
export function act(path, body = {}) {
  const id = newAction(), place = `refaug.take.${tag}.out.${String(Date.now()).padStart(15, "0")}.${String(counter += 1).padStart(6, "0")}.${id}`;
  const text = JSON.stringify(body);
  write(place, JSON.stringify({ id, path, text }));
  return new Promise((resolve, reject) => {
    waiting.push({ place, id, path, text, resolve, reject });
    sendAll();
  });
}

async function sendAll() {
  if (isSending) return;
  isSending = true;
  while (waiting.length) {
    const entry = waiting[0], number = ++begun;
    try {
      const answer = await ask("POST", entry.path, entry.text, entry.id);
      forget(entry.place);
      waiting.shift();
      isSending = waiting.length > 0;
      entry.resolve(answer);
      if (!waiting.length) arrived(number, answer.state);
    } catch (error) {
      forget(entry.place);
      waiting.shift();
      isSending = waiting.length > 0;
      entry.reject(error);
    }
  }
  isSending = false;
}

/** Send what an earlier visit could not send; what the study does not want any more is dropped. */
function takeUp() {
  const left = keysWith(`refaug.take.${tag}.out.`).map((place) => ({ place, ...parsed(read(place) ?? "null") })).filter((entry) => entry.id);
  return Promise.allSettled(left.map((entry) => new Promise((resolve, reject) => {
    waiting.push({ ...entry, resolve, reject });
    sendAll();
  })));
}

/**
 * Begin or resume: the token of the link stays in the part of the address that no server sees. At the start the address
 * becomes the one by which this participant goes on, here and on another device; the service shows it this once.
 */
export async function begin(draw) {
  show = draw;
  const token = decodeURIComponent(location.hash.slice(1)), number = ++begun;
  const first = token ? await ask("POST", "session", JSON.stringify(sessionBody(token)), sessionAction(token)) : await ask("GET", "state");
  if (token) forget(sessionKey(token)); // from here on the cookie says who this is
  tag = first.code;
  if (first.resume) history.replaceState(null, "", `${location.pathname}#${first.resume}`);
  if ((await takeUp()).length) await refresh();
  else arrived(number, first);
}

function sessionBody(token) {
  const { lang, ...external } = Object.fromEntries([...new URLSearchParams(location.search)].slice(0, 16));
  const language = lang ?? navigator.language?.split("-")[0];
  return { token, ...(language ? { language } : {}), ...(Object.keys(external).length ? { external } : {}) };
}

const sessionKey = (token) => `refaug.take.session.${nameOf(token)}`;

/** Return the id of the opening of a link: a page that asks again for a lost answer is the same participant. */
function sessionAction(token) {
  const key = sessionKey(token), id = read(key) ?? newAction();
  write(key, id);
  return id;
}

/** Return the link by which this participant goes on elsewhere, or null where this browser does not know it. */
export const resumeLink = () => (location.hash.startsWith("#r.") ? location.href : null);

/** Return all that is stored about the participant. */
export const ownData = () => ask("GET", "export");

/** Forget every draft of this link. */
export const forgetAll = () => keysWith(`refaug.take.${tag}.`).forEach(forget);
