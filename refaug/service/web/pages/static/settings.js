/** The settings of the playground, as fields. */

import { element, fill } from "./dom.js";

/** How references are found: label and choices of each setting. */
export const RETRIEVAL = {
  mode: ["Search", [["embedding-utterance", "utterances by vectors"], ["encoder-utterance", "utterances by an encoder"], ["embedding-dialog", "utterances and replies by vectors"], ["bm25-utterance", "utterances by words (BM25)"], ["bm25-dialog", "utterances and replies by words"]]],
  k: ["References to find", [1, 3, 5, 10, 15, 20, 30, 50, 100].map((number) => [String(number), String(number)])],
  weights: ["Weights of what is found", [["rated", "the rater’s rating"], ["one", "one each"]]],
  combine: ["Two answers of the rater", [["first", "first"], ["first-literal", "first, literally"], ["max", "larger"], ["confident", "more confident"], ["mean", "mean"]]],
  gold: ["Weight of the gold", [["one", "one"], ["rated", "the rater’s rating"], ["none", "it plays no part"]]],
  parrot: ["The utterance as a reference", [["off", "no"], ["rated", "rated"]]],
  preset: ["Preset", [["", "what suits the index"], ["refaug-1", "refaug-1: as recommended"], ["tsuta20", "tsuta20: as published"]]],
};
const METRICS = {
  n: ["Longest n-gram", ["1", "2", "3", "4"].map((number) => [number, number])],
  variant: ["Variant of υBLEU", ["galley15", "galley-fork", "tsuta20", "sacrebleu-raw"].map((name) => [name, name])],
  smooth: ["Smoothing", ["exp", "none", "add-k", "floor", "epsilon"].map((name) => [name, name])],
  bp: ["Brevity penalty", ["closest", "closest-positive", "average", "gold", "none"].map((name) => [name, name])],
};

/** Fill the form; `metric` is the recommended one of the index, and `onChange` hears whether references are to be found again. */
export function buildSettings(form, state, metric, onChange) {
  const field = (group, name, label, choices, isRetrieval) => {
    const id = `setting-${name}`;
    const select = element("select", { id, onchange: () => { group[name] = select.value; onChange(isRetrieval); } },
      choices.map(([value, shown]) => element("option", { value }, shown)));
    select.value = group[name];
    return element("div", { class: "field" }, element("label", { for: id }, label), select);
  };
  const more = element("input", { id: "setting-more", spellcheck: "false", autocomplete: "off", placeholder: "upsilon-chrf rouge-l", onchange: () => { state.more = more.value; onChange(false); } });
  more.value = state.more;
  fill(form,
    metric && element("p", { class: "faint wide-field" }, `As they stand, ${metric} finds its own references: 50 by the encoder of the index, each of weight 1. Another choice of how references are found leaves it out.`),
    Object.entries(RETRIEVAL).map(([name, [label, choices]]) => field(state.retrieval, name, label, choices, true)),
    Object.entries(METRICS).map(([name, [label, choices]]) => field(state.metrics, name, label, choices, false)),
    element("div", { class: "field wide-field" }, element("label", { for: "setting-more" }, "Further metrics, as the command names them"), more,
      element("p", { class: "faint" }, "A metric with soft matches, such as upsilon-greedy:vectors=NAME, explains the words instead of υBLEU. Learned judges are likelihood:model=NAME, judge-fit:NAME, and adem:model=NAME.")));
}

document.addEventListener("submit", (event) => { if (event.target.id === "settings") event.preventDefault(); });
