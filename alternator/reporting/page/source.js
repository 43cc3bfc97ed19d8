// The source section: files with graphs in their margin, and breaks under their lines.

const KEYWORDS = new Set(("False None True and as assert async await break class continue def del elif else except finally for from global if " +
  "import in is lambda nonlocal not or pass raise return try while with yield match case").split(" "));
const TOKEN = /(#.*)|([rRbBuUfF]{0,2}(?:"""|'''))|([rRbBuUfF]{0,2}"(?:\\.|[^"\\])*"?|[rRbBuUfF]{0,2}'(?:\\.|[^'\\])*'?)|(@?[A-Za-z_]\w*)|(\d[\w.]*)/g;

// Split Python into [class, text] per line. `open` is the quote of a string that goes on over lines.
function highlight(lines) {
  let open = null;
  return lines.map((line) => {
    const out = [];
    let at = 0;
    const put = (kind, text) => { if (text) out.push([kind, text]); };
    while (at < line.length) {
      if (open) {
        const end = line.indexOf(open, at);
        const until = end < 0 ? line.length : end + 3;
        put("str", line.slice(at, until));
        at = until;
        if (end >= 0) open = null;
        continue;
      }
      TOKEN.lastIndex = at;
      const found = TOKEN.exec(line);
      if (!found) { put("", line.slice(at)); break; }
      put("", line.slice(at, found.index));
      at = found.index + found[0].length;
      if (found[1]) put("com", found[0]);
      else if (found[2]) { open = found[2].slice(-3); const end = line.indexOf(open, at); const until = end < 0 ? line.length : end + 3;
        put("str", found[0] + line.slice(at, until)); at = until; if (end >= 0) open = null; }
      else if (found[3]) put("str", found[0]);
      else if (found[5]) put("nbr", found[0]);
      else put(KEYWORDS.has(found[0]) ? "kw" : found[0][0] === "@" ? "dec" : "", found[0]);
    }
    return out;
  });
}

// Put the spans of a line together, with the part between two columns underlined.
function codeLine(tokens, marks) {
  const out = [];
  let at = 0;
  for (const [kind, text] of tokens) {
    let from = 0;
    const cuts = [...new Set(marks.flat().map((column) => column - at).filter((cut) => cut > 0 && cut < text.length))].sort((a, b) => a - b);
    for (const cut of [...cuts, text.length]) {
      const piece = text.slice(from, cut);
      const marked = marks.some(([start, end]) => at + from >= start && at + cut <= end);
      out.push(kind || marked ? el(marked ? "span.cause" : "span", { class: [marked && "cause", kind].filter(Boolean).join(" ") }, piece) : piece);
      from = cut;
    }
    at += text.length;
  }
  return out;
}

const MAX_LANES = 6;

// Give each point where graphs of a file begin a lane of the margin; those whose lines do not overlap share one.
function assignLanes(file) {
  const spans = new Map();
  const lines = new Map();
  for (const [line, captures] of Object.entries(file.covered)) {
    const here = new Map();
    for (const id of captures) {
      const graph = byCapture.get(id);
      if (!graph || graph.graph === null) continue;
      here.set(graph.point, [...(here.get(graph.point) || []), graph]);
      const span = spans.get(graph.point) || [Infinity, -Infinity];
      spans.set(graph.point, [Math.min(span[0], +line), Math.max(span[1], +line)]);
    }
    if (here.size) lines.set(+line, here);
  }
  const ends = [];
  const lanes = new Map();
  for (const [point, [first, last]] of [...spans].sort((a, b) => a[1][0] - b[1][0] || a[0].index - b[0].index)) {
    let lane = ends.findIndex((end) => end < first);
    if (lane < 0) lane = ends.length;
    ends[lane] = last;
    lanes.set(point, lane);
  }
  return { lanes, lines, count: Math.min(ends.length, MAX_LANES) };
}

function margin(line, { lanes, lines, count }) {
  const cells = Array.from({ length: count }, () => []);
  for (const [point, found] of lines.get(line) || []) cells[Math.min(lanes.get(point), count - 1)].push(...found);
  return cells.map((found) => {
    if (!found.length) return el("span.lane");
    const names = `graph${found.length > 1 ? "s" : ""} ${found.map((graph) => graph.number).join(", ")}`;
    return el("a.lane.on", {
      href: `#graphs/${found[0].number}`, tabindex: "-1", title: `Line ${line}: ${names}`, "aria-label": names,
      style: { "--colour": colour(found[0]) },
    });
  });
}

function breakNote(group, here) {
  const inner = group.place && (group.place[0] !== here[0] || group.place[1] !== here[1]);
  return el("div.note", { id: `break-in-${group.number}` },
    el("strong", null, inner ? "Breaks here, called from " : rich(group.what)),
    inner ? [placeLink(group.place), ": ", rich(group.what)] : null,
    el("span.dim", null, ` ${plural(group.count, "time")} `),
    el("a", { href: `#breaks/${group.number}` }, "why, and what to do"));
}

function codeView(index) {
  const file = D.files[index];
  const lanes = assignLanes(file);
  const rows = [];
  file.parts.forEach(([first, text], part) => {
    if (part) rows.push(el("div.gap", null, "⋯"));
    const lines = text.replace(/\n$/, "").split("\n");
    highlight(lines).forEach((tokens, offset) => {
      const line = first + offset;
      const groups = (file.breaks[line] || []).map((number) => D.breaks[number]).filter((group) => group.count > 0 && !group.idle);
      const columns = groups.flatMap((group) => group.frames.filter((frame) => frame[0] === index && frame[1] === line))
        .filter((frame) => frame[3] !== null).map((frame) => [frame[3], frame[4] ?? lines[offset].length]);
      const covered = lanes.lines.has(line);
      rows.push(el(`div.row${groups.length ? ".broken" : ""}${covered ? ".covered" : ""}`, { id: `line-${line}` },
        margin(line, lanes), el("span.ln", null, String(line)), el("code", null, codeLine(tokens, columns), "\n")));
      const seen = new Set();
      for (const group of groups) {
        if (seen.has(group.what)) continue;
        seen.add(group.what);
        rows.push(breakNote(group, [index, line]));
      }
    });
  });
  return el("div.code", { tabindex: "0", role: "region", "aria-label": `Source of ${file.name}`, style: { "--lanes": String(lanes.count) } }, rows);
}

function fileEntry(index, current) {
  const file = D.files[index];
  const ids = new Set(Object.values(file.covered).flat().filter((id) => byCapture.get(id)?.graph !== null && byCapture.has(id)));
  const broken = new Set(Object.values(file.breaks).flat().filter((number) => D.breaks[number].count > 0 && !D.breaks[number].idle));
  return el("a.entry", { href: `#source/${index}`, "aria-current": index === current ? "true" : null, title: file.path },
    el("span.name", null, file.library ? file.name.replace(`${file.library}/`, "") : file.name),
    el("span.counts", null, ids.size ? plural(ids.size, "graph") : "", broken.size ? el("span.warn", null, ` ${plural(broken.size, "break")}`) : null));
}

// How much of a library's file was captured; torch's own modules say the least about a program.
const interest = (number) => Object.keys(D.files[number].covered).length * (D.files[number].library === "torch" ? 0.01 : 1);

function legendKey(point) {
  const [first] = point.graphs;
  const name = `${functionName(point.fn)}${first.afterBreak ? ` from line ${point.start[1]} on` : ""}`;
  return el("span.key", null, graphLink(first), el("span.dim", null, name, point.graphs.length > 1 ? ` and ${point.graphs.length - 1} more like it` : ""));
}

function showSource(target, [index, line]) {
  const shown = D.files.map((file, number) => number).filter(hasText);
  if (!shown.length) return target.append(empty("No source: nothing was captured."));
  const own = shown.filter((number) => D.files[number].library === null);
  const current = index !== undefined && shown.includes(+index) ? +index : (own.length ? own : [...shown].sort((a, b) => interest(b) - interest(a)))[0];
  const libraries = new Map();
  for (const number of shown) if (D.files[number].library !== null) libraries.set(D.files[number].library, [...(libraries.get(D.files[number].library) || []), number]);
  const file = D.files[current];
  const list = el("nav.list", { "aria-label": "Files" },
    own.length ? [el("h3", null, "Your code"), own.map((number) => fileEntry(number, current))] : null,
    [...libraries].map(([name, files]) => el("details", { open: files.includes(current) || !own.length },
      el("summary", null, `${name} `, el("span.dim", null, plural(files.length, "file"))), files.map((number) => fileEntry(number, current)))));
  const used = [...assignLanes(file).lanes.keys()].sort((a, b) => a.index - b.index);
  const whole = el("div.split", null, list, el("div.pane", null,
    el("div.pane-head", null, el("h2", null, file.name),
      el("div.legend", null, used.slice(0, 16).map(legendKey), used.length > 16 ? el("span.dim", null, `and ${used.length - 16} more`) : null)),
    codeView(current)));
  target.append(whole);
  if (line !== undefined) {
    const row = whole.querySelector(`#line-${CSS.escape(line)}`);
    if (row) { row.classList.add("target"); requestAnimationFrame(() => row.scrollIntoView({ block: "center" })); }
  }
}
