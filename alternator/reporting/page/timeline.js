// The timeline: capture, backend and calls over time, with zoom; and the same as a table.

const ROW = 22;
const LABEL = 150;

// The rows: for each thread that captured its captures and backends, then the calls of each function's graphs.
function timelineRows() {
  const rows = [];
  for (let thread = 0; thread < Math.max(D.threads, 1); thread++) {
    const own = D.captures.filter((capture) => capture.thread === thread && capture.ended !== undefined);
    const suffix = D.threads > 1 ? ` (thread ${thread + 1})` : "";
    if (!own.length) continue;
    rows.push({ name: `Capture${suffix}`, bars: own.map((capture) => ({ from: capture.began, to: capture.ended, kind: "capture", capture, text: `capture of ${functionName(capture.fn)}, ${duration(capture.seconds)}` })) });
    const backends = own.filter((capture) => capture.backend && capture.backend.seconds !== null);
    if (backends.length) rows.push({ name: `Backend${suffix}`, bars: backends.map((capture) => ({ from: capture.backend.began, to: capture.backend.began + capture.backend.seconds, kind: "backend", capture, text: `${capture.backend.name} for ${functionName(capture.fn)}, ${duration(capture.backend.seconds)}` })) });
  }
  D.functions.forEach((fn, index) => {
    const bars = D.callBars.filter(([id]) => byCapture.get(id)?.fn === index).map(([id, from, to, count]) => ({
      from, to, kind: "calls", capture: byCapture.get(id), text: `graph ${byCapture.get(id).number}: ${count > 1 ? plural(count, "call") + " within " : "a call, "}${duration(to - from)}` }));
    if (bars.length) rows.push({ name: fn.name, bars });
  });
  const marks = [...D.recompiles.map((row) => ({ at: row.time, text: `${functionName(row.fn)} recompiled: ${row.reason}` })), ...D.limits.map((row) => ({ at: row.time, text: `${functionName(row.fn)}: ${row.limit} reached` }))];
  if (marks.length) rows.push({ name: "Recompiled", bars: [], marks });
  return rows;
}

class Timeline {
  constructor(rows) {
    this.rows = rows;
    const all = rows.flatMap((row) => row.bars);
    this.first = Math.min(...all.map((bar) => bar.from));
    this.last = Math.max(...all.map((bar) => bar.to), this.first + 1e-4);
    this.from = this.first;
    this.to = this.last;
    this.height = 26 + rows.length * (ROW + 6);
    this.svg = el("svg:svg.timeline", { height: this.height, role: "group", tabindex: "0", "aria-label": "Timeline. Left and right move, plus and minus zoom, 0 shows everything. The table below has the same figures." });
    this.listen();
  }

  get width() { return Math.max(this.svg.getBoundingClientRect().width - 12, 200); }
  at(time) { return LABEL + ((time - this.from) / (this.to - this.from)) * (this.width - LABEL); }

  draw() {
    const parts = [this.axis()];
    this.rows.forEach((row, index) => {
      const y = 26 + index * (ROW + 6);
      parts.push(el("svg:line.rule", { x1: 0, x2: this.width, y1: y + ROW + 3, y2: y + ROW + 3 }));
      parts.push(this.bars(row, y));
      for (const mark of row.marks || []) if (mark.at >= this.from && mark.at <= this.to)
        parts.push(el("svg:path.recompiled", { d: `M${this.at(mark.at)},${y + 3}l5,8l-5,8l-5,-8z` }, el("svg:title", null, mark.text)));
      parts.push(el("svg:rect.mask", { x: 0, y: y - 1, width: LABEL - 4, height: ROW + 2 }), el("svg:text.row-name", { x: 0, y: y + 15 }, shorten(row.name, 20), el("svg:title", null, row.name)));
    });
    this.svg.replaceChildren(...parts.flat());
  }

  // Bars too narrow to see are drawn together.
  bars(row, y) {
    const out = [];
    let last = null;
    for (const bar of [...row.bars].sort((a, b) => a.from - b.from)) {
      if (bar.to < this.from || bar.from > this.to) continue;
      const x = Math.max(this.at(bar.from), LABEL - 2);
      const end = Math.min(Math.max(this.at(bar.to), x + 1.5), this.width);
      if (last && end - last.x < 3 && last.kind === bar.kind) { last.more++; last.end = Math.max(last.end, end); continue; }
      last = { x, end, more: 0, bar, kind: bar.kind };
      out.push(last);
    }
    return out.map(({ x, end, more, bar }) => {
      const text = more ? `${bar.text}, and ${more} more too short to tell apart` : bar.text;
      const shape = el(`svg:rect.bar.${bar.kind}`, { x, y: y + 2, width: Math.max(end - x, 1.5), height: ROW - 4, rx: 2, style: bar.capture.number ? { "--colour": colour(bar.capture) } : {} }, el("svg:title", null, text));
      const link = bar.capture.number ? el("svg:a", { href: `#graphs/${bar.capture.number}`, tabindex: "-1" }, shape) : shape;
      if (end - x < 60) return link;
      return [link, el("svg:text.bar-text", { x: x + 5, y: y + 15 }, shorten(bar.kind === "calls" ? `graph ${bar.capture.number}` : functionName(bar.capture.fn), Math.floor((end - x - 8) / 6.6)))];
    }).flat();
  }

  axis() {
    const span = this.to - this.from;
    const rough = span / Math.max((this.width - LABEL) / 110, 1);
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map((factor) => factor * power).find((size) => size >= rough);
    const ticks = [];
    for (let tick = Math.ceil(this.from / step) * step; tick <= this.to; tick += step) {
      const x = this.at(tick);
      ticks.push(el("svg:line.tick", { x1: x, x2: x, y1: 18, y2: this.height }));
      if (x + 60 < this.width) ticks.push(el("svg:text.tick-text", { x: x + 3, y: 14 }, this.label(tick, step)));
    }
    return el("svg:g", { "aria-hidden": "true" }, ticks);
  }

  label(tick, step) {
    const [unit, name] = step >= 0.05 ? [1, "s"] : step >= 5e-5 ? [1e3, "ms"] : [1e6, "µs"];
    const digits = Math.max(0, Math.ceil(-Math.log10(step * unit) - 1e-9));
    return `${(tick * unit).toLocaleString("en-US", { minimumFractionDigits: digits, maximumFractionDigits: digits })} ${name}`;
  }

  show(from, to) {
    const span = Math.min(Math.max(to - from, 2e-6), this.last - this.first);
    this.from = Math.min(Math.max(from, this.first), this.last - span);
    this.to = this.from + span;
    this.draw();
  }

  zoom(factor, share = 0.5) {
    const span = (this.to - this.from) / factor;
    const middle = this.from + (this.to - this.from) * share;
    this.show(middle - span * share, middle + span * (1 - share));
  }

  move(share) { const by = (this.to - this.from) * share; this.show(this.from + by, this.to + by); }

  listen() {
    const keys = { ArrowLeft: () => this.move(-0.2), ArrowRight: () => this.move(0.2), "+": () => this.zoom(1.6), "=": () => this.zoom(1.6), "-": () => this.zoom(1 / 1.6), 0: () => this.show(this.first, this.last) };
    this.svg.addEventListener("keydown", (event) => { if (keys[event.key] && !event.ctrlKey && !event.metaKey) { keys[event.key](); event.preventDefault(); } });
    this.svg.addEventListener("wheel", (event) => {
      if (!event.ctrlKey && !event.metaKey && !event.deltaX && !event.shiftKey) return; // the page scrolls
      event.preventDefault();
      const share = (event.clientX - this.svg.getBoundingClientRect().left - LABEL) / (this.width - LABEL);
      if (event.ctrlKey || event.metaKey) this.zoom(Math.exp(-event.deltaY * 0.004), Math.min(Math.max(share, 0), 1));
      else this.move((event.deltaX || event.deltaY) / 800);
    }, { passive: false });
    let last = null;
    this.svg.addEventListener("pointerdown", (event) => { last = event.clientX; });
    this.svg.addEventListener("pointermove", (event) => { if (last !== null && event.buttons) { this.move((last - event.clientX) / (this.width - LABEL)); last = event.clientX; } });
    window.addEventListener("pointerup", () => { last = null; });
  }
}

// The drawing with its buttons; null if there is nothing to draw.
function timelineView() {
  const rows = timelineRows();
  if (!rows.some((row) => row.bars.length)) return null;
  const timeline = new Timeline(rows);
  const button = (text, act, label) => el("button", { type: "button", onclick: act, "aria-label": label }, text);
  const view = el("div", null, el("div.tools", { role: "toolbar", "aria-label": "Timeline" },
    el("span.key", null, el("span.swatch.capture"), "capture"), el("span.key", null, el("span.swatch.backend"), "backend"), el("span.key", null, el("span.swatch.calls"), "calls, in the graph's colour"), el("span.spring"),
    button("−", () => timeline.zoom(1 / 1.6), "Zoom out"), button("+", () => timeline.zoom(1.6), "Zoom in"), button("All", () => timeline.show(timeline.first, timeline.last), "Show everything")),
    el("div.timeline-frame", null, timeline.svg));
  requestAnimationFrame(() => timeline.draw());
  window.addEventListener("resize", () => { if (timeline.svg.isConnected) timeline.draw(); });
  return view;
}

function showTimeline(target) {
  const view = timelineView();
  if (!view) return target.append(empty("Nothing was captured."));
  target.append(view);
  const shown = D.captures.slice(0, 500);
  target.append(el("section", null, el("h2", null, "Captures"), table("Captures", [
    { title: "Graph", cell: (row) => (row.number ? graphLink(row) : el("span.dim", null, "none")), sort: (row) => row.number || 0 },
    { title: "Function", wide: true, cell: (row) => functionName(row.fn), sort: (row) => functionName(row.fn) },
    { title: "Begins at", cell: (row) => placeLink(row.start), sort: (row) => row.start[1] },
    { title: "After", number: true, cell: (row) => duration(row.began), sort: (row) => row.began },
    { title: "Capture", number: true, cell: (row) => duration(row.seconds), sort: (row) => row.seconds || 0 },
    { title: "Backend", number: true, cell: (row) => duration(row.backend && row.backend.seconds), sort: (row) => (row.backend && row.backend.seconds) || 0 },
    { title: "Calls", number: true, cell: (row) => number(callStats(row)[0]), sort: (row) => callStats(row)[0] },
    { title: "Mean", number: true, cell: (row) => (callStats(row)[0] ? duration(callStats(row)[1] / callStats(row)[0]) : "–"), sort: (row) => (callStats(row)[0] ? callStats(row)[1] / callStats(row)[0] : 0) },
    { title: "Ends", wide: true, cell: (row) => (row.end === undefined ? "cut off" : row.end === null ? "returns" : el("a", { href: `#breaks/${row.end}` }, D.breaks[row.end].what)) }], shown),
    D.captures.length > shown.length ? el("p.cut", null, `${number(D.captures.length - shown.length)} more are not in the table.`) : null));
}
