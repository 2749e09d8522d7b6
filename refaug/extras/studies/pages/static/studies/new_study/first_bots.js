/** What stands where no bot is stored: the offer of two that reply from an index, so that a first study needs nothing else. */

import { address, listAll, put } from "../../api.js";
import { emptyState } from "../../components/states.js";
import { element, printable } from "../../dom.js";
import { allows, ownKey, showProblem } from "../../frame.js";

const BOTS = { "by-meaning": {}, "by-words": { mode: "bm25-utterance" } }; // how each finds what it replies

/** Return the offer; `show(names)` follows and shows the bots that are stored now, those of these names chosen. */
export async function firstBots(problem, show) {
  const place = document.querySelector("nav a[href$='/bots']"), own = await ownKey();
  const [index] = allows(own, "admin") ? (await listAll("/v1/artefacts/index", "artefacts")).filter((row) => row.current ?? row.published) : [];
  const another = place && { label: "Add a bot", href: address("/bots") };
  if (!index) return emptyState("No bot is stored yet", place ? "A study needs one that people can talk with." : "A study needs one that people can talk with: refaug bots add NAME FILE.", another);
  const add = async ({ currentTarget: button }) => {
    button.disabled = true;
    showProblem(problem, null);
    const names = Object.keys(BOTS);
    try {
      const stored = (await listAll("/v1/bots", "bots")).map((bot) => bot.name); // somebody else's stay as they are
      for (const name of names.filter((one) => !stored.includes(one))) await put(`/v1/bots/${name}`, { specification: { kind: "retrieval", index: index.name, ...BOTS[name] } });
    } catch (error) {
      showProblem(problem, error);
    }
    await show(names);
  };
  const offer = emptyState("No bot is stored yet", "Two can reply from an index: one finds messages of the same meaning, the other messages with the same words.", { label: `Add two that reply from ${printable(index.name)}`, act: add });
  if (another) offer.append(" ", element("a", { href: another.href }, "Add another kind"));
  return offer;
}
