"use strict";
const alphabet = new Intl.Collator("en", { numeric: true });

// tables: by number where a column has any, and what has none stays below; equal ones keep the report's order.
function sort(table, column) {
  const body = table.tBodies[0], rows = [...body.rows], heads = [...table.tHead.rows[0].cells];
  const key = (row) => row.cells[column].dataset.value === undefined ? null : Number(row.cells[column].dataset.value);
  const numbers = rows.some((row) => key(row) !== null);
  const first = numbers ? "descending" : "ascending", then = numbers ? "ascending" : "descending";
  const order = heads[column].getAttribute("aria-sort") === first ? then : first;
  const sign = order === "ascending" ? 1 : -1;
  rows.sort((a, b) => {
    if (!numbers) return sign * alphabet.compare(a.cells[column].textContent, b.cells[column].textContent);
    const [x, y] = [key(a), key(b)];
    return x === null || y === null ? (x === null) - (y === null) : sign * (x - y);
  });
  heads.forEach((head, at) => head.setAttribute("aria-sort", at === column ? order : "none"));
  body.append(...rows);
}

for (const table of document.querySelectorAll("table"))
  [...table.tHead.rows[0].cells].forEach((head, column) =>
    head.firstElementChild.addEventListener("click", () => sort(table, column)));
