/** The value of this script is what a page does against docs/internals/design.md, five findings at most. */
(() => {
  const seen = [...document.querySelectorAll("body *")].filter((node) => node.checkVisibility() && !node.closest("noscript, .preview")); // a preview has the sizes of the page that it shows
  const finding = (what, node) => `${what}: ${node.outerHTML.slice(0, 100)}`;
  const faults = [];

  const tokens = getComputedStyle(document.body);
  const sizes = ["small", "body", "large", "title"].map((size) => parseFloat(tokens.getPropertyValue(`--size-${size}`)) * 16);
  for (const node of seen) {
    const hasText = [...node.childNodes].some((child) => child.nodeType === Node.TEXT_NODE && child.data.trim());
    const size = parseFloat(getComputedStyle(node).fontSize);
    if (hasText && !sizes.some((one) => Math.abs(one - size) < 0.02)) faults.push(finding(`text of ${size} pixels`, node));
  }

  const number = /^[−+]?\d[\d.,]*(\s?(%|kB|B|MB|GB|s|min))?$/u;
  for (const table of seen.filter((node) => node.matches("main table"))) {
    const heads = [...table.rows[0].cells];
    const rows = [...table.tBodies].flatMap((body) => [...body.rows]).filter((row) => row.cells.length === heads.length);
    heads.forEach((head, place) => {
      const cells = rows.map((row) => row.cells[place]).filter((cell) => !["", "–"].includes(cell.innerText.trim()));
      const isNumber = (cell) => cell.tagName === "TD" && number.test(cell.innerText.trim()) && !cell.querySelector("bdi, input, select");
      if (!cells.length || !cells.every(isNumber)) return;
      for (const cell of [head, ...cells]) if (getComputedStyle(cell).textAlign !== "right") faults.push(finding("a number to the left", cell));
    });
  }

  const view = seen.findLast((node) => node.matches("dialog[open]")) ?? document.querySelector("main");
  const primary = seen.filter((node) => node.matches(".primary") && view.contains(node));
  if (primary.length > 1) faults.push(...primary.map((node) => finding("one primary button of several", node)));
  return faults.slice(0, 5);
})();
