/** Forest plots: estimates with their intervals, one under the other, and beside each its numbers. */

import { figure, legend, SERIES, ticks } from "../charts.js";
import { drawing, printable } from "../dom.js";

const LETTER = 7.4, LINE = 24; // pixels, of a letter and of an interval
const shortened = (text, letters) => (text.length > letters ? `${text.slice(0, Math.max(1, letters - 1))}…` : text);
const minus = (number) => String(number).replace("-", "−");

/**
 * Return a forest plot. `rows` are `{label, estimates: [{value, low, high, why} or null, …]}` with an estimate for each of
 * `series` (names, one or several side by side); `zero` is the line of no difference, if there is one; `unit` names the
 * axis. An estimate without a value shows `why`, such as "too few".
 */
export function forestPlot({ title, note = null, rows, series = [""], zero = null, unit = "", digits = 2 }) {
  const number = (value) => (typeof value === "number" ? value.toFixed(digits).replace("-", "−") : "–");
  const written = (one) => (typeof one?.value !== "number" ? one?.why ?? "–" : typeof one.low === "number" ? `${number(one.value)} [${number(one.low)}, ${number(one.high)}]` : number(one.value));
  const draw = (width) => {
    const ends = rows.flatMap((row) => row.estimates).flatMap((one) => [one?.value, one?.low, one?.high]).filter(Number.isFinite);
    const most = Math.max(4, ...rows.flatMap((row) => row.estimates.map((one) => written(one).length)));
    const isWide = width > 460, names = rows.map((row) => printable(row.label));
    const left = isWide ? Math.min(width * 0.35, 12 + LETTER * Math.max(...names.map((name) => name.length))) : 8;
    const right = width - 12 - LETTER * most, above = isWide ? 0 : 18, high = above + LINE * series.length + 4;
    const bottom = 6 + high * rows.length;
    const picture = drawing("svg", { viewBox: `0 0 ${width} ${bottom + (unit ? 38 : 22)}`, width, height: bottom + (unit ? 38 : 22), class: "plot" });
    const low = Math.min(...ends, zero ?? Infinity), top = Math.max(...ends, zero ?? -Infinity), room = (top - low || Math.abs(top) || 1) * 0.05;
    const span = ends.length ? [low - room, top + room] : [0, 1];
    const x = (value) => left + ((value - span[0]) / (span[1] - span[0])) * (right - left);
    for (const value of ticks(...span, Math.max(2, (right - left) / 70))) {
      picture.append(drawing("line", { x1: x(value), x2: x(value), y1: 6, y2: bottom, class: "rule" }), drawing("text", { x: x(value), y: bottom + 16, "text-anchor": "middle" }, minus(value)));
    }
    picture.append(drawing("line", { x1: left, x2: right, y1: bottom, y2: bottom, class: "axis" }));
    if (zero !== null) picture.append(drawing("line", { x1: x(zero), x2: x(zero), y1: 6, y2: bottom, class: "axis" }));
    if (unit) picture.append(drawing("text", { x: (left + right) / 2, y: bottom + 34, "text-anchor": "middle" }, unit));
    rows.forEach((row, place) => {
      const start = 6 + high * place;
      const name = isWide ? { x: left - 8, y: start + (LINE * series.length) / 2 + 6, "text-anchor": "end" } : { x: left, y: start + 16 };
      picture.append(drawing("text", { ...name, class: "strong halo" }, shortened(names[place], Math.floor((isWide ? left - 10 : width - 12) / LETTER))));
      row.estimates.forEach((one, at) => {
        const y = start + above + LINE * (at + 0.5) + 2, colour = `series-${(at % SERIES) + 1}`;
        picture.append(drawing("text", { x: width - 4, y: y + 4, "text-anchor": "end", class: "number" }, written(one)));
        if (typeof one?.value !== "number") return;
        if (typeof one.low === "number" && typeof one.high === "number") picture.append(drawing("line", { x1: x(one.low), x2: x(one.high), y1: y, y2: y, class: `whisker ${colour}` }));
        picture.append(drawing("rect", { x: x(one.value) - 4, y: y - 4, width: 8, height: 8, class: colour }));
      });
    });
    return picture;
  };
  const shown = figure({ title, note, draw,
    describe: `${title}: ${rows.slice(0, 20).map((row) => `${row.label} ${row.estimates.map((one, at) => `${series[at]} ${written(one)}`.trim()).join(", ")}`).join("; ")}`,
    names: ["", ...series.map((name) => name || "Estimate")],
    rows: () => rows.map((row) => [printable(row.label), ...row.estimates.map(written)]) });
  if (series.length > 1) shown.firstChild.after(legend(series));
  return shown;
}
