/** JSON for reading. */

const TOKENS = /"(?:[^"\\]|\\.)*"|[[\]{},:]|[^\s[\]{},:"]+/g;

/** Return JSON broken into lines of about this width. Numbers and texts keep their spelling; text that is not JSON stays as it is. */
export function readable(text, width = 64) {
  try {
    JSON.parse(text);
  } catch {
    return text;
  }
  const tokens = text.match(TOKENS);
  let next = 0;
  const take = () => {
    const open = tokens[next++];
    if (open !== "{" && open !== "[") return { flat: open };
    const close = open === "{" ? "}" : "]", inner = [];
    while (tokens[next] !== close) {
      const name = open === "{" ? `${tokens[next]}: ` : "";
      if (name) next += 2; // and its colon
      inner.push({ name, value: take() });
      if (tokens[next] === ",") next += 1;
    }
    next += 1;
    const flat = inner.map(({ name, value }) => `${name}${value.flat}`).join(", ");
    return { open, close, inner, flat: flat.length > width ? flat.slice(0, width + 1) : `${open}${flat}${close}` };
  };
  const write = ({ flat, open, close, inner }, indent) => {
    if (!inner?.length || flat.length + indent.length <= width) return flat;
    const more = `${indent}  `;
    return `${open}\n${inner.map(({ name, value }) => `${more}${name}${write(value, more)}`).join(",\n")}\n${indent}${close}`;
  };
  return write(take(), "");
}
