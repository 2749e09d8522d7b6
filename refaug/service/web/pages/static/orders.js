/** Forms of orders, made from the schemas of the API: a field for each property, a raw form for the rest. */

import { get, listAll, post } from "./api.js";
import { byId, element, fill, printable } from "./dom.js";
import { showProblem } from "./frame.js";
import { openJob } from "./jobs.js";

const NAMED = { index: ["artefacts/index", "artefacts"], rater: ["artefacts/rater", "artefacts"], log: ["logs", "logs"] }; // fields whose names are offered
let schemas = null, send = null;

async function loadSchemas() {
  if (schemas === null) {
    const document = await get("/openapi.json");
    const models = document.components.schemas;
    const kinds = {};
    for (const model of Object.values(models)) {
      const kind = model.properties?.kind?.const;
      if (kind) kinds[kind] = { ...model, models };
    }
    schemas = kinds;
  }
  return schemas;
}

const resolved = (schema, models) => {
  if (schema.$ref) return resolved(models[schema.$ref.split("/").at(-1)], models);
  const inner = schema.anyOf?.map((one) => resolved(one, models)).filter((one) => one.type !== "null");
  return inner?.length === 1 ? { ...inner[0], description: schema.description ?? inner[0].description, default: schema.default } : schema;
};

/** Open the dialog; `order` fills it, `extra` are further fields, and `deliver(order)` sends it. */
export async function openOrder({ title, button, order = {}, extra = null, deliver }) {
  const kinds = await loadSchemas();
  byId("order-title").textContent = title;
  byId("order-send").textContent = button;
  showProblem(byId("order-problem"), null);
  const fields = element("div", { class: "fields" });
  const kind = element("select", { id: "order-kind" }, Object.keys(kinds).sort().map((name) => element("option", {}, name)));
  kind.value = order.kind ?? "index-update";
  const about = element("p", { class: "faint" });
  const show = (values) => {
    about.textContent = printable(kinds[kind.value].description ?? "");
    buildFields(fields, kinds[kind.value], values);
  };
  kind.addEventListener("change", () => show({}));
  fill(byId("order-fields"), extra, element("label", { for: "order-kind" }, "What it does"), kind, about, fields, Object.keys(NAMED).map((name) => element("datalist", { id: `names-${name}` })));
  offerNames();
  show(order);
  send = async () => deliver({ kind: kind.value, ...readFields(fields) });
  byId("order").showModal();
}

/** Offer the names that exist; where they cannot be listed, the fields work without. */
function offerNames() {
  for (const [name, [path, rows]] of Object.entries(NAMED)) {
    listAll(`/v1/${path}`, rows).then((named) => fill(byId(`names-${name}`), named.map((row) => element("option", { value: row.name })))).catch(() => undefined);
  }
}

function buildFields(place, model, values) {
  const names = Object.keys(model.properties).filter((name) => name !== "kind");
  const required = new Set(model.required ?? []);
  const rows = (wanted) => names.filter((name) => required.has(name) === wanted).map((name) => fieldOf(name, resolved(model.properties[name], model.models), values[name], required.has(name), model.models));
  fill(place, rows(true), element("details", { class: "wide-field" }, element("summary", {}, "Further settings"), element("div", { class: "fields" }, rows(false))));
}

function fieldOf(name, schema, value, isRequired, models) {
  const id = `order-field-${name.replaceAll(".", "-")}`;
  const preset = value ?? schema.default;
  let control;
  if (schema.enum) {
    control = element("select", { id }, !isRequired && element("option", { value: "" }, "as by default"), schema.enum.map((choice) => element("option", {}, choice)));
    control.value = value ?? (isRequired ? schema.enum[0] : "");
  } else if (schema.type === "boolean") {
    control = element("select", { id }, element("option", { value: "" }, `as by default${preset === undefined ? "" : ` (${preset ? "yes" : "no"})`}`), element("option", { value: "true" }, "yes"), element("option", { value: "false" }, "no"));
    control.value = typeof value === "boolean" ? String(value) : "";
  } else if (schema.type === "integer" || schema.type === "number") {
    control = element("input", { id, type: "number", step: schema.type === "integer" ? 1 : "any", min: schema.minimum, max: schema.maximum, placeholder: schema.default ?? "" });
    control.value = value ?? "";
  } else if (schema.type === "string") {
    control = element("input", { id, autocomplete: "off", spellcheck: "false", placeholder: schema.default ?? "", list: NAMED[name] ? `names-${name}` : null });
    control.value = value ?? "";
  } else if (schema.type === "object" && schema.properties) {
    return groupOf(name, schema, value, models);
  } else {
    const isList = schema.type === "array" && resolved(schema.items ?? {}, models).type === "string";
    control = element("input", { id, autocomplete: "off", spellcheck: "false", placeholder: isList ? "with commas between them" : "JSON" });
    control.value = value === undefined || value === null ? "" : isList ? value.join(", ") : JSON.stringify(value);
    control.dataset.shape = isList ? "list" : "json";
  }
  control.dataset.field = name;
  control.dataset.type = control.dataset.shape ?? schema.type ?? "string";
  if (isRequired) control.required = true;
  const help = `${id}-help`;
  if (schema.description) control.setAttribute("aria-describedby", help);
  return element("div", { class: "field" }, element("label", { for: id }, labelOf(name), isRequired ? "" : element("span", { class: "faint" }, " (may be left out)")), control,
    schema.description && element("p", { class: "faint", id: help }, printable(schema.description)));
}

const labelOf = (name) => name.split(".").at(-1).replaceAll("_", " ");

/** Return the fields of an inner object as a group. */
function groupOf(name, schema, values, models) {
  const required = new Set(schema.required ?? []);
  return element("fieldset", { class: "wide-field" }, element("legend", {}, labelOf(name)), schema.description && element("p", { class: "faint" }, printable(schema.description)),
    element("div", { class: "fields" }, Object.entries(schema.properties).map(([inner, part]) =>
      fieldOf(`${name}.${inner}`, resolved(part, models), values?.[inner] ?? undefined, required.has(inner), models))));
}

function readFields(place) {
  const order = {};
  for (const control of place.querySelectorAll("[data-field]")) {
    const { field, type } = control.dataset, text = control.value.trim();
    if (text === "") continue;
    const path = field.split("."), last = path.pop();
    const target = path.reduce((inner, name) => (inner[name] ??= {}), order);
    if (type === "integer" || type === "number") target[last] = Number(text);
    else if (type === "boolean") target[last] = text === "true";
    else if (type === "list") target[last] = text.split(",").map((one) => one.trim()).filter(Boolean);
    else if (type === "json") target[last] = JSON.parse(text);
    else target[last] = text;
  }
  return order;
}

/** Open the form of a new job, filled with what is known of it. */
export function newJob(refresh, order = {}) {
  return openOrder({
    title: "New job", button: "Start it", order,
    deliver: async (filled) => {
      const job = await post("/v1/jobs", filled);
      byId("order").close();
      location.hash = `job=${job.id}`;
      await refresh();
      await openJob(job.id);
    },
  });
}

export function setUpOrders(refresh) {
  byId("new-job").addEventListener("click", () => newJob(refresh).catch((error) => showProblem(byId("page-problem"), error)));
}

byId("order-close").addEventListener("click", () => byId("order").close());
byId("order-form").addEventListener("submit", async (event) => {
  event.preventDefault();
  byId("order-send").disabled = true;
  try {
    await send();
  } catch (error) {
    showProblem(byId("order-problem"), error instanceof SyntaxError ? new Error(`a field in JSON: ${error.message}`) : error);
  }
  byId("order-send").disabled = false;
});
