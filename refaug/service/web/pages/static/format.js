/** Numbers, sizes, times and ages for people, in the language and the zone of the reader. */

const exact = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });
const brief = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "short" });
const relative = new Intl.RelativeTimeFormat(undefined, { numeric: "auto" });
const whole = new Intl.NumberFormat();
const UNITS = [["year", 31_557_600], ["month", 2_629_800], ["day", 86_400], ["hour", 3_600], ["minute", 60], ["second", 1]];

export const count = (number) => whole.format(number);

/** Return a count with its noun: `1 reply`, `2 replies`. */
export const countOf = (number, one, many = `${one}s`) => `${count(number)} ${number === 1 ? one : many}`;

/** Return a score with three decimals; a dash where there is none, and no sign before a zero. */
export const score = (number) => (typeof number === "number" ? number.toFixed(3).replace("-", "−").replace("−0.000", "0.000") : "–");

/** Return a number with its sign. */
export function signed(number, digits = 2) {
  if (typeof number !== "number") return "–";
  const size = Math.abs(number).toFixed(digits);
  return `${number < 0 && Number(size) ? "−" : "+"}${size}`;
}

export function bytes(size) {
  if (typeof size !== "number") return "–";
  const units = ["B", "kB", "MB", "GB", "TB"];
  let number = size, place = 0;
  while (number >= 1_000 && place < units.length - 1) { number /= 1_000; place += 1; }
  return `${number < 10 && place ? number.toFixed(1) : Math.round(number)} ${units[place]}`;
}

/** Return how long ago a moment is, or how long it takes until it comes. */
export function age(moment) {
  const exactly = (new Date(moment).getTime() - Date.now()) / 1_000;
  const seconds = Math.abs(exactly) < 1 ? Math.sign(exactly) || -1 : exactly; // "now" does not fit behind "asked for" and the like
  const [unit, size] = UNITS.find(([, least]) => Math.abs(seconds) >= least) ?? UNITS.at(-1);
  return relative.format(Math.round(seconds / size), unit);
}

export const time = (moment) => brief.format(new Date(moment));

/** Return a time by the clocks of a zone, which is named; by those of the reader where the browser does not know the zone. */
export function timeIn(moment, zone) {
  try {
    return `${new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "short", timeZone: zone }).format(new Date(moment))}, ${zone}`;
  } catch {
    return `${time(moment)}, ${Intl.DateTimeFormat().resolvedOptions().timeZone}`;
  }
}

export const exactTime = (moment) => `${exact.format(new Date(moment))} (${Intl.DateTimeFormat().resolvedOptions().timeZone})`;

export function duration(from, to) {
  const seconds = Math.max(0, (new Date(to ?? Date.now()) - new Date(from)) / 1_000);
  if (seconds < 60) return `${seconds < 10 ? seconds.toFixed(1) : Math.round(seconds)}\u00a0s`;
  if (seconds < 3_600) return `${Math.floor(seconds / 60)} min ${Math.round(seconds % 60)}\u00a0s`;
  return `${Math.floor(seconds / 3_600)}\u00a0h ${Math.round((seconds % 3_600) / 60)} min`;
}
