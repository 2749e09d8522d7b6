/** The public API: requests with the key of this tab, problems as errors, events of jobs. */

const KEY = "refaug.key";
const root = document.body.dataset.root;
const listeners = new Set();

/** An answer that is a problem document, or no answer at all. */
export class Problem extends Error {
  constructor(document, status) {
    super(document.detail);
    this.document = document;
    this.status = status;
    this.code = document.code;
  }

  /** Whether the same request may succeed in a moment. */
  get isPassing() {
    return this.status === 0 || this.status === 503;
  }
}

export const address = (path) => `${root}${path}`;

/** The key of this tab; it is kept in the tab's session and nowhere else. */
export const key = {
  get: () => sessionStorage.getItem(KEY) ?? "",
  set(token) {
    if (token) sessionStorage.setItem(KEY, token);
    else sessionStorage.removeItem(KEY);
    for (const listener of listeners) listener();
  },
  onChange: (listener) => listeners.add(listener),
};

function headersFor(more = {}) {
  const token = key.get();
  return token ? { Authorization: `Bearer ${token}`, ...more } : more;
}

const LOST = {
  code: "no_answer",
  title: "The service does not answer",
  detail: "the connection to the service is lost",
  remedy: "it is tried again by itself; if that takes long, ask the operator whether the service runs",
};

let connection = true;
const watchers = new Set();
/** Be told when the connection is lost, and when it is back. */
export const onConnection = (watcher) => watchers.add(watcher);
function setConnection(isThere) {
  if (isThere === connection) return;
  connection = isThere;
  for (const watcher of watchers) watcher(isThere);
}

async function send(path, options) {
  let response;
  try {
    response = await fetch(address(path), { credentials: "omit", cache: "no-store", ...options });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    setConnection(false);
    throw new Problem(LOST, 0);
  }
  setConnection(true);
  if (!response.ok) throw await problemOf(response);
  return response;
}

const problemOf = async (response) => problemFrom(await response.text(), response.status);

function problemFrom(text, status) {
  try {
    const document = JSON.parse(text);
    if (typeof document.detail === "string") return new Problem(document, status);
  } catch { /* not a problem document: something between here and the service has answered */ }
  return new Problem(
    {
      code: "bad_answer",
      title: "Not an answer of the service",
      detail: `status ${status}, and no problem document`,
      remedy: "look at the proxy in front of the service",
    },
    status,
  );
}

/** Send what a reader has written, and return the answer with whatever status. */
export const ask = (path, { headers, takesKey, ...options }) =>
  fetch(address(path), { credentials: "omit", cache: "no-store", ...options, headers: takesKey ? headersFor(headers) : headers });

/** Return what a route answers as JSON. */
export async function request(method, path, { body, signal, headers } = {}) {
  const sent = body === undefined ? headersFor(headers) : headersFor({ "Content-Type": "application/json", ...headers });
  const options = { method, signal, headers: sent, body: body === undefined ? undefined : JSON.stringify(body) };
  return (await send(path, options)).json();
}

export const get = (path, options) => request("GET", path, options);
export const post = (path, body, options) => request("POST", path, { ...options, body });
export const put = (path, body, options) => request("PUT", path, { ...options, body });
export const remove = (path, options) => request("DELETE", path, options);

/** Send a file as it is; `onProgress(share)` hears how much of it is sent, and the signal ends it with an AbortError. */
export function sendFile(path, file, { onProgress, signal }) {
  return new Promise((resolve, reject) => {
    const sending = new XMLHttpRequest(); // fetch does not say how much is sent
    const stop = () => sending.abort();
    const end = (settle, outcome) => { signal.removeEventListener("abort", stop); settle(outcome); };
    sending.open("POST", address(path));
    for (const [name, text] of Object.entries(headersFor({ "Content-Type": "application/octet-stream" }))) sending.setRequestHeader(name, text);
    sending.upload.addEventListener("progress", (event) => { if (event.lengthComputable) onProgress(event.loaded / event.total); });
    sending.addEventListener("abort", () => end(reject, new DOMException("stopped", "AbortError")));
    sending.addEventListener("error", () => { setConnection(false); end(reject, new Problem({ ...LOST, remedy: "send the file again when the connection is back" }, 0)); });
    sending.addEventListener("load", () => {
      setConnection(true);
      if (sending.status < 300) end(resolve, JSON.parse(sending.responseText));
      else end(reject, problemFrom(sending.responseText, sending.status));
    });
    signal.addEventListener("abort", stop);
    sending.send(file);
  });
}

/** Return a file that a route answers, with the name that the service has for it. */
export async function downloadFile(path) {
  const response = await send(path, { headers: headersFor() });
  const [, name] = /filename="([^"]+)"/.exec(response.headers.get("Content-Disposition") ?? "") ?? [];
  return { content: await response.blob(), name };
}

/** Return a file that a route answers, as text. */
export async function download(path) {
  return (await send(path, { headers: headersFor() })).text();
}

/** Return the rows of all pages of a list, at most `most`. */
export async function listAll(path, name, most = 1_000) {
  const rows = [];
  let after = null;
  do {
    const query = `${path.includes("?") ? "&" : "?"}limit=200${after === null ? "" : `&after=${encodeURIComponent(after)}`}`;
    const page = await get(`${path}${query}`);
    rows.push(...page[name]);
    after = page.next;
  } while (after !== null && rows.length < most);
  return rows;
}

/** Wait, or until the signal says to stop. */
export const wait = (milliseconds, signal) =>
  new Promise((resolve) => {
    const timer = setTimeout(resolve, milliseconds);
    signal?.addEventListener("abort", () => { clearTimeout(timer); resolve(); }, { once: true });
  });

/** The states in which a job has ended. */
export const ENDED = new Set(["done", "failed", "cancelled"]);

/**
 * Yield the events of a job until it ends: `{id, type, data}`. A lost stream is opened again after the last event, so
 * that none is missed, whatever becomes of the server meanwhile.
 */
export function events(job, { signal, after = 0 } = {}) {
  return follow(`/v1/jobs/${job}/events`, {
    signal, after, isLast: (event) => event.type === "state" && ENDED.has(event.data.state),
    isOver: async () => (await get(`/v1/jobs/${job}`, { signal })).finished !== null,
  });
}

/** Yield the progress of a study whenever it changes, until the study is closed. */
export function studyEvents(study, { signal } = {}) {
  return follow(`/v1/studies/${study}/events`, {
    signal, after: 0, isLast: (event) => event.data.state === "closed", isOver: async () => (await get(`/v1/studies/${study}`, { signal })).state === "closed",
  });
}

async function* follow(path, { signal, after, isLast, isOver }) {
  let last = String(after), pause = 250;
  while (!signal?.aborted) {
    try {
      const headers = headersFor({ Accept: "text/event-stream", "Last-Event-ID": last });
      const response = await send(path, { headers, signal });
      pause = 250;
      let isNew = false, hasEnded = false;
      for await (const event of parse(response.body)) {
        last = event.place;
        isNew = true;
        hasEnded = isLast(event);
        yield event;
      }
      // A stream may also end because the server does; then what came after the last event is still to come.
      if (hasEnded || (!isNew && (await isOver()))) return;
    } catch (error) {
      if (error.name === "AbortError") return;
      if (error instanceof Problem && !error.isPassing) throw error;
      if (!(error instanceof Problem)) setConnection(false);
    }
    await wait(pause, signal);
    pause = Math.min(5_000, pause * 2);
  }
}

async function* parse(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let buffer = "";
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      buffer += value;
      const blocks = buffer.split("\n\n");
      buffer = blocks.pop();
      for (const block of blocks) {
        const event = parseEvent(block);
        if (event !== null) yield event;
      }
    }
  } finally {
    reader.cancel().catch(() => undefined);
  }
}

function parseEvent(block) {
  const fields = {};
  for (const line of block.split("\n")) {
    const at = line.indexOf(":");
    if (at > 0) fields[line.slice(0, at)] = line.slice(at + 1).replace(/^ /, "");
  }
  if (fields.data === undefined) return null;
  return { id: Number(fields.id), place: fields.id, type: fields.event, data: JSON.parse(fields.data) };
}

/** Call `action` again while it meets a passing problem; other errors go to the caller. */
export async function untilAnswered(action, { signal } = {}) {
  for (let pause = 500; ; pause = Math.min(8_000, pause * 2)) {
    try {
      return await action();
    } catch (error) {
      if (!(error instanceof Problem) || !error.isPassing || signal?.aborted) throw error;
    }
    await wait(pause, signal);
  }
}
