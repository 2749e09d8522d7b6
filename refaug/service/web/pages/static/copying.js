/** What the playground shows, as a request of curl, a program in Python, and a command on files. */

import { address } from "./api.js";
import { metricsOf, modelsOf, pairOf, repliesOf, retrievalOf } from "./state.js";

const quoted = (text) => `'${text.replaceAll("'", "'\\''")}'`;

function python(value, indent = 0) {
  if (value === null) return "None";
  if (value === true) return "True";
  if (value === false) return "False";
  if (typeof value === "string") return JSON.stringify(value);
  if (typeof value === "number") return String(value);
  const pad = " ".repeat(indent + 4), end = " ".repeat(indent);
  const inner = Array.isArray(value)
    ? value.map((one) => `${pad}${python(one, indent + 4)},\n`)
    : Object.entries(value).map(([name, one]) => `${pad}${JSON.stringify(name)}: ${python(one, indent + 4)},\n`);
  const [open, close] = Array.isArray(value) ? "[]" : "{}";
  return inner.length ? `${open}\n${inner.join("")}${end}${close}` : `${open}${close}`;
}

/** Return the body of POST /v1/scores; with changed weights the references go along, else the service finds them. */
export function bodyOf(state, { item, isChanged, ...has }) {
  const metrics = metricsOf(state, has);
  const settings = retrievalOf(state), models = modelsOf(state, metrics);
  if (isChanged && item) return { items: [item], metrics, ...models, references: "given", on_error: "report" };
  const pair = { ...pairOf(state), replies: repliesOf(state) };
  return { items: [pair], metrics, ...models, ...(has.hasReferences && Object.keys(settings).length ? { settings } : {}), on_error: "report" };
}

export function asCurl(body, hasKey) {
  const key = hasKey ? ` \\\n  -H "Authorization: Bearer $REFAUG_KEY"` : "";
  return `curl -X POST ${location.origin}${address("/v1/scores")} \\\n  -H 'Content-Type: application/json'${key} \\\n  -d ${quoted(JSON.stringify(body))}\n`;
}

export function asPython(body) {
  const { items, ...how } = body;
  const named = Object.entries(how).map(([name, value]) => `        ${name}=${python(value, 8)},\n`).join("");
  return `from refaug_client import Client

items = ${python(items)}

with Client("${location.origin}${address("")}") as refaug:  # the key is read from REFAUG_KEY
    scores = refaug.score(
        items,
${named}    )
for metric in scores.scores:
    for system, figures in metric.systems.items():
        print(metric.metric, system, figures.mean)
`;
}

const OPTIONS = { k: "-k", weights: "--reference-weights" };

export function asCommand(body, versions) {
  const [item] = body.items;
  const metrics = body.metrics.map((metric) => ` \\\n  --metric ${quoted(metric)}`).join("");
  const isGiven = body.references === "given";
  const named = ["index", "rater"].filter((kind) => versions[kind] && (!isGiven || (kind === "rater" && body.metrics.includes("rater"))))
    .map((kind) => ` --${kind} ${versions[kind].split("#")[0]}`).join("") + (body.adem ? ` --adem ${quoted(body.adem)}` : "");
  const settings = Object.entries(body.settings ?? {}).map(([name, value]) => ` ${OPTIONS[name] ?? `--${name}`} ${value}`).join("");
  return `cat > items.jsonl <<'END'\n${JSON.stringify(item)}\nEND\nrefaug score items.jsonl${named}${settings}${metrics}\n`;
}
