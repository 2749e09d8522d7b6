/** Elements from code: texts become text nodes, never markup. */

/**
 * Return a new element. Attributes whose value is null, undefined or false are left out; `on…` are listeners.
 * @param {string} tag
 * @param {Record<string, unknown>} [attributes]
 * @param {...(Node | string | number | null | undefined | false | Array)} children
 */
export function element(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name === "dataset") Object.assign(node.dataset, value);
    else node.setAttribute(name, value === true ? "" : String(value));
  }
  append(node, children);
  return node;
}

const SVG = "http://www.w3.org/2000/svg";

/** Return a new element of a drawing. */
export function drawing(tag, attributes = {}, ...children) {
  const node = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, String(value));
  append(node, children);
  return node;
}

function append(node, children) {
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    node.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
}

/** Replace what an element holds. */
export function fill(node, ...children) {
  node.replaceChildren();
  append(node, children);
  return node;
}

export const byId = (id) => document.getElementById(id);

/** Return a function that runs once its calls have paused for a while; `now()` runs a waiting call at once. */
export function debounced(action, pause) {
  let timer = 0;
  const later = (...values) => {
    clearTimeout(timer);
    timer = setTimeout(action, pause, ...values);
  };
  later.cancel = () => clearTimeout(timer);
  return later;
}

// Characters that are invisible or turn the direction of what follows; they are shown by their number.
const HIDDEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202f\u2060-\u206f\ufeff\ufff9-\ufffb]/gu;
const LONGEST = 2_000;

/** Return a text of a user with its invisible characters written out. */
export function printable(text) {
  return String(text).replace(HIDDEN, (character) =>
    character === "\u200d" ? character : `\\u{${character.codePointAt(0).toString(16)}}`);
}

/** Return an element that shows a text of a user: isolated in its direction, cut where it is long. */
export function userText(text, attributes = {}) {
  const whole = printable(text);
  const node = element("bdi", { dir: "auto", class: "user-text", ...attributes });
  if (whole.length <= LONGEST) return fill(node, whole);
  const rest = element("button", { type: "button", class: "link", onclick: () => fill(node, whole) },
    `… show all ${new Intl.NumberFormat().format(whole.length)} characters`);
  return fill(node, whole.slice(0, LONGEST), rest);
}
