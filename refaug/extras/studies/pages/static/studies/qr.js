/** QR codes (ISO/IEC 18004) of short texts: bytes, versions 1 to 10, error correction M, the mask of the least penalty. */

import { drawing } from "../dom.js";

// Of each version: codewords of correction in a block, blocks, data codewords in each, and blocks with one more of them.
const BLOCKS = [[10, 1, 16, 0], [16, 1, 28, 0], [26, 1, 44, 0], [18, 2, 32, 0], [24, 2, 43, 0], [16, 4, 27, 0], [18, 4, 31, 0], [22, 2, 38, 2], [22, 3, 36, 2], [26, 4, 43, 1]];
const ALIGNED = [[], [6, 18], [6, 22], [6, 26], [6, 30], [6, 34], [6, 22, 38], [6, 24, 42], [6, 26, 46], [6, 28, 50]];
const MASKS = [
  (x, y) => (x + y) % 2, (x, y) => y % 2, (x) => x % 3, (x, y) => (x + y) % 3, (x, y) => (Math.floor(x / 3) + Math.floor(y / 2)) % 2,
  (x, y) => ((x * y) % 2) + ((x * y) % 3), (x, y) => (((x * y) % 2) + ((x * y) % 3)) % 2, (x, y) => (((x + y) % 2) + ((x * y) % 3)) % 2,
];
const QUIET = 4; // light modules around the code, which readers need

// ── codewords ─────────────────────────────────────────────────────────────────────────────────────────────────────────

/** Multiply in the field of 256 elements of the standard, whose polynomial is 0x11D. */
function times(first, second) {
  let product = 0;
  for (let bit = 7; bit >= 0; bit -= 1) {
    product = (product << 1) ^ ((product >> 7) * 0x11d);
    product ^= ((second >> bit) & 1) * first;
  }
  return product;
}

/** Return the Reed–Solomon codewords that correct others. */
export function correction(data, count) {
  const divisor = new Array(count).fill(0), rest = new Array(count).fill(0);
  divisor[count - 1] = 1;
  for (let power = 0, root = 1; power < count; power += 1, root = times(root, 2)) {
    for (let at = 0; at < count; at += 1) divisor[at] = times(divisor[at], root) ^ (divisor[at + 1] ?? 0);
  }
  for (const word of data) {
    const factor = word ^ rest.shift();
    rest.push(0);
    for (let at = 0; at < count; at += 1) rest[at] ^= times(divisor[at], factor);
  }
  return rest;
}

const dataWords = ([, blocks, words, longer]) => blocks * words + longer * (words + 1);
const headBits = (version) => 4 + (version < 10 ? 8 : 16);

/** Return the smallest version that holds so many bytes; null where none of ours does. */
function versionFor(size) {
  const at = BLOCKS.findIndex((blocks, place) => dataWords(blocks) * 8 >= headBits(place + 1) + size * 8);
  return at < 0 ? null : at + 1;
}

/** Return the codewords of bytes, those of the blocks in turns, and then those that correct them. */
function codewords(bytes, version) {
  const [ec, blocks, words, longer] = BLOCKS[version - 1], most = dataWords(BLOCKS[version - 1]), bits = [];
  const push = (number, length) => { for (let at = length - 1; at >= 0; at -= 1) bits.push((number >> at) & 1); };
  push(0b0100, 4);
  push(bytes.length, headBits(version) - 4);
  for (const byte of bytes) push(byte, 8);
  push(0, Math.min(4, most * 8 - bits.length));
  push(0, (8 - (bits.length % 8)) % 8);
  const data = Array.from({ length: bits.length / 8 }, (_, at) => Number.parseInt(bits.slice(at * 8, at * 8 + 8).join(""), 2));
  for (let pad = 0xec; data.length < most; pad ^= 0xec ^ 0x11) data.push(pad);
  const parts = [];
  for (let block = 0, start = 0; block < blocks + longer; block += 1) {
    const end = start + words + (block < blocks ? 0 : 1);
    parts.push(data.slice(start, end));
    start = end;
  }
  const inTurns = (lists) => Array.from({ length: Math.max(...lists.map((list) => list.length)) }, (_, at) => lists.filter((list) => at < list.length).map((list) => list[at])).flat();
  return [...inTurns(parts), ...inTurns(parts.map((part) => correction(part, ec)))];
}

// ── modules ───────────────────────────────────────────────────────────────────────────────────────────────────────────

const grid = (size) => Array.from({ length: size }, () => new Array(size).fill(false));

/** Return a number with the bits of its BCH code behind it. */
function withCheck(number, bits, polynomial) {
  let rest = number;
  for (let step = 0; step < bits; step += 1) rest = (rest << 1) ^ ((rest >> (bits - 1)) * polynomial);
  return (number << bits) | rest;
}

/** Draw what every code of a version has, and return which modules that are. */
function drawPatterns(modules, version) {
  const size = modules.length, isFixed = grid(size);
  const set = (x, y, isDark) => { if (x >= 0 && y >= 0 && x < size && y < size) { modules[y][x] = isDark; isFixed[y][x] = true; } };
  for (let at = 0; at < size; at += 1) { set(6, at, at % 2 === 0); set(at, 6, at % 2 === 0); }
  for (const [x, y] of [[3, 3], [size - 4, 3], [3, size - 4]]) {
    for (let down = -4; down <= 4; down += 1) for (let right = -4; right <= 4; right += 1) { const ring = Math.max(Math.abs(down), Math.abs(right)); set(x + right, y + down, ring !== 2 && ring !== 4); }
  }
  const places = ALIGNED[version - 1], last = places.at(-1);
  for (const x of places) for (const y of places) {
    if ((x === 6 && y === 6) || (x === 6 && y === last) || (x === last && y === 6)) continue; // a finder is there
    for (let down = -2; down <= 2; down += 1) for (let right = -2; right <= 2; right += 1) set(x + right, y + down, Math.max(Math.abs(down), Math.abs(right)) !== 1);
  }
  if (version >= 7) {
    const bits = withCheck(version, 12, 0x1f25);
    for (let at = 0; at < 18; at += 1) {
      const long = size - 11 + (at % 3), short = Math.floor(at / 3), isDark = ((bits >> at) & 1) === 1;
      set(long, short, isDark);
      set(short, long, isDark);
    }
  }
  drawFormat(modules, 0, set);
  return isFixed;
}

/** Draw the format, twice: error correction M, whose number is 0, and the mask. */
function drawFormat(modules, mask, set) {
  const size = modules.length, bits = withCheck(mask, 10, 0x537) ^ 0x5412, bit = (at) => ((bits >> at) & 1) === 1;
  for (let at = 0; at < 6; at += 1) set(8, at, bit(at));
  set(8, 7, bit(6));
  set(8, 8, bit(7));
  set(7, 8, bit(8));
  for (let at = 9; at < 15; at += 1) set(14 - at, 8, bit(at));
  for (let at = 0; at < 8; at += 1) set(size - 1 - at, 8, bit(at));
  for (let at = 8; at < 15; at += 1) set(8, size - 15 + at, bit(at));
  set(8, size - 8, true);
}

/** Put the bits of codewords where no pattern is, upwards and downwards in columns of two. */
function drawWords(modules, isFixed, words) {
  const size = modules.length;
  let at = 0;
  for (let right = size - 1; right >= 1; right -= 2) {
    if (right === 6) right = 5; // the column of the timing pattern
    for (let step = 0; step < size; step += 1) for (let left = 0; left < 2; left += 1) {
      const x = right - left, y = ((right + 1) & 2) === 0 ? size - 1 - step : step;
      if (isFixed[y][x] || at >= words.length * 8) continue;
      modules[y][x] = ((words[at >> 3] >> (7 - (at & 7))) & 1) === 1;
      at += 1;
    }
  }
}

const FINDERS = ["10111010000", "00001011101"];

/** Return how hard a code is to read, by the four features of the standard. */
function penalty(modules) {
  const size = modules.length, lines = [...modules, ...modules.map((_, x) => modules.map((row) => row[x]))].map((line) => line.map(Number).join(""));
  let sum = 0, dark = 0;
  for (const line of lines) {
    for (const [run] of line.matchAll(/0{5,}|1{5,}/g)) sum += run.length - 2;
    for (const finder of FINDERS) for (let at = line.indexOf(finder); at >= 0; at = line.indexOf(finder, at + 1)) sum += 40;
  }
  for (let y = 0; y < size; y += 1) for (let x = 0; x < size; x += 1) {
    dark += modules[y][x];
    if (x + 1 < size && y + 1 < size && modules[y][x] === modules[y][x + 1] && modules[y][x] === modules[y + 1][x] && modules[y][x] === modules[y + 1][x + 1]) sum += 3;
  }
  return sum + 10 * Math.floor(Math.abs(dark * 20 - size * size * 10) / (size * size));
}

/** Return the modules of the code of a text, rows of booleans; null where the text is too long. */
export function qrModules(text) {
  const bytes = new TextEncoder().encode(text), version = versionFor(bytes.length);
  if (version === null) return null;
  const plain = grid(17 + 4 * version), isFixed = drawPatterns(plain, version);
  drawWords(plain, isFixed, codewords(bytes, version));
  const masked = MASKS.map((mask, number) => {
    const modules = plain.map((row, y) => row.map((isDark, x) => isDark !== (!isFixed[y][x] && mask(x, y) === 0)));
    drawFormat(modules, number, (x, y, isDark) => { modules[y][x] = isDark; });
    return modules;
  });
  const penalties = masked.map(penalty);
  return masked[penalties.indexOf(Math.min(...penalties))];
}

/** Return a drawing of the code, dark on light in any scheme, as readers expect it; null where the text is too long. */
export function qrDrawing(text, label) {
  const modules = qrModules(text);
  if (modules === null) return null;
  const size = modules.length + 2 * QUIET;
  const path = modules.flatMap((row, y) => row.map((isDark, x) => (isDark ? `M${x + QUIET} ${y + QUIET}h1v1h-1z` : ""))).join("");
  return drawing("svg", { class: "qr", viewBox: `0 0 ${size} ${size}`, role: "img", "aria-label": label, "shape-rendering": "crispEdges", xmlns: "http://www.w3.org/2000/svg" }, drawing("rect", { width: size, height: size, fill: "#fff" }), drawing("path", { d: path, fill: "#000" }));
}
