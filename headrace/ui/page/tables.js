// Tables that are filled again and again: rows and cells stay, only texts change; a column without a value is left out.
import { element, say } from "./elements.js";

/** What has to be scrolled can be reached with the Tab key, and has a name there; what is seen whole needs neither. */
export function scrollable(scroller, name) {
  const more = scroller.scrollWidth > scroller.clientWidth + 1 || scroller.scrollHeight > scroller.clientHeight + 1;
  for (const [attribute, value] of [["tabindex", "0"], ["role", "group"], ["aria-label", name]]) {
    if (more) scroller.setAttribute(attribute, value);
    else scroller.removeAttribute(attribute);
  }
}

/**
 * columns: [{ name, value(row) -> text, number, long, alarm(row) -> whether to mark the cell, make(row) -> an element instead }]
 * The first column names the row.
 */
function kind(column) {
  return column.number ? "number" : column.long ? "long" : null;
}

export class DataTable {
  constructor(caption, columns, empty) {
    this.columns = columns;
    this.head = element("tr");
    this.body = element("tbody");
    this.empty = element("p", { class: "empty" }, empty);
    const table = element("table", {}, element("caption", { class: "visually-hidden" }, caption),
      element("thead", {}, this.head), this.body);
    this.scroller = element("div", { class: "scroller" }, table);
    this.caption = caption;
    new ResizeObserver(() => scrollable(this.scroller, this.caption)).observe(table);
    this.element = element("div", { class: "data" }, this.scroller, this.empty);
    this.shape = "";
  }

  update(rows, empty) {
    if (empty) say(this.empty, empty);
    this.scroller.hidden = !rows.length;
    this.empty.hidden = rows.length > 0;
    const shown = this.columns.filter((column, place) => !place || rows.some((row) => column.value(row)));
    const shape = shown.map((column) => column.name).join("\n");
    if (shape !== this.shape) {
      this.shape = shape;
      this.body.replaceChildren();
      this.head.replaceChildren(...shown.map((column) =>
        element("th", { scope: "col", class: kind(column) }, column.name)));
    }
    while (this.body.rows.length > rows.length) this.body.deleteRow(-1);
    rows.forEach((row, place) => this.fill(this.body.rows[place] ?? this.added(shown), row, shown));
  }

  added(shown) {
    const row = this.body.insertRow();
    shown.forEach((column, place) => row.append(place ? element("td", { class: kind(column) })
      : element("th", { scope: "row" })));
    return row;
  }

  fill(line, row, shown) {
    shown.forEach((column, place) => {
      const cell = line.cells[place];
      if (column.make) {
        const made = column.make(row);
        if (cell.dataset.made !== made.dataset.made) cell.replaceChildren(made);
        cell.dataset.made = made.dataset.made;
        return;
      }
      const alarm = Boolean(column.alarm && column.alarm(row));
      say(cell, (alarm ? "⚠ " : "") + (column.value(row) ?? ""));
      cell.classList.toggle("alarm", alarm);
    });
  }
}
