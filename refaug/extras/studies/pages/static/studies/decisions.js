/** What counts for a question of an item: one rule for every form that decides it, and answers as they were given. */

import { put } from "../api.js";
import { element, fill, userText } from "../dom.js";
import { showProblem } from "../frame.js";

export const isScale = (question) => ["likert", "slider"].includes(question?.type);

/** Return a score as it was given: where a question is reversed, scores are turned so that higher is better. */
export const asGiven = (question, score) => (question.reverse ? (question.least ?? 1) + (question.most ?? 7) - score : score);

/** Return a number with up to two decimals. */
export const brief = (number) => String(Math.round(number * 100) / 100);

/** Return a form that decides by the field `value`, for a reason in `note`, and shows in `state` what was decided. */
export function decisionForm(study, { item, question, value, note, state, className }) {
  value.required = true;
  return element("form", { class: className, onsubmit: async (event) => {
    event.preventDefault();
    const typed = value.value.trim();
    if (typed === "") { fill(state, "Say what counts first."); value.focus(); return; } // spaces alone pass `required`
    try {
      const made = await put(`/v1/studies/${study.id}/adjudications`, { item, question: question.id, value: isScale(question) && Number.isFinite(Number(typed)) ? Number(typed) : typed, note: note.value.trim() });
      fill(state, "decided: ", userText(String(made.value)), made.note && [", ", userText(made.note)]);
    } catch (error) {
      showProblem(state, error);
    }
  } }, value, note, element("button", { type: "submit", class: "small" }, "Decide"));
}
