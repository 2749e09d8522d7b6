/** A route: a row with its method and path, and below it what it takes and answers, made when it is opened first. */

import { element, printable } from "../dom.js";
import { pre } from "./answer.js";
import { nameOf, resolved } from "./document.js";
import { readable } from "./json.js";
import { codeLink, codesOf, inline, paragraphs } from "./prose.js";
import { fieldRow, given, later, modelOf } from "./schema.js";
import { tryForm } from "./try_form.js";

const FIRST_ERROR = 400;

/** Return the row of a route; `onOpen` hears of each opening and closing. */
export function routeRow(route, document, onOpen) {
  const path = route.path.split(/(?=\/)|(\{\w+\})/).filter(Boolean)
    .map((part) => (part.startsWith("{") ? element("span", { class: "hole" }, printable(part)) : [element("wbr"), printable(part)]));
  const row = later([
    element("h3", {}, element("span", { class: `method ${route.method.toLowerCase()}` }, route.method), " ", element("code", { class: "path" }, path)),
    element("span", { class: "about" }, inline(route.summary)), scopeOf(route),
  ], () => content(route, document), { class: "route", id: route.anchor });
  row.addEventListener("toggle", () => onOpen(row.open));
  return row;
}

function scopeOf(route) {
  if (!route.takesKey) return element("span", { class: "scope faint" }, "no key");
  if (!route.scopes.length) return element("span", { class: "scope faint" }, "any key");
  return element("span", { class: "scope faint" }, "key with ", element("code", {}, printable(route.scopes.join(" or "))));
}

const part = (title, ...content) => element("section", {}, element("h4", {}, title), ...content);

function content(route, document) {
  const form = part("Try it", tryForm(route, document));
  const toForm = element("button", { type: "button", class: "link to-form", onclick: () => { form.scrollIntoView(); form.querySelector("input, select, textarea, button").focus({ preventScroll: true }); } }, "Try it");
  return element("div", { class: "columns" },
    element("div", {}, paragraphs(route.description),
      element("p", { class: "faint row route-links" }, element("a", { href: `#${encodeURI(route.anchor)}`, "aria-label": `Link to ${route.method} ${printable(route.path)}` }, "Link"), toForm, element("span", {}, "operation ", element("code", {}, printable(route.id)))),
      route.parameters.length > 0 && part("Parameters", element("ul", { class: "plain field-list" }, route.parameters.map((one) =>
        fieldRow(one.name, given(one.schema ?? {}), document, { isRequired: one.required, place: `in the ${one.in}`, description: one.description ?? one.schema?.description })))),
      route.body && part("Body", Object.entries(route.body.content ?? {}).map(([kind, { schema = {} }]) => bodyPart(kind, schema, route, document))),
      part("Answers", route.answers.map((answer) => answerPart(answer, document)))),
    element("div", {}, form));
}

function bodyPart(kind, schema, route, document) {
  return [
    element("p", {}, element("code", {}, printable(kind)), schema.$ref && [" ", printable(nameOf(schema.$ref))], !route.body.required && element("span", { class: "faint" }, ", optional")),
    route.body.description && element("p", {}, inline(route.body.description)),
    modelOf(schema, document, true),
  ];
}

function answerPart(answer, document) {
  const isError = Number(answer.status) >= FIRST_ERROR, contents = Object.entries(answer.content ?? {});
  const model = contents.map(([, { schema = {} }]) => schema.$ref && nameOf(schema.$ref)).find(Boolean);
  const description = answer.description ?? "";
  return later([
    element("strong", { class: isError ? "bad" : "good" }, printable(answer.status)), " ",
    inline(description === "Successful Response" ? model ?? contents[0]?.[0] ?? "" : description),
  ], () => answerContent(answer, contents, document), { class: "status" });
}

function answerContent(answer, contents, document) {
  const headers = Object.entries(answer.headers ?? {}).map(([name, header]) => [name, resolved(header, document)]);
  const rows = headers.map(([name, { schema = {}, description }]) => fieldRow(name, schema, document, { place: "header", description }));
  const codes = Number(answer.status) >= FIRST_ERROR ? codesOf(answer.description ?? "") : [];
  return element("div", {}, codes.length > 0 && element("p", {}, "What it means: ", codes.map((code, place) => [place > 0 && ", ", codeLink(code)])), contents.map(([kind, { schema = {}, example }]) => [
    element("p", {}, element("code", {}, printable(kind)), schema.$ref && [" ", printable(nameOf(schema.$ref))]),
    example !== undefined && pre(typeof example === "string" ? example : readable(JSON.stringify(example)), `Example of an answer with ${printable(answer.status)}`),
    modelOf(schema, document, false),
  ]), element("ul", { class: "plain field-list" }, rows));
}
