/** A table of very many rows, of which only those in sight are in the document. */

import { element, fill } from "./dom.js";

const ROWS = 32, PAGE = 200, TALLEST = 12_000_000; // nodes, rows asked for at once, and pixels that browsers still scroll over
const AHEAD = 120, DRAWN = 12; // rows asked for before they come into sight, and rows drawn in one frame besides those in sight

/**
 * A grid whose rows come from `load(offset, limit)`, which resolves to `{rows, total}`. `draw(row)` returns
 * the texts of its cells, `open(row, place)` is called by a click or the Enter key. Rows are asked for by `setColumns` and `reset`.
 */
export class VirtualTable {
  constructor({ label, load, draw, open, onProblem, onTotal }) {
    Object.assign(this, { columns: [], load, draw, open, onProblem, onTotal });
    this.head = element("div", { role: "row", class: "grid-row grid-head", "aria-rowindex": 1 });
    this.space = element("div", { class: "grid-space", role: "rowgroup" });
    this.node = element("div", { class: "grid", role: "grid", tabindex: 0, "aria-label": label, "aria-readonly": "true" }, element("div", { role: "rowgroup", class: "grid-heads" }, this.head), this.space);
    this.view = 0; // pixels of rows in sight; measured when they change, for measuring in every frame costs a layout
    this.pool = [];
    this.epoch = 0;
    this.total = null;
    this.active = -1;
    this.waiting = false;
    this.node.addEventListener("scroll", () => this.#later(), { passive: true });
    this.node.addEventListener("keydown", (event) => this.#key(event));
    this.space.addEventListener("click", (event) => {
      const node = event.target.closest("[data-place]");
      if (node !== null) this.#activate(Number(node.dataset.place), true);
    });
    new ResizeObserver(() => this.#measure()).observe(this.node);
  }

  /** Show other columns: `{name, className, sort, onSort}`. */
  setColumns(columns) {
    this.columns = columns;
    this.node.setAttribute("aria-colcount", String(columns.length));
    fill(this.head, columns.map((column, place) => element("div", { role: "columnheader", class: column.className, "aria-colindex": place + 1, "aria-sort": column.sort ?? null },
      column.onSort ? element("button", { type: "button", class: "sort", onclick: column.onSort }, column.name, element("span", { "aria-hidden": "true" }, column.sort === "ascending" ? " ↑" : column.sort === "descending" ? " ↓" : "")) : column.name)));
    this.pool = [];
    this.space.replaceChildren();
    if (this.total) this.#setTotal(this.total);
  }

  /** Forget all rows and ask for them again, from the first. */
  reset() {
    this.epoch += 1;
    this.pages = new Map();
    this.asked = new Map();
    this.total = null;
    this.active = -1;
    this.node.removeAttribute("aria-activedescendant");
    this.node.scrollTop = 0;
    this.#ask(0);
  }

  /** Ask again for what is in sight and has not come. */
  again() {
    if (this.total === null) this.#ask(0);
    else this.#later();
  }

  /** Change rows that are there. */
  change(is, changes) {
    for (const rows of this.pages.values()) for (const row of rows) if (is(row)) Object.assign(row, changes);
    for (const row of this.pool) row.version = null;
    this.#later();
  }

  rowAt(place) {
    return this.pages.get(Math.floor(place / PAGE))?.[place % PAGE] ?? null;
  }

  /** Measure rows and the part in sight: both change with the width of the page. */
  #measure() {
    this.view = Math.max(0, this.node.clientHeight - this.head.offsetHeight);
    this.space.style.width = `${this.head.offsetWidth}px`; // said once: rows need not find out how wide their cells would be
    const height = this.pool[0]?.node.offsetHeight || 44;
    if (height !== this.rowHeight) {
      this.rowHeight = height;
      for (const row of this.pool) row.place = -1;
    }
    if (this.total !== null) this.space.style.height = `${Math.min(TALLEST, this.total * height)}px`;
    this.#later();
  }

  #ask(page) {
    if (!this.asked.has(page)) this.asked.set(page, this.#load(page));
    return this.asked.get(page);
  }

  async #load(page) {
    const { epoch } = this;
    try {
      const { rows, total } = await this.load(page * PAGE, PAGE);
      if (epoch !== this.epoch) return;
      this.pages.set(page, rows);
      if (this.pages.size > 40) this.#forgetFarthest(page);
      if (total !== this.total) this.#setTotal(total);
      this.#later();
    } catch (error) {
      if (epoch !== this.epoch) return;
      this.asked.delete(page);
      this.onProblem(error);
    }
  }

  #forgetFarthest(page) {
    const farthest = [...this.pages.keys()].sort((first, second) => Math.abs(second - page) - Math.abs(first - page))[0];
    this.pages.delete(farthest);
    this.asked.delete(farthest);
  }

  #setTotal(total) {
    this.total = total;
    this.node.setAttribute("aria-rowcount", String(total + 1));
    while (this.pool.length < Math.min(ROWS, total)) this.pool.push(this.#newRow());
    while (this.pool.length > Math.min(ROWS, total)) this.pool.pop().node.remove();
    this.#measure();
    this.onTotal(total);
  }

  #newRow() {
    const cells = this.columns.map((column, place) => element("div", { role: "gridcell", class: column.className, "aria-colindex": place + 1 }, " "));
    const node = element("div", { role: "row", class: "grid-row" }, cells);
    this.space.append(node);
    return { node, texts: cells.map((cell) => cell.firstChild), place: -1, version: null };
  }

  #later() {
    if (this.waiting) return;
    this.waiting = true;
    requestAnimationFrame(() => { this.waiting = false; this.#show(); });
  }

  /** Return the pixels above the first row of the drawing, and the row. */
  #offsets() {
    const whole = this.total * this.rowHeight, { view } = this, { scrollTop } = this.node;
    if (whole <= TALLEST) return { virtual: scrollTop, shift: 0 };
    const virtual = (scrollTop / (TALLEST - view)) * (whole - view); // so many rows that browsers do not scroll over them
    return { virtual, shift: scrollTop - virtual };
  }

  #show() {
    if (!this.total || !this.pool.length) return;
    const { virtual, shift } = this.#offsets();
    const inSight = Math.ceil(this.view / this.rowHeight), spare = Math.max(1, Math.floor((this.pool.length - inSight) / 2));
    const first = Math.max(0, Math.min(this.total - this.pool.length, Math.floor(virtual / this.rowHeight) - spare));
    const last = first + this.pool.length - 1;
    this.#askAround(first, last);
    const top = Math.max(first, Math.floor(virtual / this.rowHeight)), bottom = Math.min(last, top + inSight);
    let drawn = 0;
    for (let place = top; place <= bottom; place += 1) drawn += this.#showRow(this.pool[place % this.pool.length], place, shift);
    for (let place = first; place <= last; place += 1) {
      if (place >= top && place <= bottom) continue;
      if (drawn >= DRAWN && shift === 0) { this.#later(); return; } // rows out of sight wait for the next frame
      drawn += this.#showRow(this.pool[place % this.pool.length], place, shift);
    }
  }

  /** Ask for the rows in the document and, so that they are there in time, for those that scrolling reaches next. */
  #askAround(first, last) {
    const isUp = first < this.first;
    this.first = first;
    const from = Math.max(0, isUp ? first - AHEAD : first), to = Math.min(this.total - 1, isUp ? last : last + AHEAD);
    for (let page = Math.floor(from / PAGE); page <= Math.floor(to / PAGE); page += 1) this.#ask(page);
  }

  /** Draw a row at a place, and return whether anything of it has changed. */
  #showRow(row, place, shift) {
    const content = this.rowAt(place), isActive = place === this.active;
    if (row.place === place && row.version === content && row.isActive === isActive && row.shift === shift) return false;
    if (row.place !== place || row.shift !== shift) row.node.style.transform = `translateY(${place * this.rowHeight + shift}px)`;
    if (row.place !== place) {
      row.node.dataset.place = String(place);
      row.node.id = `grid-row-${place}`;
      row.node.setAttribute("aria-rowindex", String(place + 2));
    }
    if (row.isActive !== isActive) {
      row.node.classList.toggle("active", isActive);
      row.node.setAttribute("aria-selected", String(isActive));
    }
    if (content === null) row.texts.forEach((text, column) => { text.data = column ? "" : "…"; });
    else if (row.place !== place || row.version !== content) this.draw(content, place).forEach((text, column) => { if (row.texts[column].data !== text) row.texts[column].data = text; }); // the same text, said again, is laid out again
    Object.assign(row, { place, version: content, isActive, shift });
    return true;
  }

  #key(event) {
    if (event.target !== this.node || !this.total) return;
    const inSight = Math.max(1, Math.floor(this.view / this.rowHeight) - 1);
    const moves = { ArrowDown: 1, ArrowUp: -1, PageDown: inSight, PageUp: -inSight, Home: -this.total, End: this.total };
    if (event.key === "Enter" && this.active >= 0) this.#activate(this.active, true);
    else if (event.key in moves) this.#activate(Math.max(0, Math.min(this.total - 1, this.active + moves[event.key])), false);
    else return;
    event.preventDefault();
  }

  #activate(place, isOpening) {
    this.active = place;
    const { view } = this, whole = this.total * this.rowHeight;
    const factor = whole <= TALLEST ? 1 : (TALLEST - view) / (whole - view);
    const { virtual } = this.#offsets(), top = place * this.rowHeight;
    if (top < virtual) this.node.scrollTop = top * factor;
    else if (top + this.rowHeight > virtual + view) this.node.scrollTop = (top + this.rowHeight - view) * factor;
    this.#show();
    this.node.setAttribute("aria-activedescendant", `grid-row-${place}`);
    if (isOpening && this.rowAt(place) !== null) this.open(this.rowAt(place), place);
  }

  /** Let the place of a row be the active one, and open it if its row is there. */
  async go(place) {
    if (place < 0 || place >= (this.total ?? 0)) return;
    await this.#ask(Math.floor(place / PAGE));
    this.#activate(place, true);
  }
}
