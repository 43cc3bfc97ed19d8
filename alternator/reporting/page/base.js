// What all sections use: the data, elements, numbers, colours, links to places.
//
// Everything that comes from the program is put in as text (createTextNode, setAttribute), never as HTML.

const D = JSON.parse(document.getElementById("data").textContent);
const SVG = "http://www.w3.org/2000/svg";
const COLOURS = 8;

// el("a.link", {href: "#"}, "text", child): an element; names before a colon-less tag are HTML, "svg:" ones SVG.
function el(tag, attributes, ...children) {
  const [name, ...classes] = tag.split(".");
  const node = name.startsWith("svg:") ? document.createElementNS(SVG, name.slice(4)) : document.createElement(name || "div");
  if (classes.length) node.setAttribute("class", classes.join(" "));
  for (const [key, value] of Object.entries(attributes || {})) {
    if (value === undefined || value === null || value === false) continue;
    if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else if (key === "style") for (const [name, entry] of Object.entries(value)) node.style.setProperty(name, entry);
    else node.setAttribute(key, value === true ? "" : value);
  }
  for (const child of children.flat(3)) if (child !== null && child !== undefined && child !== false) node.append(child);
  return node;
}

const plural = (count, one, many) => `${count.toLocaleString("en-US")} ${count === 1 ? one : many || one + "s"}`;
const number = (value) => value.toLocaleString("en-US");

function duration(seconds) {
  if (seconds === null || seconds === undefined) return "–";
  if (seconds >= 100) return `${seconds.toFixed(0)} s`;
  if (seconds >= 1) return `${seconds.toFixed(2)} s`;
  if (seconds >= 1e-3) return `${(seconds * 1e3).toFixed(seconds >= 0.1 ? 0 : seconds >= 0.01 ? 1 : 2)} ms`;
  return `${(seconds * 1e6).toFixed(seconds >= 1e-5 ? 0 : 1)} µs`;
}

// ---- What the data comes to ---------------------------------------------------------------------------------------

// A graph on this page is a capture that has one; graphs that are equal share what is drawn.
const graphs = D.captures.filter((capture) => capture.graph !== null);
const byCapture = new Map(D.captures.map((capture) => [capture.id, capture]));
graphs.forEach((graph, index) => { graph.number = index + 1; });
const breaks = D.breaks.filter((group) => !group.idle && group.count > 0);
const idleBreaks = D.breaks.filter((group) => group.idle && group.count > 0);
const sum = (values) => values.reduce((total, value) => total + (value || 0), 0);
const callStats = (capture) => D.calls[capture.id] || [0, 0, 0, 0];

// Graphs that begin at the same place of the same function (one after the other, as values change) share a colour.
const points = new Map();
for (const graph of graphs) {
  const key = `${graph.fn}|${graph.start.slice(0, 3)}|${graph.depth}`;
  if (!points.has(key)) points.set(key, { index: points.size, fn: graph.fn, start: graph.start, graphs: [] });
  graph.point = points.get(key);
  graph.point.graphs.push(graph);
}
const pointColour = (point) => `var(--graph-${point.index % COLOURS})`;
const colour = (graph) => pointColour(graph.point);
const chip = (graph) => el("span.chip", { style: { "--colour": colour(graph) } }, String(graph.number));

function graphLink(graph) {
  return el("a.graph-link", { href: `#graphs/${graph.number}`, title: `Graph ${graph.number}: ${functionName(graph.fn)}` }, chip(graph));
}

const functionName = (fn) => D.functions[fn].name;
const fileName = (file) => D.files[file].name;
const hasText = (file) => D.files[file].parts.length > 0;

// A link to a line; text if the page does not hold the line.
function placeLink(place, withFunction) {
  if (!place) return el("span.dim", null, "–");
  const [file, line, name] = place;
  const text = `${fileName(file)}:${line}`;
  const shown = withFunction && name ? [text, el("span.dim", null, ` in ${name}`)] : text;
  return hasText(file) && hasLine(file, line)
    ? el("a.place", { href: `#source/${file}/${line}` }, shown)
    : el("span.place", { title: D.files[file].path }, shown);
}

function hasLine(file, line) {
  return D.files[file].parts.some(([first, text]) => line >= first && line < first + text.split("\n").length);
}

function lineText(file, line) {
  for (const [first, text] of D.files[file].parts) {
    const lines = text.split("\n");
    if (line >= first && line < first + lines.length) return lines[line - first];
  }
  return null;
}

// Text of ours with `code` in it.
function rich(text) {
  return text.split("`").map((part, index) => (index % 2 ? el("code", null, part) : part));
}

// ---- Small parts --------------------------------------------------------------------------------------------------

const empty = (...text) => el("p.empty", null, ...text);

// A table. Columns: {title, cell(row), number, sort(row)}; heads of columns with `sort` are buttons.
function table(caption, columns, rows) {
  const body = el("tbody");
  const heads = columns.map((column) => {
    const head = el("th", { scope: "col", class: column.number && "num" });
    if (!column.sort) head.append(column.title);
    else head.append(el("button.sort", { type: "button", onclick: () => sortBy(column, head) }, column.title));
    return head;
  });
  const fill = (sorted) => body.replaceChildren(...sorted.map((row) =>
    el("tr", null, columns.map((column) => el("td", { class: column.number ? "num" : column.wide ? "wide" : null }, column.cell(row))))));
  function sortBy(column, head) {
    const down = head.getAttribute("aria-sort") !== "descending";
    heads.forEach((other) => other.removeAttribute("aria-sort"));
    head.setAttribute("aria-sort", down ? "descending" : "ascending");
    const order = (a, b) => (column.sort(a) < column.sort(b) ? -1 : column.sort(a) > column.sort(b) ? 1 : 0);
    fill([...rows].sort((a, b) => (down ? order(b, a) : order(a, b))));
  }
  fill(rows);
  return el("div.scroll", { tabindex: "0", role: "region", "aria-label": caption },
    el("table", null, el("caption.hidden", null, caption), el("thead", null, el("tr", null, heads)), body));
}

// A line of source with the part between two columns underlined.
function sourceLine(place) {
  const text = place && lineText(place[0], place[1]);
  if (text === null || text === undefined) return null;
  const start = text.length - text.trimStart().length;
  const from = Math.max(place[3] ?? start, start);
  const to = place[4] ?? text.length;
  return el("pre.line", null, text.slice(start, from), el("mark.cause", null, text.slice(from, Math.max(to, from))), text.slice(to));
}
