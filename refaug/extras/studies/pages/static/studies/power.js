/** How many conversations or votes a study needs to see a difference, before it starts. */

import { post } from "../api.js";
import { byId, element, fill } from "../dom.js";
import { count, countOf } from "../format.js";
import { showProblem } from "../frame.js";
import { field, figure, number, select } from "./fields.js";

let isSetUp = false;

export function setUpPower() {
  if (isSetUp) return;
  isSetUp = true;
  const compare = select([["means", "means of two bots"], ["votes", "votes for one of two"]]);
  const parts = { difference: number(0.75, 0.01, 1_000, { step: "any" }), sd: number(1.3, 0.01, 1_000, { step: "any" }), rate: number(0.6, 0.5, 1, { step: "any" }), power: number(0.8, 0.5, 0.999, { step: "any" }), alpha: number(0.05, 0.0001, 0.5, { step: "any" }), each: number(1, 1, 200), rho: number(0.3, 0, 1, { step: "any" }) };
  const means = [field("power-difference", "Difference to be seen", parts.difference), field("power-sd", "Standard deviation of a rating", parts.sd, "1.1 to 1.4 on seven points, as published")];
  const votes = [field("power-rate", "Share of votes for the better one", parts.rate, "ties left out")];
  const form = byId("power-form");
  fill(form, element("div", { class: "fields" }, field("power-compare", "Compare", compare), means, votes, field("power-power", "Power", parts.power), field("power-alpha", "Level of the test", parts.alpha),
    field("power-each", "Ratings of each participant", parts.each), field("power-rho", "Agreement within a participant", parts.rho, "correlation of one's ratings")),
  element("div", { class: "row start-row" }, element("button", { type: "submit", id: "power-button" }, "Calculate")));
  const show = () => { for (const node of means) node.hidden = compare.value !== "means"; for (const node of votes) node.hidden = compare.value !== "votes"; };
  compare.addEventListener("change", show);
  show();
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const value = (name) => Number(parts[name].value), isMeans = compare.value === "means";
    const order = { ...(isMeans ? { difference: value("difference"), sd: value("sd") } : { win_rate: value("rate") }), power: value("power"), alpha: value("alpha"), ratings_per_participant: value("each"), rho: value("rho") };
    try {
      const answer = await post("/v1/studies/power", order);
      fill(byId("power-result"), element("p", {}, element("b", {}, count(answer.n)), isMeans ? " ratings of each bot" : " votes on the pair", `, from at least ${countOf(answer.participants, "participant")}${isMeans ? ", each of whom rates one of the two" : ""}.`),
        element("p", { class: "faint" }, `Several ratings of one person count for less: the design effect is ${figure(answer.design_effect)}.`));
    } catch (error) {
      showProblem(byId("power-result"), error);
    }
  });
}
