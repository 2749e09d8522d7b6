/** Figures over time as small lines: axes that fit what is drawn, and the value under the pointer or the arrow keys. */

import { figure, legend, SERIES, ticks } from "../charts.js";
import { drawing, element, fill, printable } from "../dom.js";
import { count } from "../format.js";

const LEFT = 58, RIGHT = 10, TOP = 8, BELOW = 22, HEIGHT = 150; // pixels around and of the drawing
const HOUR = 3_600_000, DAY = 24 * HOUR;
const STEPS = [60_000, 300_000, 900_000, HOUR, 3 * HOUR, 6 * HOUR, 12 * HOUR, DAY, 2 * DAY, 7 * DAY, 14 * DAY, 28 * DAY, 91 * DAY, 365 * DAY];
const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit" });
const day = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short" });
const whole = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "short" });

/** Return round moments between two, at most about `most`, by the reader's clocks. */
function timeTicks(from, to, most) {
  const step = STEPS.find((size) => (to - from) / size <= most) ?? STEPS.at(-1);
  const shift = new Date(from).getTimezoneOffset() * 60_000;
  const found = [];
  for (let at = Math.ceil((from - shift) / step) * step + shift; at <= to; at += step) found.push(at);
  return { values: found, text: (at) => (step < DAY && new Date(at).getHours() + new Date(at).getMinutes() > 0 ? clock : day).format(at) };
}

/** Return a path through points; a point without a value ends the line, and the next one begins another. */
function path(points, x, y) {
  let isOpen = false, text = "";
  for (const [at, value] of points) {
    if (value === null) { isOpen = false; continue; }
    text += `${isOpen ? "L" : "M"}${x(at).toFixed(1)} ${y(value).toFixed(1)}`;
    isOpen = true;
  }
  return text;
}

/**
 * Return a figure of lines over time: `series` are `{label, points: [[milliseconds or ISO time, number or null], …]}`.
 * `format(number)` writes a value with its unit, `limit` is a line that should not be crossed, and the axis begins at
 * zero unless `fromZero` is false.
 */
export function lineFigure({ title, note = null, series, format = count, limit = null, fromZero = true, height = HEIGHT }) {
  const lines = series.map(({ label, points }) => ({ label, points: points.map(([at, value]) => [typeof at === "number" ? at : Date.parse(at), value ?? null]).sort((a, b) => a[0] - b[0]) }));
  const times = [...new Set(lines.flatMap((line) => line.points.map(([at]) => at)))].sort((a, b) => a - b);
  const values = lines.flatMap((line) => line.points.map(([, value]) => value)).filter((value) => value !== null);
  const valueAt = lines.map((line) => new Map(line.points));
  if (!values.length) return element("figure", { class: "figure" }, element("figcaption", {}, element("b", {}, title), note && element("span", { class: "faint" }, note)), element("p", { class: "empty" }, "Nothing was measured in this time."));
  const reading = element("p", { class: "line-reading", "aria-live": "polite" });
  const read = (at) => fill(reading, at === null ? newest() : words(at));
  const words = (at) => [whole.format(at), ": ", lines.map((line, place) => [place ? ", " : "", lines.length > 1 ? `${printable(line.label)} ` : "", element("b", {}, text(valueAt[place].get(at)))])];
  const newest = () => ["latest: ", lines.map((line, place) => [place ? ", " : "", lines.length > 1 ? `${printable(line.label)} ` : "", element("b", {}, text(line.points.findLast(([, value]) => value !== null)?.[1]))])];
  const text = (value) => (typeof value === "number" ? format(value) : "–");
  const span = ({ points }) => {
    const own = points.map(([, value]) => value).filter((value) => value !== null);
    return own.length ? `between ${text(Math.min(...own))} and ${text(Math.max(...own))}` : "without a value";
  };

  const draw = (width) => {
    const right = width - RIGHT, bottom = height - BELOW;
    const picture = drawing("svg", { viewBox: `0 0 ${width} ${height}`, width, height, class: "plot" });
    const high = Math.max(...values, limit ?? -Infinity), lowest = Math.min(...values, fromZero ? 0 : Infinity, limit ?? Infinity);
    const low = lowest === high && !fromZero ? lowest - (Math.abs(lowest) * 0.1 || 1) : lowest; // a line that never moves
    const marks = ticks(low, high > low ? high : low + (Math.abs(low) || 1), 3), step = marks.length > 1 ? marks[1] - marks[0] : high - low || 1;
    const top = Math.max(high, marks.at(-1) < high ? marks.at(-1) + step : marks.at(-1)), base = Math.min(low, marks[0]);
    const from = times[0], to = times.at(-1) > from ? times.at(-1) : from + HOUR;
    const x = (at) => LEFT + ((at - from) / (to - from)) * (right - LEFT), y = (value) => bottom - ((value - base) / (top - base || 1)) * (bottom - TOP);
    for (const value of marks.at(-1) < high ? [...marks, marks.at(-1) + step] : marks) {
      picture.append(drawing("line", { x1: LEFT, x2: right, y1: y(value), y2: y(value), class: "rule" }), drawing("text", { x: LEFT - 6, y: y(value) + 4, "text-anchor": "end" }, format(value)));
    }
    const along = timeTicks(from, to, Math.max(2, (right - LEFT) / 60));
    for (const at of along.values) picture.append(drawing("text", { x: x(at), y: height - 4, "text-anchor": x(at) > right - 14 ? "end" : "middle" }, along.text(at)));
    picture.append(drawing("line", { x1: LEFT, x2: right, y1: bottom, y2: bottom, class: "axis" }));
    if (limit !== null) picture.append(drawing("line", { x1: LEFT, x2: right, y1: y(limit), y2: y(limit), class: "limit" }));
    lines.forEach((line, place) => {
      const colour = `series-${(place % SERIES) + 1}`, isThere = (at) => (line.points[at]?.[1] ?? null) !== null;
      picture.append(drawing("path", { class: `line ${colour}`, d: path(line.points, x, y) }));
      line.points.forEach(([at, value], index) => { // a point without neighbours is no line
        if (value !== null && !isThere(index - 1) && !isThere(index + 1)) picture.append(drawing("circle", { cx: x(at), cy: y(value), r: 2.5, class: colour }));
      });
    });
    const cursor = drawing("line", { y1: TOP, y2: bottom, class: "cursor", visibility: "hidden" });
    const dots = lines.map((_, place) => drawing("circle", { r: 4, class: `series-${(place % SERIES) + 1}`, visibility: "hidden" }));
    picture.append(cursor, ...dots);
    listen(picture, { x, y, cursor, dots });
    return picture;
  };

  let chosen = -1;
  function listen(picture, { x, y, cursor, dots }) {
    const choose = (place) => {
      chosen = place;
      const at = place < 0 ? null : times[place];
      cursor.setAttribute("visibility", at === null ? "hidden" : "visible");
      if (at !== null) { cursor.setAttribute("x1", x(at)); cursor.setAttribute("x2", x(at)); }
      dots.forEach((dot, line) => {
        const value = at === null ? null : valueAt[line].get(at) ?? null;
        dot.setAttribute("visibility", value === null ? "hidden" : "visible");
        if (value !== null) { dot.setAttribute("cx", x(at)); dot.setAttribute("cy", y(value)); }
      });
      read(at);
    };
    picture.setAttribute("tabindex", "0");
    picture.addEventListener("pointermove", (event) => {
      const across = event.clientX - picture.getBoundingClientRect().left;
      let nearest = 0;
      times.forEach((at, place) => { if (Math.abs(x(at) - across) < Math.abs(x(times[nearest]) - across)) nearest = place; });
      choose(nearest);
    });
    picture.addEventListener("pointerleave", () => choose(-1));
    picture.addEventListener("blur", () => choose(-1));
    picture.addEventListener("keydown", (event) => {
      const last = times.length - 1, now = chosen < 0 ? last + 1 : chosen;
      const next = { ArrowLeft: Math.max(0, now - 1), ArrowRight: Math.min(last, now + 1), Home: 0, End: last }[event.key];
      if (next === undefined) return;
      event.preventDefault();
      choose(next);
    });
  }

  read(null);
  const shown = figure({ title, note, draw,
    describe: `${title}, ${whole.format(times[0])} to ${whole.format(times.at(-1))}: ${lines.map((line) => `${line.label} ${span(line)}`).join("; ")}; the arrow keys read the values`,
    names: ["Time", ...lines.map((line) => printable(line.label))],
    rows: () => times.toReversed().map((at) => [whole.format(at), ...valueAt.map((found) => text(found.get(at)))]) });
  shown.querySelector(".drawing").after(reading);
  if (lines.length > 1) shown.firstChild.after(legend(lines.map((line) => line.label)));
  return shown;
}
