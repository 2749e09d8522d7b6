/** Which keys the pages know, and whether they are on. */

const KEPT = "refaug.keys";

export const keysAreOn = () => localStorage.getItem(KEPT) !== "off";

export function switchKeys(areOn) {
  if (areOn) localStorage.removeItem(KEPT);
  else localStorage.setItem(KEPT, "off");
}

/** Return the pages with their letters: the first letter of a name that no page before it has. */
export function pages() {
  const taken = new Set();
  return [...document.querySelectorAll("header nav a")].map((link) => {
    const letter = [...link.textContent.toLowerCase()].find((one) => !taken.has(one));
    taken.add(letter);
    return [letter, link];
  });
}

/** Return every shortcut of this page: its keys, and what they do. */
export const SHORTCUTS = () => [
  [["/"], "go to a page, a part of it or a job, or press a button, by its name"],
  [["?"], "this list"],
  ...pages().map(([letter, link]) => [["g", letter], `the page ${link.textContent}`]),
  [["Esc"], "close what is open"],
];
