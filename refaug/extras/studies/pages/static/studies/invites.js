/** Links for participants: made here and shown once, as text, to open, and to scan; those made so far; a recruiter's list. */

import { address, listAll, post, remove } from "../api.js";
import { moment } from "../components/states.js";
import { table } from "../components/tables.js";
import { element, fill, userText } from "../dom.js";
import { count, countOf } from "../format.js";
import { showProblem } from "../frame.js";
import { ask } from "../question.js";
import { field, number, saveText, text } from "./fields.js";
import { card, copyButton, csvOf } from "./parts.js";
import { qrDrawing } from "./qr.js";
import { recruitsSection } from "./recruits.js";

const ROWS = 50; // of new links, and of those that were made before
const linkOf = (token) => `${location.origin}${address("/take")}#${token}`;
const people = (most) => (most === null ? "any number of people" : most === 1 ? "one person" : countOf(most, "person", "people"));

export function linksTab(study, { mayChange }) {
  const list = element("div", { id: "invites", "aria-busy": "true" }), state = element("div", { id: "new-links", "aria-live": "polite" });
  const canMake = mayChange && study.state !== "closed";
  const show = () => showInvites(study, list, state, { canMake, show });
  show();
  return [
    canMake && card("invites-title", "New links", makeForm(study, state, show), state),
    card("made-title", "Links so far", list),
    mayChange && card("recruits-title", "People of a recruiting service", recruitsSection(study)),
  ];
}

function makeForm(study, state, onMade) {
  const many = number(1, 1, 10_000), uses = number("", 1, 1_000_000), days = number("", 1, 3_650), label = text({ maxlength: 100 });
  const reach = element("p", { class: "faint", id: "link-reach", role: "status" });
  const say = () => { reach.textContent = `${countOf(Number(many.value) || 0, "link")}; ${Number(many.value) === 1 ? "it" : "each"} takes ${uses.value === "" ? "any number of people: give it to a group, a class or a recruiting service" : Number(uses.value) === 1 ? "one person, who comes back by it on any device" : `${countOf(Number(uses.value), "person", "people")}, who count with their first answer`}.${study.protocol.participants < 100_000 ? ` The study takes ${count(study.protocol.participants)} people at most.` : ""}`; };
  say();
  return element("form", { id: "invite-form", oninput: say, onsubmit: async (event) => {
    event.preventDefault();
    const order = { count: Number(many.value), ...(uses.value === "" ? {} : { uses_max: Number(uses.value) }), ...(days.value === "" ? {} : { expires: new Date(Date.now() + Number(days.value) * 86_400_000).toISOString() }), ...(label.value.trim() ? { label: label.value.trim() } : {}) };
    try {
      const { invites } = await post(`/v1/studies/${study.id}/invites`, order);
      showNewLinks(state, study, invites);
      await onMade();
    } catch (error) {
      showProblem(state, error);
    }
  } }, element("div", { class: "fields" }, field("invite-count", "Links", many), field("invite-uses", "Participants of each link", uses, "empty: any number"), field("invite-days", "Ends after days", days, "empty: never"), field("invite-label", "Label", label, "seen here only")),
  reach, element("div", { class: "row start-row" }, element("button", { type: "submit", class: "primary", id: "make-links" }, "Make links")));
}

function showQr(study, link) {
  const code = qrDrawing(link, `QR code of ${link}`), dialog = element("dialog", { class: "qr-dialog", "aria-labelledby": "qr-title" });
  fill(dialog, element("h2", { id: "qr-title" }, "Scan to take part"), code ?? element("p", {}, "This link is too long for a code."), element("p", { class: "faint" }, element("code", {}, link)),
    element("div", { class: "row" }, code && element("button", { type: "button", class: "primary", onclick: () => saveText(new XMLSerializer().serializeToString(code), `${study.name}-qr.svg`, "image/svg+xml") }, "Keep the drawing"), element("button", { type: "button", onclick: () => dialog.close() }, "Close")));
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
}

function showNewLinks(place, study, invites) {
  const links = invites.map((invite) => linkOf(invite.token));
  const rows = () => [["link", "label", "people", "ends"], ...invites.map((invite, at) => [links[at], invite.label, invite.uses_max ?? "any number", invite.expires ?? "never"])];
  fill(place, element("div", { class: "notice" },
    element("p", {}, element("b", {}, links.length === 1 ? "The link, shown this once" : `${count(links.length)} links, shown this once`), `: ${links.length === 1 ? "it takes" : "each takes"} ${people(invites[0].uses_max)}.`),
    element("ul", { class: "plain links" }, links.slice(0, ROWS).map((link, at) => element("li", {}, element("code", { class: "link" }, link), element("span", { class: "row" },
      copyButton("Copy", () => link, { "aria-label": `Copy link ${at + 1}` }), element("a", { class: "button small", href: link, target: "_blank", rel: "noopener", "aria-label": `Open link ${at + 1}` }, "Open"),
      element("button", { type: "button", class: "small", "aria-label": `QR code of link ${at + 1}`, onclick: () => showQr(study, link) }, "QR code"))))),
    links.length > ROWS && element("p", { class: "faint" }, `and ${count(links.length - ROWS)} more, in the file`),
    element("div", { class: "row" }, links.length > 1 && copyButton("Copy all", () => links.join("\n"), { id: "copy-links" }), element("button", { type: "button", class: "small", id: "keep-links", onclick: () => saveText(csvOf(rows()), `${study.name}-links.csv`, "text/csv") }, "Keep as CSV"))));
}

async function showInvites(study, list, trouble, { canMake, show }) {
  try {
    const invites = await listAll(`/v1/studies/${study.id}/invites`, "invites", 10_000), rows = invites.toReversed();
    const open = invites.filter((invite) => !invite.revoked && (invite.uses_max === null || invite.uses < invite.uses_max) && (!invite.expires || new Date(invite.expires) > Date.now()));
    fill(list, rows.length === 0 ? element("p", { class: "empty" }, canMake ? "No link yet. Whoever opens one takes part, and counts with the first answer." : "No link was made.") : [
      element("p", {}, `${countOf(rows.length, "link")}, ${count(open.length)} still open${open.length && open.every((invite) => invite.uses_max !== null) ? `: room for ${countOf(open.reduce((sum, invite) => sum + invite.uses_max - invite.uses, 0), "more person", "more people")}` : ""}.`),
      table(["Label", { name: "People", isNumber: true }, { name: "Takes", isNumber: true }, "Made", "Ends", ""], rows.map((invite) => [
        userText(invite.label || invite.id.slice(-6)), count(invite.uses), invite.uses_max === null ? "any" : count(invite.uses_max), moment(invite.created),
        invite.revoked ? element("span", { class: "bad" }, "taken back ", moment(invite.revoked)) : invite.expires ? moment(invite.expires) : "never",
        invite.revoked || !canMake ? "" : element("button", { type: "button", class: "small danger", "aria-label": `Take back ${invite.label || invite.id.slice(-6)}`, onclick: () => ask({
          title: "Take this link back?", text: [element("p", {}, "It opens nothing any more; whom it has let in goes on.")], yes: "Take back", act: async () => { await remove(`/v1/studies/${study.id}/invites/${invite.id}`); await show(); },
        }) }, "Take back")]), { most: ROWS })]);
  } catch (error) {
    showProblem(list, error);
  }
  list.removeAttribute("aria-busy");
}
