/** What stands where no bot is stored: the offer of two that reply from an index, so that a first study needs nothing else. */

import { address, listAll, put } from "../../api.js";
import { emptyState } from "../../components/states.js";
import { element, printable } from "../../dom.js";
import { allows, ownKey, showProblem } from "../../frame.js";

const BOTS = { "by-meaning": {}, "by-words": { mode: "bm25-utterance" } }; // how each finds what it replies

/** Return the offer; `onAdded(names)` follows the bots that were added. */
export async function firstBots(problem, onAdded) {
  const place = document.querySelector("nav a[href$='/bots']"), own = await ownKey();
  const [index] = allows(own, "admin") ? (await listAll("/v1/artefacts/index", "artefacts")).filter((row) => row.current ?? row.published) : [];
  const another = place && { label: "Add a bot", href: address("/bots") };
  if (!index) return emptyState("No bot is stored yet", place ? "A study needs one that people can talk with." : "A study needs one that people can talk with: refaug bots add NAME FILE.", another);
  const add = async () => {
    showProblem(problem, null);
    try {
      for (const [name, fields] of Object.entries(BOTS)) await put(`/v1/bots/${name}`, { specification: { kind: "retrieval", index: index.name, ...fields } });
      await onAdded(Object.keys(BOTS));
    } catch (error) {
      showProblem(problem, error);
    }
  };
  const offer = emptyState("No bot is stored yet", "Two can reply from an index: one finds messages of the same meaning, the other messages with the same words.", { label: `Add two that reply from ${printable(index.name)}`, act: add });
  if (another) offer.append(" ", element("a", { href: another.href }, "Add another kind"));
  return offer;
}
