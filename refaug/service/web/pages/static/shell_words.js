/** Texts for a POSIX shell and for curl. */

/** Return a text as one word of a POSIX shell, without control characters: terminals take them for keys, quoted or not. */
export function quoted(text) {
  const typed = String(text).replace(/[\0-\x08\x0b-\x1f\x7f-\x9f]/g, "");
  return /^[\w@%+:,./-]+$/.test(typed) ? typed : `'${typed.replaceAll("'", "'\\''")}'`;
}

// Control characters, and those that are invisible or turn the direction of what follows.
const HIDDEN = /[\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g;

/** Return JSON that means the same, with such characters by their numbers. */
export const escaped = (json) => json.replace(HIDDEN, (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`);
