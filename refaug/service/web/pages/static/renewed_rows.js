/** Rows of a table that is looked at again and again. */

/**
 * Bring a table up to a newer one whose rows have keys in the same order: rows and cells that say the same stay, and with
 * them the focus and what is selected.
 */
export function renewRows(table, newer) {
  const body = table.tBodies[0], rows = [...newer.tBodies[0].rows], keys = new Set(rows.map((row) => row.dataset.key));
  for (const row of [...body.rows]) if (!keys.has(row.dataset.key)) row.remove();
  rows.forEach((row, place) => {
    const before = body.rows[place];
    if (before?.dataset.key !== row.dataset.key) body.insertBefore(row, before ?? null);
    else [...row.cells].forEach((cell, number) => { if (!isAlike(before.cells[number], cell)) before.cells[number].replaceWith(cell); });
  });
}

/** Return whether two cells say the same; the age of a moment goes on by itself. */
const isAlike = (one, other) => one.textContent === other.textContent && [one, other].map((cell) => [...cell.querySelectorAll("[class], [href]")].map((node) => `${node.className} ${node.getAttribute("href")}`).join()).every((said, _place, all) => said === all[0]);
