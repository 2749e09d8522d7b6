/** Links for participants: made here, shown once, taken back. */

import { address, get, post, remove } from "../api.js";
import { element, fill, userText } from "../dom.js";
import { count } from "../format.js";
import { copyText, moment, showProblem } from "../frame.js";
import { field, number, saveText, table, text } from "./fields.js";

const linkOf = (token) => `${location.origin}${address("/take")}#${token}`;

export function inviteSection(study) {
  const many = number(1, 1, 10_000), uses = number("", 1, 1_000_000), days = number("", 1, 3_650), label = text({ maxlength: 100 });
  const state = element("div", { id: "new-links", "aria-live": "polite" }), list = element("div", { id: "invites", "aria-busy": "true" });
  const form = element("form", { id: "invite-form", onsubmit: async (event) => {
    event.preventDefault();
    const order = { count: Number(many.value), ...(uses.value === "" ? {} : { uses_max: Number(uses.value) }), ...(days.value === "" ? {} : { expires: new Date(Date.now() + Number(days.value) * 86_400_000).toISOString() }), ...(label.value.trim() ? { label: label.value.trim() } : {}) };
    try {
      const made = await post(`/v1/studies/${study.id}/invites`, order);
      showLinks(state, made.invites.map((invite) => linkOf(invite.token)), study);
      await showInvites();
    } catch (error) {
      showProblem(state, error);
    }
  } }, element("div", { class: "fields" }, field("invite-count", "Links", many), field("invite-uses", "Participants of each link", uses, "1: a link for one person. Empty: any number"), field("invite-days", "Ends after days", days), field("invite-label", "Label", label, "seen here only")),
  element("div", { class: "row start-row" }, element("button", { type: "submit", id: "make-links" }, "Make links")));

  async function showInvites() {
    try {
      const { invites } = await get(`/v1/studies/${study.id}/invites`);
      fill(list, invites.length > 0 && element("details", {}, element("summary", {}, `${count(invites.length)} made so far`), table(["Label", "Used", "Made", "Ends", ""], invites.map((invite) => [
        userText(invite.label || invite.id.slice(-6)), `${count(invite.uses)}${invite.uses_max === null ? "" : ` of ${count(invite.uses_max)}`}`, moment(invite.created),
        invite.revoked ? element("span", { class: "bad" }, "taken back ", moment(invite.revoked)) : invite.expires ? moment(invite.expires) : "never",
        invite.revoked ? "" : element("button", { type: "button", class: "small danger", "aria-label": `Take back ${invite.label || invite.id.slice(-6)}`, onclick: async () => {
          try {
            await remove(`/v1/studies/${study.id}/invites/${invite.id}`);
            await showInvites();
          } catch (error) {
            showProblem(state, error);
          }
        } }, "Take back")]), { isNumber: (place) => place === 1 })));
    } catch (error) {
      showProblem(list, error);
    }
    list.removeAttribute("aria-busy");
  }
  showInvites();
  return [element("p", {}, "Whoever opens a link takes part, and counts with the first answer. Recruiting services send their people to the same link with an id of theirs, such as ", element("code", {}, "/take?PROLIFIC_PID={{%PROLIFIC_PID%}}#…"), "; the id is kept as a keyed hash only."), form, state, list];
}

function showLinks(place, links, study) {
  const copy = element("button", { type: "button", class: "small", onclick: () => copyText(links.join("\n")).then((isCopied) => { copy.textContent = isCopied ? "Copied" : "Select them above"; }) }, "Copy");
  fill(place, element("div", { class: "notice" }, element("p", {}, links.length === 1 ? "The link, shown this once:" : `${count(links.length)} links, shown this once:`),
    element("pre", { class: "links", tabindex: 0, "aria-label": "New links" }, links.join("\n")),
    element("div", { class: "row" }, copy, element("button", { type: "button", class: "small", onclick: () => saveText(`${links.join("\n")}\n`, `${study.name}-links.txt`) }, "Keep them as a file"))));
}
