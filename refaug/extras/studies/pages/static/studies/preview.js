/** What participants see of a study, made by the very modules of their page. */

import { element } from "../dom.js";
import { countOf } from "../format.js";
import { itemOf, paragraphs, turnList } from "../take/dialogues.js";
import { createForm } from "../take/forms.js";
import { markableText } from "../take/spans.js";

const EXAMPLE = [["participant", "Hello! What did you do today?"], ["bot", "I went to the market and bought some tea."], ["participant", "Which one do you like best?"], ["bot", "The green one."]].map(([role, text], place) => ({ n: place + 1, role, text, state: "answered" }));
const SIDES = (kind) => (/^(chat-)?pair/.test(kind) ? ["left", "right"] : ["one"]);

/** Return an example of what a task shows, where the items themselves are not at hand. */
function exampleOf(kind, training) {
  const sides = SIDES(kind).map((side) => ({ side, messages: kind.endsWith("reply") || kind.endsWith("reference") ? [] : EXAMPLE }));
  const turns = training?.items[0]?.turns?.map((turn, place) => (typeof turn === "string" ? { role: place % 2 ? "bot" : "participant", text: turn } : turn)) ?? EXAMPLE.slice(0, 3);
  const payload = { "pair-reply": { turns, replies: { left: "The green one.", right: "I am a bus." } }, "rate-reply": { turns, reply: "The green one." }, "rate-reference": { turns, reference: "The green one." } }[kind] ?? {};
  return { kind, sides, payload };
}

/** Return consent, screening, guidelines, an example and the form of a protocol, one below the other. */
export function previewOf(protocol) {
  const form = (scopes, prefix = "", text = null) => createForm(protocol.form, { scopes, prefix, onAnswer: () => undefined, text });
  const example = exampleOf(protocol.kind, protocol.training), step = (title, ...content) => element("section", { class: "panel", "aria-label": title }, element("h3", {}, title), content);
  const screening = createForm({ questions: protocol.screening ?? [] }, { onAnswer: () => undefined });
  const hasSides = SIDES(protocol.kind).length > 1;
  const ofTurns = protocol.form.questions.filter(({ scope }) => scope === "turn"), hasSpans = ofTurns.some(({ type }) => type === "spans");
  const extra = (turn) => {
    if (turn.role !== "bot" || !ofTurns.length) return null;
    const words = hasSpans ? markableText(turn.text) : null;
    return { node: form(["turn"], `${turn.n}/`, words).node, text: words?.node };
  };
  return element("div", { class: "preview take", lang: protocol.language },
    step("1. Consent", paragraphs(protocol.consent || "(no text yet: the study cannot begin without one)", 4), !screening.isEmpty && screening.node),
    protocol.guidelines && step("2. What to do", paragraphs(protocol.guidelines, 4)),
    protocol.training && step(`3. Practice: ${countOf(protocol.training.items.length, "item")}, ${countOf(protocol.training.attempts, "attempt")}`, turnList(exampleOf(protocol.kind, protocol.training).payload.turns ?? [], { label: "practice" })),
    step(`${protocol.training ? 4 : 3}. A task`, element("p", { class: "faint" }, "with an example in place of what the bots will say"), itemOf(example, extra)),
    step(`${protocol.training ? 5 : 4}. The questions`, form(hasSides ? ["task"] : ["task", "side"]).node, hasSides && SIDES(protocol.kind).map((side) => { const made = form(["side"], `${side}/`); return made.isEmpty ? null : [element("h4", {}, side), made.node]; })),
    element("p", { class: "faint" }, "Try it yourself: begin the pilot, make a link, and open it. What the pilot collects stays out of the report."));
}
