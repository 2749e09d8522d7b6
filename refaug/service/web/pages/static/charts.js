/** Charts as drawings of our own: each has its numbers as a table, and is drawn anew when its place gets wider or narrower. */

import { drawing, element, fill, printable } from "./dom.js";
import { count, score } from "./format.js";

const LETTER = 7.4, LINE = 24; // pixels, of a letter and of a row
/** How many series have a colour and a shape of their own. */
export const SERIES = 6;

/** Return whole-looking numbers between two, at most about `most` of them. */
export function ticks(low, high, most = 6) {
  const span = high - low;
  if (!(span > 0)) return [low];
  const rough = span / Math.max(1, most), power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((size) => size >= rough);
  const first = Math.ceil(low / step - 1e-9), last = Math.floor(high / step + 1e-9);
  return Array.from({ length: last - first + 1 }, (_, place) => Number(((first + place) * step).toPrecision(12)));
}

const tickText = (number) => String(number).replace("-", "−");
const shortened = (text, letters) => {
  const shown = printable(text).replaceAll("\n", " ");
  return shown.length > letters ? `${shown.slice(0, Math.max(1, letters - 1))}…` : shown;
};

/** Return bounds with a little room at both ends. */
function bounds(numbers) {
  let low = Infinity, high = -Infinity;
  for (const number of numbers) {
    if (!Number.isFinite(number)) continue;
    if (number < low) low = number;
    if (number > high) high = number;
  }
  if (low > high) return [0, 1];
  const room = (high - low || Math.abs(high) || 1) * 0.05;
  return [low - room, high + room];
}

const linear = ([low, high], [from, to]) => (number) => from + ((number - low) / (high - low)) * (to - from);

/** Return a table of numbers; the cells of a row are texts, numbers or elements, the first one names the row. */
export function numbers(names, rows) {
  const most = 200;
  return element("div", { class: "scroll" }, element("table", {},
    element("thead", {}, element("tr", {}, names.map((name, place) => element("th", { scope: "col", class: place ? "number" : "" }, name)))),
    element("tbody", {}, rows.slice(0, most).map((cells) => element("tr", {}, cells.map((cell, place) =>
      element(place ? "td" : "th", { scope: place ? null : "row", class: place ? "number" : "" }, typeof cell === "number" ? score(cell) : cell)))))),
  rows.length > most && element("p", { class: "faint" }, `the first ${count(most)} of ${count(rows.length)} rows; the downloads have all of them`));
}

/**
 * Return a figure: a title, a drawing that `draw(width)` makes, what it says in words, and its numbers behind a button.
 * `describe` is read to those who do not see it.
 */
export function figure({ title, note = null, describe, draw, names, rows }) {
  const place = element("div", { class: "drawing" });
  let width = 0;
  const observer = new ResizeObserver(([entry]) => {
    const now = Math.floor(entry.contentRect.width);
    if (now === width || now < 40) return;
    width = now;
    const picture = draw(width);
    picture.setAttribute("role", "img");
    picture.setAttribute("aria-label", printable(describe));
    fill(place, picture);
  });
  observer.observe(place);
  const table = element("div");
  const details = element("details", { ontoggle: () => { if (details.open && !table.firstChild) fill(table, numbers(names, rows())); } },
    element("summary", {}, "Numbers"), table);
  return element("figure", { class: "figure" }, element("figcaption", {}, element("b", {}, title), note && element("span", { class: "faint" }, note)), place, details);
}

const canvas = (width, height) => drawing("svg", { viewBox: `0 0 ${width} ${height}`, width, height, class: "plot" });

function axisBelow(picture, values, scale, { left, right, top, bottom, label }) {
  for (const value of values) {
    picture.append(drawing("line", { x1: scale(value), x2: scale(value), y1: top, y2: bottom, class: "rule" }),
      drawing("text", { x: scale(value), y: bottom + 14, "text-anchor": "middle" }, tickText(value)));
  }
  picture.append(drawing("line", { x1: left, x2: right, y1: bottom, y2: bottom, class: "axis" }));
  if (label) picture.append(drawing("text", { x: right, y: bottom + 30, "text-anchor": "end" }, label));
}

/** Return a figure of numbers with their intervals, a row each: `{label, value, low, high}`; nulls are left out of the drawing. `least` rows have room, so that figures side by side are equally high. */
export function intervalFigure({ title, note, rows, zero = false, least = 0, names = ["", "Score", "from", "to"] }) {
  const draw = (width) => {
    const room = Math.min(width * 0.4, 12 + LETTER * Math.max(...rows.map((row) => printable(row.label).length)));
    const top = 6, bottom = top + LINE * Math.max(rows.length, least), picture = canvas(width, bottom + 22);
    const span = bounds(rows.flatMap((row) => [row.value, row.low, row.high, zero ? 0 : null].filter((number) => number !== null && number !== undefined)));
    const scale = linear(span, [room, width - 12]);
    axisBelow(picture, ticks(...span, Math.max(2, (width - room) / 70)), scale, { left: room, right: width - 12, top, bottom });
    if (zero) picture.append(drawing("line", { x1: scale(0), x2: scale(0), y1: top, y2: bottom, class: "axis" }));
    rows.forEach((row, place) => {
      const y = top + LINE * (place + 0.5);
      picture.append(drawing("text", { x: room - 8, y: y + 4, "text-anchor": "end" }, shortened(row.label, Math.floor((room - 10) / LETTER))));
      if (typeof row.value !== "number") {
        picture.append(drawing("text", { x: room + 6, y: y + 4 }, "no score"));
        return;
      }
      if (typeof row.low === "number" && typeof row.high === "number") picture.append(drawing("line", { x1: scale(row.low), x2: scale(row.high), y1: y, y2: y, class: `whisker ${row.sign ?? ""}` }));
      picture.append(drawing("circle", { cx: scale(row.value), cy: y, r: 4.5, class: `dot ${row.sign ?? ""}` }));
    });
    return picture;
  };
  return figure({ title, note, draw, names,
    describe: `${title}: ${rows.slice(0, 20).map((row) => `${row.label} ${score(row.value)}${typeof row.low === "number" ? `, from ${score(row.low)} to ${score(row.high)}` : ""}`).join("; ")}`,
    rows: () => rows.map((row) => [printable(row.label), row.value, row.low ?? null, row.high ?? null].map((cell) => (cell === null ? "–" : cell))) });
}

/** Return a figure of how often scores lie where, a panel for each series, all equally large: `{label, counts}` over common `edges`. */
export function histogramFigure({ title, note, series, edges }) {
  const high = 90, head = 20, foot = 26, gap = 24;
  const draw = (width) => {
    const columns = Math.max(1, Math.min(series.length, Math.floor((width + gap) / (260 + gap)))), wide = (width - gap * (columns - 1)) / columns;
    const picture = canvas(width, Math.ceil(series.length / columns) * (head + high + foot));
    series.forEach((row, place) => {
      const left = (place % columns) * (wide + gap), top = Math.floor(place / columns) * (head + high + foot) + head, base = top + high;
      const scale = linear([edges[0], edges.at(-1)], [left + 8, left + wide - 12]), most = Math.max(1, ...row.counts), highest = `highest ${count(most)}`;
      // each has its own scale, which is told: one system whose replies are alike would flatten all others
      picture.append(drawing("text", { x: left + 8, y: top - 6, class: "strong" }, shortened(row.label, Math.floor((wide - 28) / LETTER) - highest.length)), drawing("text", { x: left + wide - 12, y: top - 6, "text-anchor": "end" }, highest));
      axisBelow(picture, ticks(edges[0], edges.at(-1), Math.max(2, wide / 70)), scale, { left: left + 8, right: left + wide - 12, top, bottom: base });
      row.counts.forEach((amount, bin) => {
        const from = scale(edges[bin]), to = scale(edges[bin + 1]), height = (amount / most) * (high - 4);
        if (amount) picture.append(drawing("rect", { x: from + 0.5, y: base - height, width: Math.max(1, to - from - 1), height, class: `series-${(place % SERIES) + 1}` }));
      });
    });
    return picture;
  };
  const peak = (row) => { const bin = row.counts.indexOf(Math.max(...row.counts)); return `${row.label}: most between ${score(edges[bin])} and ${score(edges[bin + 1])}`; };
  return figure({ title, note, draw, describe: `${title}. ${series.slice(0, 20).map(peak).join("; ")}`,
    names: ["from", "to", ...series.map((row) => printable(row.label))],
    rows: () => series[0].counts.map((_, bin) => [score(edges[bin]), edges[bin + 1], ...series.map((row) => count(row.counts[bin]))]) });
}

const MARKS = [ // a shape for each series, so that colour is not all that tells them apart
  (x, y) => `M${x - 2.5} ${y}a2.5 2.5 0 1 0 5 0a2.5 2.5 0 1 0 -5 0`,
  (x, y) => `M${x - 2.5} ${y - 2.5}h5v5h-5z`,
  (x, y) => `M${x} ${y - 3.2}l3 5.4h-6z`,
  (x, y) => `M${x} ${y - 3.5}l3.5 3.5l-3.5 3.5l-3.5 -3.5z`,
  (x, y) => `M${x - 3} ${y - 0.8}h2.2v-2.2h1.6v2.2h2.2v1.6h-2.2v2.2h-1.6v-2.2h-2.2z`,
  (x, y) => `M${x} ${y + 3.2}l3 -5.4h-6z`,
];
const tenth = (number) => Math.round(number * 10) / 10;

/** Return the list of what the series of a drawing look like. */
export function legend(labels) {
  return element("ul", { class: "legend plain" }, labels.map((label, place) => {
    const mark = drawing("svg", { viewBox: "0 0 10 10", width: 12, height: 12, "aria-hidden": "true", class: "plot" }, drawing("path", { d: MARKS[place % SERIES](5, 5), class: `series-${(place % SERIES) + 1}` }));
    return element("li", {}, mark, element("bdi", { class: "user-text" }, printable(label)));
  }));
}

/**
 * Return a figure of points: `groups` are `{label, points: [[x, y, note], …]}`. One path for each group, so that
 * thousands of points cost no more than a few elements; `onPick(note)` hears which point is nearest to a click.
 */
export function scatterFigure({ title, note, x, y, groups, onPick = null, columns = null, rows = null }) {
  const all = groups.flatMap((group) => group.points);
  const spanX = bounds(all.map((point) => point[0])), spanY = bounds(all.map((point) => point[1]));
  const draw = (width) => {
    const height = Math.round(Math.min(420, Math.max(240, width * 0.6))), left = 44, top = 8, bottom = height - 36, right = width - 10;
    const picture = canvas(width, height), scaleX = linear(spanX, [left, right]), scaleY = linear(spanY, [bottom, top]);
    axisBelow(picture, ticks(...spanX, Math.max(2, width / 90)), scaleX, { left, right, top, bottom, label: shortened(x, Math.floor((right - left) / LETTER)) });
    for (const value of ticks(...spanY, 6)) {
      picture.append(drawing("line", { x1: left, x2: right, y1: scaleY(value), y2: scaleY(value), class: "rule" }),
        drawing("text", { x: left - 6, y: scaleY(value) + 4, "text-anchor": "end" }, tickText(value)));
    }
    picture.append(drawing("text", { x: left + 4, y: top + 10, class: "halo" }, shortened(y, Math.floor((right - left) / LETTER))));
    groups.forEach((group, place) => picture.append(drawing("path", { class: `points series-${(place % SERIES) + 1}`, d: group.points.map(([px, py]) => MARKS[place % SERIES](tenth(scaleX(px)), tenth(scaleY(py)))).join("") })));
    if (onPick) picture.addEventListener("click", (event) => {
      const box = picture.getBoundingClientRect(), cx = event.clientX - box.left, cy = event.clientY - box.top;
      let nearest = null, least = 14 ** 2;
      for (const point of all) {
        const far = (scaleX(point[0]) - cx) ** 2 + (scaleY(point[1]) - cy) ** 2;
        if (far < least) { least = far; nearest = point; }
      }
      if (nearest !== null) onPick(nearest[2]);
    });
    return picture;
  };
  const shown = figure({ title, note, draw, describe: `${title}: ${count(all.length)} points; ${x} to the right, ${y} upwards`,
    names: columns ?? ["", printable(x), printable(y)],
    rows: rows ?? (() => groups.flatMap((group) => group.points.map(([px, py]) => [printable(group.label), px, py]))) });
  if (groups.length > 1) shown.firstChild.after(legend(groups.map((group) => group.label)));
  return shown;
}
