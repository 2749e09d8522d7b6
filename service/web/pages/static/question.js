/** The second question before an act that changes what others get. */

import { byId, fill } from "./dom.js";
import { showProblem } from "./frame.js";

let current = null;

/** Ask; `act` runs after a yes, and `again` may turn its error into a further question. */
export function ask(question) {
  current = question;
  byId("question-title").textContent = question.title;
  fill(byId("question-text"), question.text);
  byId("question-yes").textContent = question.yes;
  byId("question-yes").disabled = false;
  showProblem(byId("question-problem"), null);
  byId("question").showModal();
}

byId("question-no").addEventListener("click", () => byId("question").close());
byId("question-form").addEventListener("submit", async (event) => {
  event.preventDefault();
  const yes = byId("question-yes");
  yes.disabled = true;
  try {
    await current.act();
    byId("question").close();
  } catch (error) {
    showProblem(byId("question-problem"), error);
    const again = current.again?.(error) ?? null;
    if (again !== null) { current = { ...current, ...again, again: undefined }; yes.textContent = again.yes; }
    yes.disabled = false;
  }
});
