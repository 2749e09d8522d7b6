/** Descriptions: paragraphs, code between backticks, and links to places of this server. All else is text as it stands. */

import { address } from "../api.js";
import { element, printable } from "../dom.js";

const MARKED = /`([^`]+)`|\[([^[\]]+)\]\(([^()\s]+)\)/g;
const RELATIVE = /^(?!\/\/)[\w./?#=&%-]+$/; // no scheme, no other host

/** Return a text as nodes. */
export function inline(text) {
  const nodes = [];
  let last = 0;
  for (const found of text.matchAll(MARKED)) {
    const [whole, coded, label, target] = found;
    if (coded === undefined && !RELATIVE.test(target)) continue;
    nodes.push(printable(text.slice(last, found.index)), coded === undefined ? link(label, target) : plainCode(coded));
    last = found.index + whole.length;
  }
  nodes.push(printable(text.slice(last)));
  return nodes;
}

const plainCode = (text) => element("code", {}, printable(text));
const link = (label, target) => element("a", { href: target.startsWith("/") ? address(target) : target }, printable(label));

/** Return a description with a capital letter, unless it begins with a value that it explains, and a full stop. */
export function sentence(text) {
  const whole = text.trim();
  const first = /^[\w-]+:/.test(whole) ? whole.charAt(0) : whole.charAt(0).toUpperCase();
  return `${first}${whole.slice(1)}${/[.:?!…]$/.test(whole) ? "" : "."}`;
}

/** Return a text as paragraphs. */
export const paragraphs = (text) => text.split(/\n\s*\n/).filter((one) => one.trim()).map((one) => element("p", {}, inline(one.trim())));

const CODE = /^[a-z][a-z_]*$/;

/** Return the codes of problems that the description of an error names, which it does behind its colon. */
export const codesOf = (text) => [...text.matchAll(MARKED)].filter(({ 1: code, index }) => CODE.test(code) && text.slice(0, index).includes(":")).map(({ 1: code }) => code);

/** Return a code of a problem as a link to its meaning. */
export const codeLink = (code) => element("a", { href: address(`/problems/${code}`) }, plainCode(code));
