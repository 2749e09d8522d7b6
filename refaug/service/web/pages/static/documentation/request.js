/** A request that a reader writes into a form: as an address, and as a line of curl. */

import { address } from "../api.js";
import { escaped, quoted } from "../shell_words.js";

/** Return the path of a route with its parameters; a hole that is empty keeps its name in capitals. */
export function pathOf(route, values) {
  const path = route.path.replace(/\{(\w+)\}/g, (_, name) => encodeURIComponent(values[`path ${name}`] || name.toUpperCase()));
  const query = route.parameters.filter((one) => one.in === "query" && values[`query ${one.name}`])
    .map(({ name }) => `${encodeURIComponent(name)}=${encodeURIComponent(values[`query ${name}`])}`);
  return query.length ? `${path}?${query.join("&")}` : path;
}

/** Return the headers of a request, without the key. */
export function headersOf(route, values, kind) {
  const given = route.parameters.filter((one) => one.in === "header" && values[`header ${one.name}`]).map(({ name }) => [name, values[`header ${name}`]]);
  return Object.fromEntries([...(kind ? [["Content-Type", kind]] : []), ...given]);
}

/** Return the request as a line of curl; the key stays in the environment, and a file where it lies. */
export function curlOf(route, values, { kind, body, hasKey }) {
  const headers = Object.entries(headersOf(route, values, kind)).map(([name, value]) => ` \\\n  -H ${quoted(`${name}: ${value}`)}`);
  const parts = [
    `curl ${route.method === "GET" ? "" : `-X ${route.method} `}${quoted(location.origin + address(pathOf(route, values)))}`, ...headers,
    route.takesKey && hasKey ? ' \\\n  -H "Authorization: Bearer $REFAUG_KEY"' : "",
    !kind ? "" : body === null ? " \\\n  --data-binary @FILE" : ` \\\n  --data-raw ${quoted(escaped(body))}`,
  ];
  return `${parts.join("")}\n`;
}
