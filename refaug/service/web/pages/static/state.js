/** What the playground holds, its drafts in the tab, and its permanent link in the fragment of the address. */

const DRAFT = "refaug.playground";

export const DEFAULT_METRICS = { n: "2", variant: "galley15", smooth: "exp", bp: "closest" };
export const DEFAULT_RETRIEVAL = { mode: "embedding-utterance", k: "15", combine: "first", weights: "rated", gold: "one", parrot: "off", preset: "" };

/** Return the state of an empty playground. */
export const blank = () => ({
  turns: [""],
  gold: "",
  replies: [""],
  metrics: { ...DEFAULT_METRICS },
  retrieval: { ...DEFAULT_RETRIEVAL },
  more: "",
  weights: {}, // of references, by their key, where the reader has set them
  dropped: [], // keys of references that are left out
  given: [], // references that an example brings along, for a server without an index
  set: null, // a frozen set and the item of it that is shown
});

const text = (value, longest = 20_000) => (typeof value === "string" ? value.slice(0, longest) : "");
const texts = (value, most) => (Array.isArray(value) ? value.slice(0, most).map((one) => text(one)) : []);
const settings = (value, defaults) =>
  Object.fromEntries(Object.entries(defaults).map(([name, preset]) => [name, text(value?.[name], 80) || preset]));

/** Return a state from anything that claims to be one: a link may come from a stranger. */
export function checked(value) {
  const state = blank();
  if (typeof value !== "object" || value === null) return state;
  const turns = texts(value.turns, 50), replies = texts(value.replies, 10);
  if (turns.length) state.turns = turns;
  if (replies.length) state.replies = replies;
  state.gold = text(value.gold);
  state.more = text(value.more, 500);
  state.metrics = settings(value.metrics, DEFAULT_METRICS);
  state.retrieval = settings(value.retrieval, DEFAULT_RETRIEVAL);
  for (const [key, weight] of Object.entries(value.weights ?? {}).slice(0, 1_000)) {
    if (typeof weight === "number" && weight >= -1 && weight <= 1) state.weights[key] = weight;
  }
  state.dropped = texts(value.dropped, 1_000);
  for (const reference of Array.isArray(value.given) ? value.given.slice(0, 50) : []) {
    const weight = reference?.weight;
    if (typeof weight === "number" && weight >= -1 && weight <= 1 && text(reference.text).trim()) state.given.push({ text: text(reference.text), weight });
  }
  if (typeof value.set === "string" && /^[0-9a-f]{6,16}$/.test(value.set)) state.set = value.set;
  return state;
}

/** Return the address of the playground with the state in its fragment. */
export function linkOf(state, path = location.pathname) {
  const bytes = new TextEncoder().encode(JSON.stringify(state));
  const packed = btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join(""));
  return `${location.origin}${path}#p=${packed.replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "")}`;
}

/** Return the state of the address's fragment, or null where it has none. */
export function fromLink() {
  const match = /^#p=([A-Za-z0-9_-]+)$/.exec(location.hash);
  if (match === null) return null;
  try {
    const packed = atob(match[1].replaceAll("-", "+").replaceAll("_", "/"));
    return checked(JSON.parse(new TextDecoder().decode(Uint8Array.from(packed, (character) => character.charCodeAt(0)))));
  } catch {
    return null;
  }
}

export function keepDraft(state) {
  try {
    sessionStorage.setItem(DRAFT, JSON.stringify(state));
  } catch { /* a full storage: the draft is lost when the tab is loaded again */ }
}

export function draft() {
  try {
    const kept = sessionStorage.getItem(DRAFT);
    return kept === null ? null : checked(JSON.parse(kept));
  } catch {
    return null;
  }
}

// ── what is sent ──────────────────────────────────────────────────────────────────────────────────────────────────────

export const SYSTEMS = "ABCDEFGHIJ";

const differing = (values, defaults) => Object.entries(values).filter(([name, value]) => value !== defaults[name]);

/** Return the turns and golds of the item. */
export function pairOf(state) {
  const turns = state.turns.filter((turn) => turn.trim()), golds = state.gold.split("\n").filter((gold) => gold.trim());
  return { id: "playground", ...(turns.length > 1 ? { turns } : { utterance: turns[0] ?? "" }), ...(golds.length ? { references: golds } : {}) };
}

/** Return whether references are those of the recommended metric: where the index suits it and nothing else was chosen. */
export const isRecommended = ({ retrieval }, metric) =>
  Boolean(metric) && (retrieval.preset === "refaug-1" || differing(retrieval, DEFAULT_RETRIEVAL).length === 0);

/**
 * Return whether an item of the playground has no gold where the settings ask for one: references are then found by the
 * utterance alone and weigh one each, which is the better judge without a gold (docs/metrics.md).
 */
export function lacksGold({ gold, retrieval }) {
  return gold !== undefined && !gold.trim() && !retrieval.preset && retrieval.weights === "rated" && retrieval.gold === "one" && retrieval.mode.endsWith("-utterance");
}

/** Return the settings of retrieval that differ from the defaults, as the API has them; `metric` is the recommended one of the index, and may be asked for. */
export function retrievalOf(state, metric = null, isAsked = true) {
  if (isAsked && isRecommended(state, metric)) return { preset: "refaug-1" };
  const ofWords = state.retrieval.mode === DEFAULT_RETRIEVAL.mode && metric ? { ...state.retrieval, mode: "encoder-utterance" } : state.retrieval;
  const retrieval = lacksGold(state) ? { ...ofWords, weights: "one", gold: "none" } : ofWords;
  const chosen = differing(retrieval, DEFAULT_RETRIEVAL);
  if (retrieval.preset) return { preset: retrieval.preset };
  const isRated = retrieval.weights === "rated" || retrieval.gold === "rated" || retrieval.parrot === "rated";
  return Object.fromEntries(chosen
    .filter(([name]) => name !== "preset" && (name !== "combine" || isRated))
    .map(([name, value]) => [name, name === "k" ? Number(value) : value]));
}

/** Return the metrics of the page: the recommended one, the BLEUs with the chosen settings, the rater, further ones. Most need a gold. */
export function metricsOf(state, { hasReferences, hasRater, hasGold, metric = null }) {
  const chosen = differing(state.metrics, DEFAULT_METRICS);
  const specification = (name, without) => {
    const parameters = chosen.filter(([key]) => !without.includes(key)).map(([key, value]) => `${key}=${value}`);
    return parameters.length ? `${name}:${parameters.join(",")}` : name;
  };
  const plain = ["closest", "none"].includes(state.metrics.bp) ? ["variant"] : ["variant", "bp"];
  const more = state.more.split(/[\s;]+/).filter(Boolean);
  return [
    ...(isRecommended(state, metric) && (hasReferences || hasGold) ? [metric] : []),
    ...(hasGold ? [specification("bleu", plain), specification("multi-bleu", plain)] : []),
    ...(hasReferences ? [specification("upsilon-bleu", [])] : []),
    ...(hasRater ? [hasGold ? "rater" : "rater:refs=none"] : []),
    ...more,
  ];
}

/** Return the replies that are not empty, by the name of their system. */
export const repliesOf = (state) =>
  Object.fromEntries(state.replies.map((reply, place) => [SYSTEMS[place], reply]).filter(([, reply]) => reply.trim()));
