/** What the playground shows, as a request of curl, a program in Python, and a command on files. */

import { address } from "./api.js";
import { escaped, quoted } from "./shell_words.js";
import { metricsOf, pairOf, repliesOf, retrievalOf } from "./state.js";

/** Return JSON whose control characters are all escaped. */
const json = (value) => escaped(JSON.stringify(value));

function python(value, indent = 0) {
  if (value === null) return "None";
  if (value === true) return "True";
  if (value === false) return "False";
  if (typeof value === "string") return json(value);
  if (typeof value === "number") return String(value);
  const pad = " ".repeat(indent + 4), end = " ".repeat(indent);
  const inner = Array.isArray(value)
    ? value.map((one) => `${pad}${python(one, indent + 4)},\n`)
    : Object.entries(value).map(([name, one]) => `${pad}${json(name)}: ${python(one, indent + 4)},\n`);
  const [open, close] = Array.isArray(value) ? "[]" : "{}";
  return inner.length ? `${open}\n${inner.join("")}${end}${close}` : `${open}${close}`;
}

/** Return the body of POST /v1/scores; with changed weights the references go along, else the service finds them. */
export function bodyOf(state, { item, isChanged, ...has }) {
  const metrics = metricsOf(state, has);
  const settings = retrievalOf(state, has.metric);
  if (isChanged && item) return { items: [item], metrics, references: "given", on_error: "report" };
  const pair = { ...pairOf(state), replies: repliesOf(state) };
  return { items: [pair], metrics, ...(has.hasReferences && Object.keys(settings).length ? { settings } : {}), on_error: "report" };
}

export function asCurl(body, hasKey) {
  const key = hasKey ? ` \\\n  -H "Authorization: Bearer $REFAUG_KEY"` : "";
  return `curl -X POST ${quoted(location.origin + address("/v1/scores"))} \\\n  -H 'Content-Type: application/json'${key} \\\n  -d ${quoted(json(body))}\n`;
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

const OPTIONS = { k: "-k", weights: "--reference-weights=" };

export function asCommand(body, versions) {
  const [item] = body.items;
  const metrics = body.metrics.map((metric) => ` \\\n  --metric=${quoted(metric)}`).join("");
  const isGiven = body.references === "given";
  const named = ["index", "rater"].filter((kind) => versions[kind] && (!isGiven || (kind === "rater" && body.metrics.includes("rater"))))
    .map((kind) => ` --${kind}=${quoted(versions[kind].split("#")[0])}`).join("");
  const settings = Object.entries(body.settings ?? {}).map(([name, value]) => ` ${OPTIONS[name] ?? `--${name}=`}${quoted(value)}`).join("");
  return `cat > items.jsonl <<'END'\n${json(item)}\nEND\nrefaug score items.jsonl${named}${settings}${metrics}\n`;
}
