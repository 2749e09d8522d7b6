/** The form of a route: what goes along, the line of curl, and the answer. Nothing is sent before its button is pressed. */

import { key } from "../api.js";
import { element, fill, printable } from "../dom.js";
import { copyText } from "../frame.js";
import { sendInto } from "./answer.js";
import { resolved } from "./document.js";
import { readable } from "./json.js";
import { curlOf, headersOf, pathOf } from "./request.js";
import { choices, typeOf } from "./schema.js";

const FORM_WIDTH = 48; // characters

/** Return the form; `document` is the OpenAPI document. */
export function tryForm(route, document) {
  const prefix = `${route.group}-${route.id}`, parameters = route.parameters.map((one, place) => parameterField(one, `${prefix}-${place}`, document));
  const body = bodyField(route, `${prefix}-body`, document);
  const line = element("pre", { tabindex: "0", role: "region", "aria-label": `curl ${route.method} ${printable(route.path)}` });
  const keyLine = element("p", { class: "faint" }), answer = element("div", { class: "answer" });
  const values = () => Object.fromEntries(parameters.map(({ name, input }) => [name, input.value]));
  const curl = () => curlOf(route, values(), { kind: body?.kind, body: body && !body.isFile ? body.input.value : null, hasKey: key.get() !== "" });
  const draw = () => {
    fill(line, curl());
    fill(keyLine, key.get() ? "It is sent with the key of this tab." : "This tab has no key; “Key” above takes one.");
  };
  const copy = element("button", { type: "button", onclick: async () => { copy.textContent = (await copyText(curl())) ? "Copied" : "Select it below"; } , onblur: () => { copy.textContent = "Copy as curl"; } }, "Copy as curl");
  const { send, stop, act } = sendButtons(route, (signal) => sendInto(answer, pathOf(route, values()), {
    method: route.method, takesKey: route.takesKey, signal, headers: headersOf(route, values(), body?.kind),
    body: body === null ? undefined : body.isFile ? body.input.files[0] : body.input.value,
  }));
  key.onChange(draw);
  draw();
  return element("form", { class: "try", autocomplete: "off", oninput: draw, onsubmit: (event) => { event.preventDefault(); act(); } },
    parameters.length > 0 && element("div", { class: "fields" }, parameters.map(({ node }) => node)), body?.node,
    route.takesKey && keyLine, element("div", { class: "row" }, send, stop, copy), line, answer);
}

/** Return the buttons; what takes something away is asked twice. */
function sendButtons(route, run) {
  const isAsked = route.method === "DELETE", label = isAsked ? "Send DELETE" : "Send";
  let running = new AbortController();
  const send = element("button", { type: "submit", class: isAsked ? "danger" : "primary", onblur: () => { send.dataset.asked = ""; send.textContent = label; } }, label);
  const stop = element("button", { type: "button", hidden: true, onclick: () => running.abort() }, "Stop");
  const act = async () => {
    if (isAsked && send.dataset.asked !== "yes") {
      send.dataset.asked = "yes";
      send.textContent = "Really send DELETE?";
      return;
    }
    running = new AbortController();
    send.disabled = true;
    stop.hidden = false;
    await run(running.signal);
    send.disabled = false;
    stop.hidden = true;
  };
  return { send, stop, act };
}

function parameterField(parameter, id, document) {
  const { name, in: place, required: isRequired = false, schema = {}, example } = parameter;
  const values = choices(schema, document), preset = Object.hasOwn(schema, "default") ? JSON.stringify(schema.default).replace(/^"|"$/g, "") : "";
  const label = element("label", { for: id }, printable(name), " ", element("span", { class: "faint" }, isRequired ? place : `${place}, optional`));
  const input = values
    ? element("select", { id, required: isRequired }, [...(isRequired ? [] : [""]), ...values].map((value) => element("option", { value }, value === "" ? preset && `${printable(preset)} unless given` : printable(value))))
    : element("input", { id, required: isRequired, spellcheck: "false", autocomplete: "off", placeholder: isRequired ? printable(typeOf(schema, document)) : printable(preset) });
  if (example !== undefined) input.value = String(example);
  return { name: `${place} ${name}`, input, node: element("div", { class: "field" }, label, input) };
}

function bodyField(route, id, document) {
  const [kind, content] = Object.entries(route.body?.content ?? {})[0] ?? [];
  if (kind === undefined) return null;
  if (!/json|^text\//.test(kind)) {
    const input = element("input", { id, type: "file", required: true });
    return { kind, input, isFile: true, node: [element("label", { for: id }, `Body, ${printable(kind)}`), input] };
  }
  const examples = Object.entries(content.examples ?? (content.example === undefined ? {} : { example: { value: content.example } }));
  const text = (place) => (examples[place] ? readable(JSON.stringify(resolved(examples[place][1], document).value), FORM_WIDTH) : "");
  const input = element("textarea", { id, rows: 4, spellcheck: "false", class: "mono" });
  input.value = text(0);
  const select = element("select", { id: `${id}-example`, onchange: () => { input.value = text(select.selectedIndex); } }, examples.map(([name]) => element("option", {}, printable(name))));
  return { kind, input, isFile: false, node: [
    examples.length > 1 && [element("label", { for: select.id }, "Example"), select],
    element("label", { for: id }, `Body, ${printable(kind)}`), input,
  ] };
}
