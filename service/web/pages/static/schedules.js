/** Schedules: next runs, pausing, running now, and a form for a new one. */

import { listAll, post, put, remove } from "./api.js";
import { byId, element, printable, userText } from "./dom.js";
import { empty, moment, showProblem } from "./frame.js";
import { openJob } from "./jobs.js";
import { openOrder } from "./orders.js";
import { ask } from "./question.js";

/** Return a table of schedules. */
export async function showSchedules(isAdmin, refresh) {
  const rows = await listAll("/v1/schedules", "schedules");
  if (!rows.length) return empty(element("p", {}, "Nothing runs by itself. A schedule of kind “nightly” ingests what was posted, updates an index, checks it and publishes it."));
  return element("div", { class: "scroll" }, element("table", { class: "stacked" },
    element("thead", {}, element("tr", {}, ["Schedule", "When", "What", "Next", ""].map((name) => element("th", { scope: "col" }, name || element("span", { class: "visually-hidden" }, "Acts"))))),
    element("tbody", {}, rows.map((row) => element("tr", {},
      element("th", { scope: "row" }, userText(row.name), row.enabled ? "" : element("span", { class: "badge warn" }, "paused")),
      element("td", { dataset: { name: "When" } }, element("code", {}, row.cron), ` ${row.timezone}`),
      element("td", { dataset: { name: "What" } }, row.order.kind, " ", userText(row.order.index ?? row.order.log ?? row.order.name ?? "")),
      element("td", { dataset: { name: "Next" } }, row.next[0] ? moment(row.next[0]) : "–"),
      element("td", { class: "actions" }, isAdmin && actions(row, refresh)))))));
}

function actions(row, refresh) {
  const button = (label, act, kind = "") => element("button", { type: "button", class: `small ${kind}`, "aria-label": `${label}: ${row.name}`, onclick: async () => {
    try { await act(); } catch (error) { showProblem(byId("page-problem"), error); byId("page-problem").scrollIntoView({ block: "nearest" }); }
  } }, label);
  const { name, cron, timezone, order, enabled } = row;
  return [
    button("Run now", async () => { const job = await post("/v1/jobs", withoutNulls(order)); location.hash = `job=${job.id}`; await refresh(); await openJob(job.id); }),
    button(enabled ? "Pause" : "Go on", async () => { await put(`/v1/schedules/${name}`, { cron, timezone, order: withoutNulls(order), enabled: !enabled }); await refresh(); }),
    button("Remove", () => ask({ title: `Remove schedule ${name}?`, text: [element("p", {}, "Jobs that it has begun stay, and go on.")], yes: "Remove it", act: async () => { await remove(`/v1/schedules/${name}`); await refresh(); } }), "danger"),
  ];
}

const withoutNulls = (order) => Object.fromEntries(Object.entries(order).filter(([, value]) => value !== null));

export function setUpSchedules(refresh) {
  byId("new-schedule").addEventListener("click", () => {
    const name = element("input", { id: "schedule-name", required: true, pattern: "[a-z0-9][a-z0-9._\\-]{0,63}", autocomplete: "off" });
    const cron = element("input", { id: "schedule-cron", required: true, placeholder: "30 2 * * *", "aria-describedby": "cron-help" });
    const zone = element("input", { id: "schedule-zone", autocomplete: "off" });
    zone.value = Intl.DateTimeFormat().resolvedOptions().timeZone;
    const field = (label, control, help) => element("div", { class: "field" }, element("label", { for: control.id }, label), control, help);
    openOrder({
      title: "New schedule", button: "Make it", order: { kind: "nightly" },
      extra: element("div", { class: "fields" }, field("Name", name), field("When", cron, element("p", { class: "faint", id: "cron-help" }, printable("minute, hour, day of the month, month, day of the week"))), field("By the clocks of", zone)),
      deliver: async (order) => {
        await put(`/v1/schedules/${name.value}`, { cron: cron.value, timezone: zone.value, order, enabled: true });
        byId("order").close();
        await refresh();
      },
    }).catch((error) => showProblem(byId("page-problem"), error));
  });
}
