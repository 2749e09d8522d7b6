/** The second question before an act that changes what others get; grave acts ask for a word, too. */

import { byId, element, fill } from "./dom.js";
import { showProblem } from "./frame.js";

let current = null;

/** Ask; `act` runs after a yes, `word` is to be typed first, and `again` may turn an error into a further question. */
export function ask(question) {
  byId("question-title").textContent = question.title;
  fill(byId("question-text"), question.text);
  showProblem(byId("question-problem"), null);
  show(question);
  byId("question").showModal();
}

function show(question) {
  current = question;
  const yes = byId("question-yes");
  yes.textContent = question.yes;
  yes.disabled = Boolean(question.word);
  fill(byId("question-word"), question.word && [
    element("label", { for: "question-typed" }, "To go on, type ", element("code", {}, question.word)),
    element("input", { id: "question-typed", autocomplete: "off", spellcheck: "false", oninput: (event) => { yes.disabled = event.target.value.trim() !== question.word; } }),
  ]);
}

byId("question-no").addEventListener("click", () => byId("question").close());
byId("question-form").addEventListener("submit", async (event) => {
  event.preventDefault();
  const yes = byId("question-yes");
  if (yes.disabled) return;
  yes.disabled = true;
  try {
    await current.act();
    byId("question").close();
  } catch (error) {
    showProblem(byId("question-problem"), error);
    const again = current.again?.(error) ?? null;
    if (again === null) yes.disabled = false;
    else show({ ...current, ...again, again: undefined });
  }
});
