// Read signatures of refaug, with nothing but JavaScript: copy this file. docs/internals/signature.md has the grammar.

const KEY = /^[a-z0-9+-]{1,40}$/;
const VALUE = /^(?:[ -$&-{}~]|%[0-9A-Fa-f]{2})*$/;

/** Read a short or a full signature: {metric, settings, details, refaug, fullHash}; the fields are Maps, in order. */
export function parse(line) {
  const [metric, ...parts] = line.trim().split("|");
  if (!metric) throw new SyntaxError(`${JSON.stringify(line)} has no metric`);
  const settings = new Map();
  const details = new Map();
  for (const part of parts) {
    const colon = part.indexOf(":");
    const written = colon < 0 ? part : part.slice(0, colon);
    const fields = written.endsWith(".") ? details : settings;
    const key = written.endsWith(".") ? written.slice(0, -1) : written;
    if (colon < 0 || !KEY.test(key) || fields.has(key)) {
      throw new SyntaxError(`${JSON.stringify(part)} is not part of a signature: ${JSON.stringify(line)}`);
    }
    fields.set(key, decode(part.slice(colon + 1)));
  }
  if (!settings.has("refaug")) throw new SyntaxError(`${JSON.stringify(line)} does not end in refaug:VERSION`);
  const refaug = settings.get("refaug");
  const fullHash = settings.get("full") ?? null;
  settings.delete("refaug");
  settings.delete("full");
  return { metric: decode(metric), settings, details, refaug, fullHash };
}

/** Write the full form. */
export function full(signature) {
  const details = [...signature.details].map(([key, value]) => `${key}.:${encode(value)}`);
  return [beginning(signature), ...details, `refaug:${encode(signature.refaug)}`].join("|");
}

/** Write the short form of a signature that was read from its full form. */
export async function short(signature) {
  const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(full(signature)));
  const hash = [...new Uint8Array(digest)].map((byte) => byte.toString(16).padStart(2, "0")).join("");
  return [beginning(signature), `full:${hash.slice(0, 12)}`, `refaug:${encode(signature.refaug)}`].join("|");
}

function beginning(signature) {
  const settings = [...signature.settings].map(([key, value]) => `${key}:${encode(value)}`);
  return [encode(signature.metric), ...settings].join("|");
}

function encode(value) {
  return [...value]
    .map((one) => (one >= " " && one <= "~" && one !== "|" && one !== "%" ? one : bytesOf(one.codePointAt(0))))
    .join("");
}

// TextEncoder would replace a lone surrogate, as which Python shows a byte that is no UTF-8.
function bytesOf(point) {
  const following = point < 0x80 ? 0 : point < 0x800 ? 1 : point < 0x10000 ? 2 : 3;
  const bytes = [[point, 0xc0 | (point >> 6), 0xe0 | (point >> 12), 0xf0 | (point >> 18)][following]];
  for (let at = following - 1; at >= 0; at--) bytes.push(0x80 | ((point >> (6 * at)) & 0x3f));
  return bytes.map((byte) => "%" + byte.toString(16).toUpperCase().padStart(2, "0")).join("");
}

function decode(value) {
  if (!VALUE.test(value)) {
    throw new SyntaxError(`${JSON.stringify(value)} is not a value: other characters than printable ASCII are %XX`);
  }
  const bytes = [];
  for (let at = 0; at < value.length; at++) {
    bytes.push(value[at] === "%" ? parseInt(value.slice(at + 1, at + 3), 16) : value.charCodeAt(at));
    if (value[at] === "%") at += 2;
  }
  let text = "";
  for (let at = 0; at < bytes.length; ) {
    const first = bytes[at++];
    const following = first < 0x80 ? 0 : first >> 5 === 6 ? 1 : first >> 4 === 14 ? 2 : first >> 3 === 30 ? 3 : -1;
    let point = following === 0 ? first : first & (0x3f >> following);
    for (let left = following; left > 0; left--) {
      if ((bytes[at] ?? 0) >> 6 !== 2) throw new SyntaxError(`${value} is no UTF-8`);
      point = (point << 6) | (bytes[at++] & 0x3f);
    }
    if (following < 0 || point > 0x10ffff || (following > 0 && point < [0, 0x80, 0x800, 0x10000][following])) {
      throw new SyntaxError(`${value} is no UTF-8`);
    }
    text += String.fromCodePoint(point);
  }
  return text;
}
