/** Numbers, sizes, times and ages for people, in the zone of the reader. */

const exact = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });
const brief = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "short" });
const days = new Intl.DateTimeFormat(undefined, { dateStyle: "medium" });
const whole = new Intl.NumberFormat();
const UNITS = [["year", 31_557_600], ["month", 2_629_800], ["day", 86_400], ["h", 3_600], ["min", 60], ["s", 1]];

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

/** Return how long ago a moment is, or how long it takes until it comes: `24 min ago`, `in 3 days`. */
export function age(moment) {
  const seconds = (new Date(moment).getTime() - Date.now()) / 1_000;
  const [unit, size] = UNITS.find(([, least]) => Math.round(Math.abs(seconds)) >= least) ?? UNITS.at(-1);
  const number = Math.max(1, Math.round(Math.abs(seconds) / size)), name = size > 3_600 && number > 1 ? `${unit}s` : unit;
  return seconds > 0 ? `in ${number}\u00a0${name}` : `${number}\u00a0${name} ago`;
}

export const day = (moment) => days.format(new Date(moment));

export const time = (moment) => brief.format(new Date(moment));

/** Return the time of day, and the day where it is not the next one, by the clocks of a zone, which is named; by those of the reader where the browser does not know the zone. */
export function timeIn(moment, zone) {
  try {
    const isNear = Math.abs(new Date(moment) - Date.now()) < 20 * 3_600_000; // the day goes without saying
    return `${new Intl.DateTimeFormat(undefined, { ...(isNear ? {} : { weekday: "short" }), hour: "numeric", minute: "2-digit", timeZone: zone }).format(new Date(moment))}, ${zone}`;
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
