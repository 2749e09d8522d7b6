/** What came back: status, time and body, read as it comes where it is a stream. */

import { ask } from "../api.js";
import { element, fill, printable } from "../dom.js";
import { bytes, count } from "../format.js";
import { readable } from "./json.js";

const MOST_FORMATTED = 500_000; // characters of JSON that are put in lines
const MOST_SHOWN = 50_000; // characters at first
const MOST_READ = 20_000_000; // bytes

const isText = (kind) => /^text\/|json|xml|ndjson|^$/.test(kind);

/** Send a request into a place that shows its answer; resolves when all of it is there, or when it is stopped. */
export async function sendInto(place, path, options) {
  const status = element("p", { role: "status", class: "answer-status" }, "asking …"), body = element("div");
  fill(place, status, body);
  const begun = performance.now();
  const passed = () => `${count(Math.round(performance.now() - begun))} ms`;
  try {
    const response = await ask(path, options);
    const kind = response.headers.get("Content-Type") ?? "", isStream = kind.startsWith("text/event-stream");
    const shown = (size) => fill(status, element("strong", { class: response.ok ? "good" : "bad" }, `${response.status} ${response.statusText}`.trim()),
      ` · ${passed()} · ${bytes(size)}${kind ? ` · ${printable(kind)}` : ""}`);
    shown(0);
    const { text, size, isCut } = await read(response, isText(kind), isStream ? (soFar) => fill(body, pre(soFar)) : () => undefined);
    shown(size);
    fill(body, text === null ? element("p", { class: "faint" }, "This answer is not text; use the curl line to fetch it.") : text && pre(/json/.test(kind) && text.length < MOST_FORMATTED ? readable(text) : text),
      isCut && element("p", { class: "faint" }, `Only the first ${bytes(size)} were read; use the curl line to fetch all of it.`), headersPart(response));
  } catch (error) {
    fill(status, element("strong", { class: "bad" }, error.name === "AbortError" ? "stopped" : "no answer"), ` · ${passed()}`);
    if (error.name !== "AbortError") fill(body, element("p", {}, "The connection to the service is lost, or the browser does not send this: ", printable(error.message)));
  }
}

async function read(response, isText, onPart) {
  const reader = response.body?.getReader(), decoder = new TextDecoder();
  let text = "", size = 0, isCut = false;
  while (reader) {
    const { value, done } = await reader.read();
    if (done) break;
    size += value.byteLength;
    if (!isText) continue;
    text += decoder.decode(value, { stream: true });
    onPart(text);
    if (size > MOST_READ) { isCut = true; await reader.cancel(); break; }
  }
  return { text: isText ? text + decoder.decode() : null, size, isCut };
}

/** Return a text of a program, cut where it is very long. */
export function pre(text, label = "Body of the answer") {
  const node = element("pre", { tabindex: "0", role: "region", "aria-label": label }, printable(text.slice(0, MOST_SHOWN)));
  if (text.length > MOST_SHOWN) {
    node.append(element("button", { type: "button", class: "link", onclick: () => fill(node, printable(text)) }, `… show all ${count(text.length)} characters`));
  }
  return node;
}

const headersPart = (response) => element("details", { class: "answer-headers" }, element("summary", {}, "Headers"),
  element("dl", { class: "facts" }, [...response.headers].map(([name, value]) => [element("dt", {}, printable(name)), element("dd", {}, element("code", {}, printable(value)))])));
