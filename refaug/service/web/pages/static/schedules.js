/** Schedules: when which job begins, what became of the last times, pausing, running now, and a form. */

import { get, listAll, post, put, remove } from "./api.js";
import { byId, element, fill, printable, userText } from "./dom.js";
import { dueMoment, empty, moment, showProblem } from "./frame.js";
import { badge, emptyState, stateBadge } from "./components/states.js";
import { jobLink, openJob } from "./jobs.js";
import { openOrder } from "./orders.js";
import { ask } from "./question.js";

/** Return a table of schedules. */
export async function showSchedules(isAdmin, refresh) {
  const rows = await listAll("/v1/schedules", "schedules");
  if (!rows.length) return emptyState("Nothing runs by itself", "A schedule of kind “nightly” ingests what was posted, updates an index, checks it and publishes it.",
    isAdmin ? { label: "Make a schedule", act: () => openForm(null, refresh).catch((error) => showProblem(byId("page-problem"), error)) } : null);
  return element("div", { class: "scroll" }, element("table", {},
    element("thead", {}, element("tr", {}, ["Schedule", "When", "What", "Next", ""].map((name) => element("th", { scope: "col" }, name || element("span", { class: "visually-hidden" }, "Acts"))))),
    element("tbody", {}, rows.map((row) => element("tr", {},
      element("th", { scope: "row" }, userText(row.name), " ", row.enabled ? "" : badge("paused", "warn")),
      element("td", { dataset: { name: "When" } }, element("code", {}, row.cron), ` ${row.timezone}`),
      element("td", { dataset: { name: "What" } }, row.order.kind, " ", userText(row.order.index ?? row.order.log ?? row.order.name ?? "")),
      element("td", { dataset: { name: "Next" } }, row.next.length ? row.next.slice(0, 3).map((due) => element("div", {}, dueMoment(due, row.timezone))) : row.enabled ? "no next time is known" : "paused"),
      element("td", { class: "actions" }, runsButton(row.name), isAdmin && actions(row, refresh)))))));
}

/** Return a button that shows what became of the last times below its row. */
function runsButton(name) {
  const button = element("button", { type: "button", class: "small", "aria-expanded": "false", "aria-label": `Last runs of ${printable(name)}`, onclick: async () => {
    const below = button.closest("tr").nextElementSibling;
    if (below?.classList.contains("runs")) { below.remove(); button.setAttribute("aria-expanded", "false"); return; }
    const place = element("td", { colspan: 5 });
    button.closest("tr").after(element("tr", { class: "runs" }, place));
    button.setAttribute("aria-expanded", "true");
    try {
      const { firings } = await get(`/v1/schedules/${encodeURIComponent(name)}`);
      fill(place, firings.length ? element("ul", { class: "plain" }, firings.map((firing) => element("li", {}, ...run(firing)))) : empty(element("p", {}, "It has not run yet.")));
    } catch (error) {
      showProblem(place, error);
    }
  } }, "Runs");
  return button;
}

const run = ({ due, job, state, note }) => [
  moment(due), ": ", job === null ? element("span", { class: "warn" }, "did not run") : state === null ? "its job was removed since" : [stateBadge(state), " ", jobLink(job, "")],
  note ? [" ", userText(note)] : "",
];

function actions(row, refresh) {
  const button = (label, act, kind = "") => element("button", { type: "button", class: `small ${kind}`, "aria-label": `${label}: ${printable(row.name)}`, onclick: async () => {
    try { await act(); } catch (error) { showProblem(byId("page-problem"), error); byId("page-problem").scrollIntoView({ block: "nearest" }); }
  } }, label);
  const { name, cron, timezone, order, enabled } = row;
  return [
    button("Run now", async () => { const job = await post("/v1/jobs", withoutNulls(order)); location.hash = `job=${job.id}`; await refresh(); await openJob(job.id); }),
    button(enabled ? "Pause" : "Go on", async () => { await put(`/v1/schedules/${encodeURIComponent(name)}`, { cron, timezone, order: withoutNulls(order), enabled: !enabled }); await refresh(); }),
    button("Change", () => openForm(row, refresh)),
    button("Remove", () => ask({ title: `Remove schedule ${printable(name)}?`, text: [element("p", {}, "Jobs that it has begun stay, and go on.")], yes: "Remove it", act: async () => { await remove(`/v1/schedules/${encodeURIComponent(name)}`); await refresh(); } }), "danger"),
  ];
}

const withoutNulls = (order) => Object.fromEntries(Object.entries(order).filter(([, value]) => value !== null));

/** Open the form of a schedule: a new one, or one to be changed. */
function openForm(row, refresh) {
  const input = (id, text, attributes) => {
    const control = element("input", { id, autocomplete: "off", spellcheck: "false", ...attributes });
    control.value = text;
    return control;
  };
  const name = input("schedule-name", row?.name ?? "", { required: true, pattern: "[a-z0-9][a-z0-9._\\-]{0,63}", readonly: row !== null });
  const cron = input("schedule-cron", row?.cron ?? "", { required: true, placeholder: "30 2 * * *", "aria-describedby": "cron-help" });
  const zone = input("schedule-zone", row?.timezone ?? Intl.DateTimeFormat().resolvedOptions().timeZone, {});
  const field = (label, control, help) => element("div", { class: "field" }, element("label", { for: control.id }, label), control, help);
  return openOrder({
    title: row ? `Schedule ${row.name}` : "New schedule", button: row ? "Change it" : "Make it", order: row ? withoutNulls(row.order) : { kind: "nightly" },
    extra: element("div", { class: "fields" }, field("Name", name), field("When", cron, element("p", { class: "faint", id: "cron-help" }, printable("minute, hour, day of the month, month, day of the week"))), field("By the clocks of", zone)),
    deliver: async (order) => {
      await put(`/v1/schedules/${name.value}`, { cron: cron.value, timezone: zone.value, order, enabled: row?.enabled ?? true });
      byId("order").close();
      await refresh();
    },
  });
}

export function setUpSchedules(refresh) {
  byId("new-schedule").addEventListener("click", () => openForm(null, refresh).catch((error) => showProblem(byId("page-problem"), error)));
}
