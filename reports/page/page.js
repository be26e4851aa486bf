
"use strict";
const data = JSON.parse(document.getElementById("data").textContent);
const told = document.getElementById("told");
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

// pictures: the same text is ringed in all panels of a section
const MARKS = 5, NEAR = 12, MARGIN = 6;

function live(box) {
  const picture = data.pictures[Number(box.dataset.picture)];
  const colours = [...Array(8).keys()].map((number) => box.querySelector(".c" + number));
  const canvases = [...box.querySelectorAll("canvas")], boxes = [...box.querySelectorAll("input")];
  let chosen = null; // number of a text
  const shown = (label) => boxes[label].checked;
  const colour = (label) => getComputedStyle(colours[label % 8]).backgroundColor;

  function place(canvas, panel, i) {
    const width = canvas.clientWidth - 2 * MARGIN, height = canvas.clientHeight - 2 * MARGIN;
    return [MARGIN + panel.x[i] / 1000 * width, MARGIN + (1 - panel.y[i] / 1000) * height];
  }

  function mark(pen, label, x, y, size) {
    pen.beginPath();
    const corners = [0, 3, 4, -4, -3][Math.floor(label / 8) % MARKS]; // negative: standing on another side
    if (corners === 0) pen.arc(x, y, size, 0, 7);
    for (let k = 0; k < Math.abs(corners); k++) {
      const turn = (k + (corners === 4 ? 0.5 : corners === -3 ? 1.5 : 0)) * 2 * Math.PI / Math.abs(corners);
      pen.lineTo(x + 1.3 * size * Math.sin(turn), y - 1.3 * size * Math.cos(turn));
    }
    pen.closePath();
  }

  function draw(canvas, panel) {
    const scale = window.devicePixelRatio, pen = canvas.getContext("2d");
    [canvas.width, canvas.height] = [canvas.clientWidth * scale, canvas.clientHeight * scale];
    pen.scale(scale, scale);
    const fill = picture.classes.map((_, label) => colour(label));
    panel.labels.forEach((label, i) => {
      if (!shown(label)) return;
      mark(pen, label, ...place(canvas, panel, i), 2.5);
      pen.globalAlpha = 0.75;
      pen.fillStyle = fill[label];
      pen.fill();
    });
    const i = panel.texts.indexOf(chosen);
    if (i < 0 || !shown(panel.labels[i])) return;
    pen.globalAlpha = 1;
    mark(pen, 0, ...place(canvas, panel, i), 6);
    pen.lineWidth = 2;
    pen.strokeStyle = getComputedStyle(document.body).color;
    pen.stroke();
  }
  const redraw = () => canvases.forEach((canvas, k) => canvas.hidden || draw(canvas, picture.panels[k]));

  function choose(canvas, panel, i) {
    chosen = i === null ? null : panel.texts[i];
    told.hidden = i === null;
    if (i !== null) {
      told.textContent = picture.classes[panel.labels[i]] + ": " + data.texts[chosen];
      const frame = canvas.getBoundingClientRect(), [x, y] = place(canvas, panel, i);
      const right = Math.min(frame.left + x + 12, document.documentElement.clientWidth - told.offsetWidth - 8);
      const below = frame.top + y + 12, fits = below + told.offsetHeight < window.innerHeight;
      told.style.left = Math.max(8, right) + "px";
      told.style.top = (fits ? below : Math.max(8, frame.top + y - told.offsetHeight - 12)) + "px";
    }
    redraw();
  }

  function nearest(canvas, panel, x, y, allowed) {
    let best = null, least = Infinity;
    panel.labels.forEach((label, i) => {
      const [px, py] = place(canvas, panel, i), far = Math.hypot(px - x, py - y);
      if (shown(label) && far < least && allowed(px - x, py - y, far)) [best, least] = [i, far];
    });
    return best;
  }

  const KEYS = { ArrowRight: [1, 0], ArrowLeft: [-1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
  canvases.forEach((canvas, k) => {
    if (canvas.hidden) return;
    const panel = picture.panels[k];
    canvas.addEventListener("pointermove", (event) => {
      choose(canvas, panel, nearest(canvas, panel, event.offsetX, event.offsetY, (dx, dy, far) => far < NEAR));
    });
    canvas.addEventListener("pointerleave", () => choose(canvas, panel, null));
    canvas.addEventListener("blur", () => choose(canvas, panel, null));
    const middle = () => nearest(canvas, panel, canvas.clientWidth / 2, canvas.clientHeight / 2, () => true);
    canvas.addEventListener("focus", () => canvas.matches(":focus-visible") && choose(canvas, panel, middle()));
    canvas.addEventListener("keydown", (event) => {
      if (event.key === "Escape") choose(canvas, panel, null);
      if (!(event.key in KEYS)) return;
      event.preventDefault();
      const now = panel.texts.indexOf(chosen), [ax, ay] = KEYS[event.key];
      if (now < 0) return choose(canvas, panel, middle());
      const [x, y] = place(canvas, panel, now);
      const ahead = (dx, dy) => dx * ax + dy * ay > Math.abs(dx * ay) + Math.abs(dy * ax) - 1e-9 && (dx || dy);
      const next = nearest(canvas, panel, x, y, ahead);
      if (next !== null) choose(canvas, panel, next);
    });
  });
  boxes.forEach((input) => input.addEventListener("change", redraw));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  new ResizeObserver(redraw).observe(box);
}
document.querySelectorAll(".picture").forEach(live);
