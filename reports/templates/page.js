
"use strict";
const alphabet = new Intl.Collator("en", { numeric: true });

// tables: by number where a column has any, and what has none stays below; equal ones keep the report's order.
// The address holds the state: #filter=lora&sort=2.1.descending is the second column of the third table.
const tables = [...document.querySelectorAll("table")], filter = document.getElementById("filter");
const state = () => new URLSearchParams(location.hash.includes("=") ? location.hash.slice(1) : "");

function remember(name, value) {
  const parameters = state();
  if (value) parameters.set(name, value); else parameters.delete(name);
  history.replaceState(null, "", "#" + parameters);
}

function sort(table, column, order) {
  const body = table.tBodies[0], rows = [...body.rows], heads = [...table.tHead.rows[0].cells];
  const key = (row) => row.cells[column].dataset.value === undefined ? null : Number(row.cells[column].dataset.value);
  const numbers = rows.some((row) => key(row) !== null);
  if (!order) {
    const first = numbers ? "descending" : "ascending", then = numbers ? "ascending" : "descending";
    order = heads[column].getAttribute("aria-sort") === first ? then : first;
  }
  const sign = order === "ascending" ? 1 : -1;
  rows.sort((a, b) => {
    if (!numbers) return sign * alphabet.compare(a.cells[column].textContent, b.cells[column].textContent);
    const [x, y] = [key(a), key(b)];
    return x === null || y === null ? (x === null) - (y === null) : sign * (x - y);
  });
  heads.forEach((head, at) => head.setAttribute("aria-sort", at === column ? order : "none"));
  body.append(...rows);
  return order;
}

function narrow(words) {
  const wanted = words.toLowerCase();
  for (const row of document.querySelectorAll("main section tbody tr, .forest li"))
    row.hidden = !(row.cells ? row.cells[0] : row.firstElementChild).textContent.toLowerCase().includes(wanted);
}

tables.forEach((table, number) => [...table.tHead.rows[0].cells].forEach((head, column) =>
  head.firstElementChild.addEventListener("click", () =>
    remember("sort", [number, column, sort(table, column)].join(".")))));
if (filter) filter.addEventListener("input", () => { narrow(filter.value); remember("filter", filter.value); });

const asked = state(), [number, column, order] = (asked.get("sort") || "").split(".");
if (tables[number]?.tHead.rows[0].cells[column] && ["ascending", "descending"].includes(order))
  sort(tables[number], Number(column), order);
if (filter && asked.get("filter")) narrow(filter.value = asked.get("filter"));
