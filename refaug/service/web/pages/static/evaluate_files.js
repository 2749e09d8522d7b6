/** The files of a new evaluation: sending them, what each holds, and what their columns hold. */

import { Problem, get, remove, sendFile, untilAnswered } from "./api.js";
import { byId, element, fill, userText } from "./dom.js";
import { bytes, count } from "./format.js";
import { moment, showProblem } from "./frame.js";

const FIELDS = {
  "": "not used", id: "the item’s name", utterance: "the utterance", turns: "turns of the dialogue", reference: "a gold reply", weight: "weight of the gold before it",
  system: "the system’s name", reply: "a reply", rating: "a rating", ratings: "several ratings", annotator: "who rated", scale: "scale of the ratings", dialogue: "the dialogue’s name", time: "a time",
};
const OF_SYSTEM = new Set(["reply", "rating", "ratings"]);
const ROLES = { replies: "replies of a system", references: "gold replies", utterances: "utterances", weights: "weights of the gold replies" };
const MOST_COLUMNS = 60, TRIES = 5; // columns that are listed; times that a file is sent while the connection is lost

/** The files of this page, what they hold, and the mapping where the reader has changed it. */
export const chosen = { files: [], map: null, shape: "", encoding: "" };
let onChange = () => undefined;

const isLines = () => chosen.files.length > 1 || chosen.files[0]?.upload.format === "lines";

/** Return the files as the routes name them, or a text that says what is missing. */
export function inputs() {
  if (!chosen.files.length) return "choose a file";
  const name = (file) => `upload:${file.upload.id}`;
  if (!isLines()) {
    return { items: name(chosen.files[0]), ...(chosen.map ? { map: chosen.map } : {}), ...(chosen.shape ? { shape: chosen.shape } : {}), ...(chosen.encoding ? { encoding: chosen.encoding } : {}) };
  }
  const table = chosen.files.find((file) => file.upload.format !== "lines");
  if (table) return `${table.upload.name} is a table or a file of items, which is read alone: remove the other files, or this one`;
  const of = (role) => chosen.files.filter((file) => file.role === role);
  if (!of("replies").length) return "say which file has the replies of a system";
  const systems = of("replies").map((file) => file.system.trim());
  if (systems.includes("")) return "give each system a name";
  if (new Set(systems).size < systems.length) return "give each system a name of its own";
  if (of("utterances").length > 1) return "there can be one file of utterances";
  if (!of("references").length && !of("utterances").length) return "add a file of gold replies, or of utterances: replies alone cannot be scored";
  if (of("weights").length && of("weights").length !== of("references").length) return "there must be a file of weights for each file of gold replies, or none";
  const [utterances] = of("utterances");
  return {
    replies: Object.fromEntries(of("replies").map((file) => [file.system.trim(), name(file)])),
    ...(of("references").length ? { references: of("references").map(name) } : {}),
    ...(of("weights").length ? { weights: of("weights").map(name) } : {}),
    ...(utterances ? { utterances: name(utterances) } : {}),
  };
}

// ── sending ───────────────────────────────────────────────────────────────────────────────────────────────────────────

function guess(name) {
  if (/weight/i.test(name)) return "weights";
  if (/ref|gold|target|truth/i.test(name)) return "references";
  if (/utter|context|source|prompt|question|query|input/i.test(name)) return "utterances";
  return "replies";
}

function add(upload, local = null) {
  if (chosen.files.some((file) => file.upload.id === upload.id)) return;
  Object.assign(chosen, { map: null, shape: "" });
  chosen.files.push({ upload, local, role: guess(upload.name), system: upload.name.replace(/\.[^.]*$/, "").slice(0, 80) });
}

let earlierFiles = Promise.resolve();

/** Send files after those that are being sent. */
function send(files) {
  const sent = earlierFiles.then(() => sendAll(files));
  earlierFiles = sent.catch(() => undefined);
  return sent;
}

async function sendAll(files) {
  const place = byId("upload-state");
  showProblem(byId("upload-problem"), null);
  for (const file of files) {
    try {
      add(await sendOne(file, place), file);
    } catch (error) {
      const isStopped = error.name === "AbortError";
      fill(place, element("p", {}, userText(file.name), isStopped ? " was not sent: you have stopped it." : " was not taken:"));
      if (!isStopped) showProblem(byId("upload-problem"), error);
      showFiles();
      onChange();
      return;
    }
  }
  fill(place);
  showFiles();
  onChange();
  loadEarlier();
}

/** Send a file, from its beginning again where the connection was lost; an upload is there whole or not at all. */
async function sendOne(file, place) {
  const stopping = new AbortController(), { signal } = stopping;
  const stop = element("button", { type: "button", class: "small", id: "stop-sending", onclick: () => stopping.abort() }, "Stop sending");
  const path = `/v1/uploads?name=${encodeURIComponent(file.name.slice(0, 200) || "file")}`;
  for (let tries = 1; ; tries += 1) {
    const bar = element("progress", { max: 1, value: 0, "aria-label": "sent" });
    fill(place, element("p", { class: "row" }, element("span", {}, tries > 1 ? "Sending once more: " : "Sending ", userText(file.name), ` (${bytes(file.size)}) …`), stop), bar);
    try {
      return await sendFile(path, file, { onProgress: (share) => { bar.value = share; }, signal });
    } catch (error) {
      if (!(error instanceof Problem) || error.status !== 0 || tries === TRIES) throw error;
      await requireUnchanged(file);
      fill(place, element("p", { class: "row" }, element("span", {}, "The connection was lost while ", userText(file.name), " was sent. It is sent again by itself as soon as the service answers."), stop));
      await untilAnswered(() => get("/healthz", { signal }), { signal });
    }
  }
}

/** Refuse a file that was changed or removed while it was sent: browsers say no more of it than of a lost connection. */
async function requireUnchanged(file) {
  try {
    await file.slice(0, 1).arrayBuffer();
  } catch {
    throw new Problem({ code: "file_changed", title: "The file has changed", detail: "the file was changed or removed while it was sent", remedy: "choose it again when it is complete" }, 0);
  }
}

/** Show which files are chosen; several are line by line, and each says what it holds. */
export function showFiles() {
  if (!chosen.files.length) { fill(byId("files")); return; }
  const lines = isLines();
  fill(byId("files"), element("div", { class: "scroll" }, element("table", {},
    element("caption", { class: "visually-hidden" }, "Chosen files"),
    element("thead", {}, element("tr", {}, ["File", "Size", ...(lines ? ["It holds", "System"] : []), ""].map((name) => element("th", { scope: "col", class: name === "Size" ? "number" : null }, name || element("span", { class: "visually-hidden" }, "Acts"))))),
    element("tbody", {}, chosen.files.map((file, place) => fileRow(file, place, lines))))),
  lines && element("p", { class: "faint" }, "Line 7 of each file belongs to line 7 of the others. Add a file for each system, and one with gold replies."));
}

function fileRow(file, place, lines) {
  const cell = (name, ...content) => element("td", { dataset: { name } }, ...content);
  const role = element("select", { "aria-label": `What ${file.upload.name} holds`, onchange: () => { file.role = role.value; showFiles(); onChange(); } }, Object.entries(ROLES).map(([value, label]) => element("option", { value }, label)));
  role.value = file.role;
  const system = element("input", { "aria-label": `System of ${file.upload.name}`, value: file.system, maxlength: 200, autocomplete: "off", spellcheck: "false", onchange: () => { file.system = system.value; onChange(); } });
  return element("tr", {}, element("th", { scope: "row" }, userText(file.upload.name)), element("td", { class: "number", dataset: { name: "Size" } }, bytes(file.upload.bytes)),
    lines && [cell("It holds", role), cell("System", file.role === "replies" ? system : "–")],
    element("td", { class: "actions" }, element("button", { type: "button", class: "small", "aria-label": `Leave out ${file.upload.name}`, onclick: () => { chosen.files.splice(place, 1); Object.assign(chosen, { map: null, shape: "" }); showFiles(); onChange(); byId("file-input").focus(); } }, "Leave out")));
}

// ── files that were sent before ───────────────────────────────────────────────────────────────────────────────────────

/** Show the files that the service still has. */
export async function loadEarlier() {
  const { uploads, bytes: used, limit_bytes: limit, largest_bytes: largest } = await get("/v1/uploads");
  if (largest) byId("drop-help").textContent = `Items as JSON lines, a CSV or TSV table, or several text files with one text a line; at most ${bytes(largest)} each.`;
  const box = byId("earlier");
  box.hidden = !uploads.length;
  const use = (upload) => element("button", { type: "button", class: "small", "aria-label": `Use ${upload.name}`, onclick: () => { add(upload); showFiles(); onChange(); } }, "Use");
  const forget = (upload) => element("button", { type: "button", class: "small", "aria-label": `Remove ${upload.name}`, onclick: async () => {
    try {
      await remove(`/v1/uploads/${upload.id}`);
      chosen.files = chosen.files.filter((file) => file.upload.id !== upload.id);
      showFiles();
      onChange();
      await loadEarlier();
    } catch (error) {
      showProblem(byId("upload-problem"), error);
    }
  } }, "Remove");
  fill(box, element("summary", {}, `Files sent before (${count(uploads.length)}${limit ? `, ${bytes(used)} of ${bytes(limit)}` : ""})`),
    element("ul", { class: "plain earlier" }, uploads.slice(0, 100).map((upload) => element("li", { class: "row" }, userText(upload.name), element("span", { class: "faint" }, bytes(upload.bytes), ", ", moment(upload.created)), use(upload), forget(upload)))));
}

// ── columns ───────────────────────────────────────────────────────────────────────────────────────────────────────────

/** Show the form that says what each column holds; a change is tried at once. */
export function showMapping(table) {
  const place = byId("mapping");
  if (!table || isLines()) { fill(place); return; }
  const used = new Map(table.used.map((use) => [use.column, use]));
  const columns = [...new Set([...used.keys(), ...table.columns])].slice(0, Math.max(MOST_COLUMNS, used.size));
  const rows = columns.map((column) => columnRow(column, used.get(column) ?? { field: "", system: "" }, table));
  const change = () => {
    const now = rows.map((row) => row.read()).filter((row) => row.field);
    const listed = now.map((row) => `${row.field}${row.system ? `:${row.system}` : ""}=${row.column}`);
    // A recognised field that has no column any more is said to have none, or it would be recognised again.
    const without = [...new Set(table.used.map((use) => `${use.field}${use.system ? `:${use.system}` : ""}`))].filter((name) => !now.some((row) => `${row.field}${row.system ? `:${row.system}` : ""}` === name)).map((name) => `${name}=`);
    chosen.map = [...listed, ...without.filter((name) => !name.includes(":"))];
    onChange();
  };
  for (const row of rows) row.node.addEventListener("change", change);
  const shape = element("select", { id: "map-shape", onchange: () => { chosen.shape = shape.value; onChange(); } }, [["", "as recognised"], ["item", "an item with its replies"], ["reply", "one reply"], ["rating", "one rating"]].map(([value, label]) => element("option", { value }, label)));
  shape.value = chosen.shape;
  const encoding = element("select", { id: "map-encoding", onchange: () => { chosen.encoding = encoding.value; onChange(); } }, [["", "recognised"], "utf-8", "utf-16", "cp1252", "latin-1", "shift_jis", "gb18030"].map((name) => (Array.isArray(name) ? element("option", { value: name[0] }, name[1]) : element("option", {}, name))));
  encoding.value = chosen.encoding;
  const isOpen = place.querySelector("details")?.open ?? !table.used.some((use) => use.field === "reply");
  fill(place, element("details", { open: isOpen }, element("summary", {}, element("b", {}, "Columns"), `: ${table.used.length} of ${count(table.columns.length + (table.more_columns ?? 0))} are used; a row is ${{ item: "an item", reply: "a reply", rating: "a rating" }[table.shape] ?? table.shape}`),
    element("div", { class: "scroll" }, element("table", {}, element("caption", { class: "visually-hidden" }, "What each column holds"),
      element("thead", {}, element("tr", {}, ["Column", "It holds", "System"].map((name) => element("th", { scope: "col" }, name)))), element("tbody", {}, rows.map((row) => row.node)))),
    columns.length < table.columns.length + (table.more_columns ?? 0) && element("p", { class: "faint" }, `${count(table.columns.length + (table.more_columns ?? 0) - columns.length)} further columns are not listed.`),
    element("div", { class: "fields" }, element("div", { class: "field" }, element("label", { for: "map-shape" }, "A row is"), shape), element("div", { class: "field" }, element("label", { for: "map-encoding" }, "Encoding"), encoding)),
    chosen.map && element("button", { type: "button", class: "small", onclick: () => { chosen.map = null; onChange(); } }, "As recognised")));
}

const HEADER = 65_536; // bytes in which the names of columns are looked for

/** Return the fields of the first row of a table of texts. */
function firstRow(text, delimiter) {
  const fields = [""];
  let isQuoted = false;
  for (let at = 0; at < text.length; at += 1) {
    const character = text[at];
    if (character === '"') {
      if (isQuoted && text[at + 1] === '"') { fields[fields.length - 1] += '"'; at += 1; } else isQuoted = !isQuoted;
    } else if (!isQuoted && character === delimiter) fields.push("");
    else if (!isQuoted && (character === "\n" || character === "\r")) break;
    else fields[fields.length - 1] += character;
  }
  return fields;
}

/**
 * Let the reader say what the columns hold where refaug recognises too few of them to read anything: their names are
 * read from the beginning of the file, which is still on this machine.
 */
export async function showUnrecognised() {
  const [file] = chosen.files;
  if (isLines() || !file?.local || byId("mapping").firstChild) return;
  const text = (await file.local.slice(0, HEADER).text()).replace(/^\ufeff/, "").trimStart();
  let columns = [];
  if (text.startsWith("{")) {
    try { columns = Object.keys(JSON.parse(text.split("\n", 1)[0])); } catch { /* not JSON lines: the problem above says what it is */ }
  } else {
    const line = text.split(/[\r\n]/, 1)[0], delimiter = ["\t", ";", ","].sort((first, second) => line.split(second).length - line.split(first).length)[0];
    columns = firstRow(text, delimiter);
  }
  columns = [...new Set(columns.filter(Boolean))];
  if (columns.length > 1 && !columns.some((name) => /[\u0000-\u0008]|\ufffd/.test(name))) showMapping({ used: [], columns, shape: "item" });
}

function columnRow(column, use, table) {
  const holds = element("select", { "aria-label": `What the column ${column} holds` }, Object.entries(FIELDS).map(([value, label]) => element("option", { value }, label)));
  holds.value = use.field in FIELDS ? use.field : "";
  const system = element("input", { "aria-label": `System of the column ${column}`, value: use.system ?? "", maxlength: 200, autocomplete: "off", spellcheck: "false" });
  const hasSystem = () => OF_SYSTEM.has(holds.value) && table.shape === "item";
  const show = () => { system.hidden = !hasSystem(); if (hasSystem() && !system.value) system.value = column.slice(0, 80); };
  show();
  holds.addEventListener("change", show);
  const node = element("tr", {}, element("th", { scope: "row" }, userText(column)), element("td", { dataset: { name: "It holds" } }, holds), element("td", { dataset: { name: "System" } }, system));
  return { node, read: () => ({ column, field: holds.value, system: hasSystem() ? system.value.trim() : "" }) };
}

// ── choosing ──────────────────────────────────────────────────────────────────────────────────────────────────────────

/** Let files be dropped and chosen; `changed` hears that the files or what they hold are others. */
export function setUpFiles(changed) {
  onChange = changed;
  const drop = byId("drop"), input = byId("file-input");
  input.addEventListener("change", () => { send([...input.files]); input.value = ""; });
  for (const name of ["dragenter", "dragover"]) drop.addEventListener(name, (event) => { event.preventDefault(); drop.classList.add("over"); });
  for (const name of ["dragleave", "drop"]) drop.addEventListener(name, () => drop.classList.remove("over"));
  drop.addEventListener("drop", (event) => { event.preventDefault(); send([...event.dataTransfer.files]); });
  for (const name of ["dragover", "drop"]) window.addEventListener(name, (event) => event.preventDefault()); // beside the field: the browser would leave the page
}
