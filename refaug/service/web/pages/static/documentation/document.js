/** What an OpenAPI document says, as values: its routes in groups, and where a `$ref` leads. */

const METHODS = new Set(["get", "post", "put", "patch", "delete", "head", "options", "trace"]);
const MOST_STEPS = 20; // of references that lead to references

/** Return the groups in the order of the document's tags, each with its routes; those without routes are left out. */
export function groupsOf(document) {
  const groups = new Map((document.tags ?? []).map(({ name, description = "" }) => [name, { name, description, routes: [] }]));
  for (const [path, operations] of Object.entries(document.paths ?? {})) {
    for (const method of Object.keys(operations).filter((name) => METHODS.has(name))) {
      const route = routeOf(document, path, method, operations);
      if (!groups.has(route.group)) groups.set(route.group, { name: route.group, description: "", routes: [] });
      groups.get(route.group).routes.push(route);
    }
  }
  return [...groups.values()].filter(({ routes }) => routes.length);
}

function routeOf(document, path, method, operations) {
  const operation = operations[method];
  const group = operation.tags?.[0] ?? "other", id = operation.operationId ?? `${method}${path}`;
  const [first = "", ...more] = (operation.description ?? "").split(/\n\s*\n/);
  const summary = operation.summary ?? first;
  const isSaid = first.replace(/\s+/g, " ").replace(/\.$/, "") === summary.replace(/\s+/g, " ").replace(/\.$/, "");
  const ways = operation.security ?? document.security ?? [];
  return {
    group, id, path, summary, method: method.toUpperCase(), anchor: `/${group}/${id}`,
    description: (isSaid ? more : [first, ...more]).join("\n\n"),
    parameters: [...(operations.parameters ?? []), ...(operation.parameters ?? [])].map((one) => resolved(one, document)),
    body: operation.requestBody ? resolved(operation.requestBody, document) : null,
    answers: Object.entries(operation.responses ?? {}).map(([status, answer]) => ({ status, ...resolved(answer, document) })),
    takesKey: ways.some((way) => Object.keys(way).length > 0),
    scopes: [...new Set(ways.flatMap((way) => Object.values(way).flat()))],
  };
}

/** Return what a schema, parameter or answer is: where it is a reference, what that leads to. */
export function resolved(value, document) {
  let found = value;
  for (let step = 0; typeof found?.$ref === "string" && step < MOST_STEPS; step += 1) found = at(found.$ref, document);
  return found ?? {};
}

function at(reference, document) {
  if (!reference.startsWith("#/")) return {}; // of another document, which is never fetched
  let found = document;
  for (const part of reference.slice(2).split("/")) {
    const name = part.replaceAll("~1", "/").replaceAll("~0", "~");
    found = typeof found === "object" && found !== null && Object.hasOwn(found, name) ? found[name] : undefined;
  }
  return found ?? {};
}

export const nameOf = (reference) => reference.split("/").at(-1);

/** Return the texts by which a route is found, in small letters: with the fields of its body and of what is inside. */
export function wordsOf(route, document) {
  const contents = Object.values(route.body?.content ?? {});
  const names = [...route.parameters.map(({ name }) => name), ...contents.flatMap(({ schema }) => fieldNames(schema, document, 2))];
  return [route.method, route.path, route.group, route.id, route.summary, route.description, ...route.scopes, ...names].join(" ").toLowerCase();
}

function fieldNames(schema, document, depth) {
  const model = resolved(schema, document);
  const own = Object.entries(model.properties ?? {}).flatMap(([name, inner]) => [name, ...(depth > 1 ? fieldNames(inner, document, depth - 1) : [])]);
  const several = [...(model.anyOf ?? []), ...(model.oneOf ?? []), ...(model.allOf ?? []), ...(model.items ? [model.items] : [])];
  return depth > 0 ? [...own, ...several.flatMap((one) => fieldNames(one, document, depth - 1))] : own;
}
