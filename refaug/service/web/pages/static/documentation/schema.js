/** Schemas as lists of fields; what is inside of a field is made when a reader opens it, so that models may hold themselves. */

import { element, printable } from "../dom.js";
import { nameOf, resolved } from "./document.js";
import { inline, paragraphs, sentence } from "./prose.js";

const KINDS = { string: "text", integer: "whole number", number: "number", boolean: "true or false" };
const LIMITS = {
  minimum: "at least {}", maximum: "at most {}", exclusiveMinimum: "more than {}", exclusiveMaximum: "less than {}",
  minLength: "at least {} characters", maxLength: "at most {} characters", minItems: "at least {} of them", maxItems: "at most {} of them",
  minProperties: "at least {} of them", maxProperties: "at most {} of them",
};

const LONGEST_DEFAULT = 80; // characters; the fields of a longer one have their own

/** Return a part whose content is made when it is opened first. */
export function later(summary, make, attributes = {}) {
  const node = element("details", attributes, element("summary", {}, summary));
  node.addEventListener("toggle", () => { if (node.open && node.childElementCount === 1) node.append(make()); });
  return node;
}

const alternatives = (schema) => [...(schema.anyOf ?? []), ...(schema.oneOf ?? []), ...(schema.allOf ?? [])];

/** Return the values that a schema allows, or null where they cannot be counted. */
export function choices(schema, document, depth = 5) {
  const model = resolved(schema, document);
  if (Array.isArray(model.enum)) return model.enum;
  if (Object.hasOwn(model, "const")) return [model.const];
  if (model.type === "boolean") return [true, false];
  const inner = alternatives(model).filter(({ type }) => type !== "null");
  return inner.length === 1 && depth > 0 ? choices(inner[0], document, depth - 1) : null;
}

/** Return the schema of a parameter without null, which is what it is where it is not given. */
export function given(schema) {
  const inner = (schema.anyOf ?? []).filter(({ type }) => type !== "null");
  return inner.length === 1 && schema.anyOf.length === 2 ? { ...inner[0], ...("default" in schema && { default: schema.default }) } : schema;
}

/** Return the type of a schema in words. */
export function typeOf(schema, document) {
  const model = resolved(schema, document), values = Array.isArray(model.enum) ? model.enum : Object.hasOwn(model, "const") ? [model.const] : null;
  if (values !== null) return values.map((value) => JSON.stringify(value)).join(" or ");
  if (schema.$ref) return nameOf(schema.$ref);
  if (alternatives(model).length) return [...new Set(alternatives(model).map((one) => typeOf(one, document)))].join(" or ");
  const kinds = [model.type ?? []].flat();
  return kinds.map((kind) => kindOf(kind, model, document)).join(" or ") || "anything";
}

function kindOf(kind, model, document) {
  if (kind === "array") return model.items ? `list of ${typeOf(model.items, document)}` : "list";
  if (kind === "object") {
    const inner = model.additionalProperties;
    return typeof inner === "object" && Object.keys(inner).length ? `object: ${typeOf(inner, document)} by name` : "object";
  }
  return kind === "string" && model.format === "date-time" ? "time (ISO 8601)" : KINDS[kind] ?? kind;
}

function limitsOf(schema) {
  const own = Object.entries(LIMITS).filter(([name]) => typeof schema[name] === "number")
    .map(([name, words]) => words.replace("{}", schema[name].toLocaleString("en")).replace(/ 1 characters$/, " 1 character"));
  if (schema.pattern) own.push(`as \`${schema.pattern}\``);
  return [...own, ...alternatives(schema).flatMap(limitsOf), ...(schema.items && typeof schema.items === "object" ? limitsOf(schema.items).map((one) => `each ${one}`) : [])];
}

const partsOf = (model) => [...alternatives(model), ...(model.prefixItems ?? []), model.items, model.additionalProperties]
  .filter((one) => typeof one === "object" && one !== null);

/** Return the models that can be opened below a schema: those of its references, and objects that are spelled out. */
function innerOf(schema, document) {
  if (schema.$ref) {
    const model = resolved(schema, document);
    return model.properties || partsOf(model).length ? [schema] : [];
  }
  return schema.properties ? [schema] : partsOf(schema).flatMap((one) => innerOf(one, document));
}

/** Return a model that is made when it is opened: its name, and what tells it from others, first. */
function modelPart(schema, document, isSent) {
  const model = resolved(schema, document);
  const signs = Object.entries(model.properties ?? {}).filter(([, field]) => Object.hasOwn(field, "const"))
    .map(([name, field]) => element("code", { class: "faint" }, ` ${printable(name)}: ${JSON.stringify(field.const)}`));
  return later([element("span", {}, printable(schema.$ref ? nameOf(schema.$ref) : model.title ?? "its fields")), signs], () => modelOf(schema, document, isSent), { class: "model" });
}

/** Return a schema as a reader sees it: what it says of itself, its fields, those that must be sent first, and the models inside. */
export function modelOf(schema, document, isSent) {
  const model = resolved(schema, document), required = new Set((isSent && model.required) || []);
  const fields = Object.entries(model.properties ?? {}).sort(([first], [second]) => required.has(second) - required.has(first));
  const rows = fields.map(([name, field]) => fieldRow(name, field, document, { isSent, isRequired: required.has(name) }));
  const inner = model.properties ? [] : innerOf(model, document).map((one) => modelPart(one, document, isSent));
  return element("div", { class: "schema" }, paragraphs(model.description ?? ""),
    rows.length > 0 && element("ul", { class: "plain field-list" }, rows), inner,
    rows.length + inner.length === 0 && element("p", {}, printable(typeOf(schema, document))));
}

/** Return a field as a row: name, type, whether it is needed, what it means, its limits, and what is inside. */
export function fieldRow(name, schema, document, { isSent = false, isRequired = false, place = "", description = schema.description } = {}) {
  const limits = limitsOf(resolved(schema, document));
  const preset = JSON.stringify(schema.default) ?? "";
  if (preset && preset.length < LONGEST_DEFAULT) limits.unshift(`\`${preset}\` unless given`);
  return element("li", {},
    element("div", { class: "field-head" }, element("code", { class: "field-name" }, printable(name)),
      element("span", { class: "faint" }, printable(typeOf(schema, document))), place && element("span", { class: "faint" }, place),
      isRequired && element("span", { class: "required" }, "required")),
    description && element("p", {}, inline(sentence(description))),
    limits.length > 0 && element("p", { class: "faint" }, inline(limits.join(", "))),
    innerOf(schema, document).map((one) => modelPart(one, document, isSent)));
}
