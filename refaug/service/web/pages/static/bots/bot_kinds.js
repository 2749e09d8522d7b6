/** The kinds of bots as a form asks for them: which fields each has, and what a field means. */

import { count } from "../format.js";

const SEARCHES = [["", "by meaning (embedding-utterance)"], ["bm25-utterance", "by shared words (bm25-utterance)"], ["embedding-utterance", "embedding-utterance"]];
const SECONDS = "seconds until a request is given up";

const onThisMachine = (path) => ["http:", "", path].join("/");

const ADDRESS = [
  { name: "key_env", label: "Variable that holds the key", kind: "word", example: "BOT_KEY", help: "The name alone: the key itself stays in the environment of the server. It begins with BOT_." },
];
const PATIENCE = [
  { name: "key_header", label: "Header of the key", kind: "choice", choices: [["", "Authorization: Bearer"], ["api-key", "api-key"], ["x-api-key", "x-api-key"]] },
  { name: "turns", label: "Newest turns that are sent", kind: "whole", least: 1, most: 200, preset: 50 },
  { name: "concurrency", label: "Requests at once", kind: "whole", least: 1, most: 1_000, preset: 16 },
  { name: "timeout_s", label: "Seconds for one answer", kind: "number", least: 0.01, most: 3_600, preset: 60, help: SECONDS },
  { name: "tries", label: "Tries of a request", kind: "whole", least: 1, most: 20, preset: 5 },
  { name: "patience_s", label: "Seconds to wait at 429", kind: "number", least: 0, most: 86_400, preset: 600, help: "how long one request waits while the endpoint says that it has too much to do" },
  { name: "max_answer_bytes", label: "Largest answer, in bytes", kind: "whole", least: 1_000, most: 100_000_000, preset: 1_000_000 },
];

/** All kinds that a form can make, the commonest first. */
export const KINDS = {
  openai: {
    title: "Model behind an endpoint", about: "vLLM, Ollama, llama.cpp, a hosted API: any server with /v1/chat/completions.",
    fields: [
      { name: "url", label: "Address", kind: "word", isRequired: true, example: onThisMachine("127.0.0.1:8000/v1"), help: "Its base: /chat/completions is added." },
      { name: "model", label: "Model", kind: "word", isRequired: true, example: "small" },
      { name: "system", label: "System prompt", kind: "text", isWide: true, example: "You are chatting with a friend. Reply in one short sentence." },
      ...ADDRESS,
      { name: "temperature", label: "Temperature", kind: "number", least: 0, most: 10, preset: 0 },
      { name: "max_tokens", label: "Tokens of a reply, at most", kind: "whole", least: 1, most: 100_000, preset: 200 },
      { name: "price.input", label: "Price of a million tokens in", kind: "number", least: 0, most: 1_000_000 },
      { name: "price.output", label: "Price of a million tokens out", kind: "number", least: 0, most: 1_000_000 },
      { name: "price.currency", label: "Currency", kind: "word", example: "USD" },
    ],
    further: [
      { name: "budget.tokens", label: "Tokens for one request, at most", kind: "whole", least: 1, most: 1e12, help: "of one request to this service, or one job" },
      { name: "budget.money", label: "Money for one request, at most", kind: "number", least: 0, most: 1e9, help: "needs prices" },
      ...PATIENCE,
      { name: "max_tokens_field", label: "Name of the limit of tokens", kind: "choice", choices: [["", "max_tokens"], ["max_completion_tokens", "max_completion_tokens"]] },
      { name: "omit", label: "Fields that the endpoint refuses", kind: "words", help: "of temperature, seed and max_tokens, with commas between them" },
      { name: "parameters", label: "Further fields of requests", kind: "pairs", isWide: true, example: "top_p = 0.9", help: "one a line: name = value" },
    ],
  },
  retrieval: {
    title: "Responses from an index", about: "Replies with what somebody said in your logs. Nothing leaves this server, and it costs nothing.",
    fields: [
      { name: "index", label: "Index", kind: "artefact", artefact: "index", isRequired: true, help: "The version of today is kept: a newer index does not change the bot." },
      { name: "mode", label: "How utterances are compared", kind: "choice", choices: SEARCHES },
      { name: "pick", label: "Which candidate it replies", kind: "word", example: "top", help: "top: the best one; sample(0.5,10): one of the ten best, the closer the likelier" },
      { name: "exclude_logs", label: "Logs to take nothing from", kind: "words", help: "with commas between them" },
    ],
    further: [
      { name: "after", label: "Only what was said since", kind: "word", example: "2026-11-20" },
      { name: "before", label: "Only what was said before", kind: "word", example: "2026-12-01" },
    ],
  },
  http: {
    title: "Server of yours", about: "It is sent {\"turns\": […], \"id\": …, \"seed\": …} and answers {\"reply\": …}: ten lines in any language.",
    fields: [
      { name: "url", label: "Address", kind: "word", isRequired: true, example: onThisMachine("127.0.0.1:9000/reply") },
      ...ADDRESS,
    ],
    further: PATIENCE,
  },
  replay: {
    title: "Fixed replies", about: "Always the same lines, for rehearsals and as a low baseline.",
    fields: [
      { name: "replies", label: "Replies", kind: "lines", isRequired: true, isWide: true, example: "Hello.\nTell me more.", help: "one a line: the first line is its first reply in a dialogue, and so on" },
      { name: "pick", label: "Which line it says", kind: "choice", choices: [["", "the next one"], ["sample", "one that is drawn"]] },
      { name: "cycle", label: "After the last line it begins again", kind: "flag" },
    ],
    further: [],
  },
  degraded: {
    title: "Another bot, made worse", about: "A part of each reply is replaced by other words: whoever rates it like the bot itself is not reading.",
    fields: [
      { name: "bot", label: "Bot", kind: "bot", isRequired: true, help: "As it is today: a later change of it does not change this one." },
      { name: "share", label: "Share of words that is replaced", kind: "number", least: 0, most: 1, preset: 0.5 },
      { name: "pool", label: "Texts to take words from", kind: "lines", isWide: true, help: "one a line; may stay empty where the bot has fixed replies" },
    ],
    further: [],
  },
  neural: {
    title: "Network of this service", about: "A pre-trained VHRED or VHCR writes its replies on this server.",
    fields: [
      { name: "vhred", label: "Network", kind: "artefact", artefact: "vhred", isRequired: true },
      { name: "method", label: "How it writes", kind: "choice", choices: [["", "greedy"], ["beam", "beam search"], ["sample", "drawn"]] },
      { name: "max_tokens", label: "Pieces of a reply, at most", kind: "whole", least: 1, most: 1_000, preset: 40 },
    ],
    further: [
      { name: "beams", label: "Width of the beam search", kind: "whole", least: 1, most: 100, preset: 5 },
      { name: "choice", label: "Which beam it says", kind: "choice", choices: [["", "the best"], ["priority", "drawn by rank"], ["length", "drawn by length"]] },
      { name: "temperature", label: "Temperature of the draws", kind: "number", least: 0, most: 100, preset: 1 },
      { name: "top_k", label: "Likeliest pieces to draw from", kind: "whole", least: 1, most: 1_000_000 },
      { name: "conversation", label: "Variable of a VHCR", kind: "choice", choices: [["", "held from reply to reply"], ["each-reply", "inferred for each reply"]] },
    ],
  },
};

export const titleOf = (kind) => KINDS[kind]?.title ?? kind;
export const fieldsOf = (kind) => [...KINDS[kind].fields, ...KINDS[kind].further];

/** Return what a field of a specification holds, `price.input` being a field in a field. */
export const heldIn = (specification, name) => (name === "url" ? specification.url ?? specification.base_url : name.split(".").reduce((inner, part) => inner?.[part], specification));

/** Return a specification as rows of a name and a text that people read; a key is never in one. */
export function describedFields(bot) {
  const { kind, ...fields } = bot.specification;
  const labels = KINDS[kind] ? Object.fromEntries(fieldsOf(kind).map((field) => [field.name, field.label])) : {};
  const rows = [];
  const add = (name, value) => {
    if (Array.isArray(value)) rows.push([labels[name] ?? name, name === "replies" || name === "pool" ? `${count(value.length)}: ${value.slice(0, 3).join(" · ")}${value.length > 3 ? " …" : ""}` : value.join(", ")]);
    else if (name === "bot" && value?.kind) rows.push([labels[name] ?? name, `${value.name ?? "a bot"}, ${titleOf(value.kind).toLowerCase()}`]);
    else if (value !== null && typeof value === "object") for (const [inner, one] of Object.entries(value)) add(`${name}.${inner}`, one);
    else rows.push([labels[name] ?? name, value === true ? "yes" : value === false ? "no" : String(value)]);
  };
  const order = Object.keys(labels).map((name) => name.split(".")[0]), placeOf = (name) => (order.includes(name) ? order.indexOf(name) : order.length);
  for (const [name, value] of Object.entries(fields).sort(([one], [other]) => placeOf(one) - placeOf(other))) add(name, value);
  return rows;
}

/** Why there is no reply, in words: the codes of docs/bots.md. */
const REASONS = {
  timeout: "no whole answer came in time", connection: "nothing listens at its address", cut_off: "the answer broke off", server: "the endpoint answered with an error of its own",
  rate_limited: "the endpoint had too much to do for longer than the bot waits", not_json: "the endpoint answered something else than JSON", wrong_shape: "the answer has another form", too_large: "the answer is larger than allowed",
  redirect: "the address leads elsewhere, and redirects are not followed", address: "its host is not on the server's list", no_access: "the endpoint refused the key, or its quota is used up", rejected: "the endpoint refused the request",
  given_up: "it was not asked, since requests before it failed in a row", over_budget: "it was not asked, since the budget or the day's tokens are spent", refusal: "the model refused to answer", tool_call: "the model called a tool instead of replying",
  content_filter: "the endpoint's filter stopped the reply", empty: "the answer was empty", no_more_replies: "its fixed replies have come to an end", no_utterance: "there was nothing to reply to", no_known_word: "the index knows no word of the message",
  nothing_retrieved: "nothing in the index may be replied", nothing_generated: "the network wrote nothing that can be seen", bad_input: "it cannot be used as it is stored", not_allowed: "it may not be used as it is stored", not_found: "what it replies from is gone",
};
export const reasonOf = (problem) => REASONS[problem] ?? problem.replaceAll("_", " ");

/** Reasons that lie in the message: a bot with one of them works. */
const OF_THE_MESSAGE = new Set(["no_more_replies", "no_utterance", "no_known_word", "nothing_retrieved", "nothing_generated", "refusal", "tool_call", "content_filter", "empty"]);
export const isOfMessage = (problem) => OF_THE_MESSAGE.has(problem);
