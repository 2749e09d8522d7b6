/** Keys: what the key of this tab allows, and for an admin all keys, new ones, and revoking. */

import { listAll, post, remove } from "./api.js";
import { badge, emptyState, moment } from "./components/states.js";
import { table } from "./components/tables.js";
import { byId, element, fill, printable, userText } from "./dom.js";
import { count } from "./format.js";
import { allows, copyText, keyInvitation, ownKey, showProblem, start } from "./frame.js";

const SCOPES = [...document.querySelectorAll("#new-key [name=scope]")].map((box) => ({ name: box.value, allowed: box.dataset.allowed }));
let isRequired = false;

function showOwn(own) {
  const place = byId("own");
  place.removeAttribute("aria-busy");
  if (own === null) {
    fill(place, keyInvitation());
    return;
  }
  const limits = [own.rate_per_s !== null && `${own.rate_per_s} requests a second`, own.quota_per_day !== null && `${count(own.quota_per_day)} requests a day`].filter(Boolean);
  fill(place,
    element("dl", { class: "facts" },
      element("dt", {}, "Name"), element("dd", {}, userText(own.name)),
      element("dt", {}, "It allows"), element("dd", {}, SCOPES.filter(({ name }) => own.scopes.includes(name)).map(({ name, allowed }) => element("div", {}, element("b", {}, name), `: ${allowed}`))),
      element("dt", {}, "Limits"), element("dd", {}, limits.join(", ") || "none"),
      element("dt", {}, "It ends"), element("dd", {}, own.expires ? moment(own.expires) : "never")),
    !own.required && element("p", { class: "faint" }, "This service asks for no keys: everybody who reaches it may do everything. With ", element("code", {}, "refaug serve --keys"), " it asks for them, and this page makes them."));
}

async function showKeys() {
  const keys = await listAll("/v1/keys", "keys");
  fill(byId("keys"), keys.length ? table(["Name", "Allows", { name: "Limits", isMinor: true }, "Made", "Ends", ""], keys.map(keyRow))
    : isRequired ? emptyState("No key yet", "Each person and each program gets one of its own.", { label: "Make a key", act: () => byId("key-name").focus() })
      : emptyState("No key yet", "This service asks for none: everybody who reaches it may do everything."));
}

function keyRow(row) {
  const limits = [row.rate_per_s !== null && `${row.rate_per_s}/s`, row.quota_per_day !== null && `${count(row.quota_per_day)}/day`].filter(Boolean).join(", ") || "none";
  const isOver = row.revoked !== null || (row.expires !== null && new Date(row.expires) < new Date());
  return [[userText(row.name), " ", element("span", { class: "faint mono" }, row.id)], row.scopes.join(", "), limits, moment(row.created),
    row.revoked ? [badge("revoked", "bad"), " ", moment(row.revoked)] : row.expires ? moment(row.expires) : "never",
    !isOver && isRequired && revokeButton(row)];
}

function revokeButton(row) {
  const button = element("button", { type: "button", class: "small danger", onclick: async () => {
    if (button.dataset.asked !== "yes") {
      button.dataset.asked = "yes";
      button.textContent = `Really revoke ${printable(row.name)}?`;
      return;
    }
    try {
      await remove(`/v1/keys/${row.id}`);
      await showKeys();
    } catch (error) {
      showProblem(byId("page-problem"), error);
    }
  }, onblur: () => { button.dataset.asked = ""; button.textContent = "Revoke"; } }, "Revoke");
  return button;
}

async function make(event) {
  event.preventDefault();
  const number = (id) => (byId(id).value === "" ? undefined : Number(byId(id).value));
  const days = number("key-days");
  const order = {
    name: byId("key-name").value,
    scopes: [...document.querySelectorAll("#new-key [name=scope]:checked")].map((box) => box.value),
    rate_per_s: number("key-rate"),
    quota_per_day: number("key-quota"),
    expires: days === undefined ? undefined : new Date(Date.now() + days * 86_400_000).toISOString(),
  };
  const place = byId("new-state");
  try {
    const made = await post("/v1/keys", order);
    const token = element("code", {}, made.token);
    fill(place, element("div", { class: "notice" }, element("p", {}, "Key ", element("b", {}, userText(made.name)), ", shown this once: keep it where only its user can read it."), element("p", {}, token),
      element("button", { type: "button", class: "small", onclick: (copied) => copyText(made.token).then((isCopied) => { copied.target.textContent = isCopied ? "Copied" : "Select it above"; }) }, "Copy")));
    byId("new-key").reset();
    await showKeys();
  } catch (error) {
    showProblem(place, error);
  }
}

async function load() {
  showProblem(byId("page-problem"), null);
  try {
    const own = await ownKey(), isAdmin = allows(own, "admin");
    isRequired = own?.required ?? true;
    showOwn(own);
    byId("keys-box").hidden = !isAdmin;
    byId("new-box").hidden = !isAdmin || !isRequired;
    if (isAdmin) await showKeys();
  } catch (error) {
    showProblem(byId("page-problem"), error);
  }
}

byId("new-key").addEventListener("submit", make);
start(load);
