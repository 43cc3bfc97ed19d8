// The sections that are mostly tables: overview, breaks, guards, recompilations.

function tile(value, name, about, href, kind) {
  const body = [el("span.value", null, value), el("span.label", null, name), el("span.about", null, about)];
  return href ? el(`a.tile${kind ? "." + kind : ""}`, { href }, body) : el("div.tile", null, body);
}

function showOverview(target) {
  const spent = { capture: sum(D.captures.map((c) => c.seconds)), backend: sum(D.captures.map((c) => c.backend && c.backend.seconds)), calls: sum(Object.values(D.calls).map((s) => s[1])) };
  const count = sum(breaks.map((group) => group.count));
  const guards = sum(graphs.map((graph) => graph.guards));
  target.append(el("div.tiles", null,
    tile(number(graphs.length), graphs.length === 1 ? "graph" : "graphs", `of ${plural(D.functions.length, "function")}`, "#graphs"),
    tile(number(sum(graphs.map((graph) => graph.operations))), "operations", graphs.length ? `${Math.round(sum(graphs.map((graph) => graph.operations)) / graphs.length)} per graph` : "", "#graphs"),
    tile(number(count), count === 1 ? "break" : "breaks", count ? `at ${plural(new Set(breaks.map((b) => String(b.place))).size, "place")}` : "no function is split", "#breaks", count && "warn"),
    tile(number(D.recompiles.length), D.recompiles.length === 1 ? "recompilation" : "recompilations", D.limits.length ? `${plural(D.limits.length, "limit")} reached` : "", "#recompiles", D.recompiles.length && "warn"),
    tile(number(guards), "guards", "", "#guards"),
    tile(duration(spent.capture), "capture", "tracing", "#timeline"),
    tile(duration(spent.backend), "backend", [...new Set(graphs.map((g) => g.backend && g.backend.name).filter(Boolean))].join(", "), "#timeline"),
    tile(duration(spent.calls), "in graphs", `${plural(sum(Object.values(D.calls).map((s) => s[0])), "call")}`, "#timeline")));
  if (!D.captures.length)
    target.append(empty("Nothing was captured. A report sees what alternator.compile() makes, and what torch.compile() makes while Alternator is installed, from the moment at which the report begins."));
  if (breaks.length) target.append(el("section", null, el("h2", null, "Breaks to look at first"),
    [...breaks].sort((a, b) => b.count - a.count).slice(0, 3).map((group) => breakCard(group, true)),
    breaks.length > 3 ? el("p", null, el("a", { href: "#breaks" }, `All ${breaks.length}`)) : null));
  if (D.functions.length) target.append(el("section", null, el("h2", null, "Functions"), functionTable()));
  if (graphs.length) target.append(el("section", null, el("h2", null, "Over time"), timelineView()), operationChart());
  if (D.notes.length) target.append(el("section", null, el("h2", null, "Left out"), el("ul", null, D.notes.map((note) => el("li", null, note)))));
}

function functionTable() {
  const rows = D.functions.map((fn, index) => {
    const own = D.captures.filter((capture) => capture.fn === index);
    const calls = own.map(callStats);
    return {
      fn, index, graphs: own.filter((capture) => capture.graph !== null), operations: sum(own.map((capture) => capture.operations)),
      breaks: sum(breaks.filter((group) => group.fns.includes(index)).map((group) => group.count)),
      recompiles: D.recompiles.filter((row) => row.fn === index).length, capture: sum(own.map((capture) => capture.seconds)),
      backend: sum(own.map((capture) => capture.backend && capture.backend.seconds)), calls: sum(calls.map((s) => s[0])), time: sum(calls.map((s) => s[1])),
    };
  });
  const figure = (title, key, show = number) => ({ title, number: true, cell: (row) => show(row[key]), sort: (row) => row[key] });
  return table("Functions", [
    { title: "Function", wide: true, cell: (row) => [el("strong", null, row.fn.name), el("br"), placeLink(row.fn.place)], sort: (row) => row.fn.name },
    { title: "Graphs", cell: (row) => [row.graphs.slice(0, 12).map((graph) => [graphLink(graph), " "]), row.graphs.length > 12 ? `+${row.graphs.length - 12}` : null], sort: (row) => row.graphs.length },
    figure("Operations", "operations"), figure("Breaks", "breaks"), figure("Recompiled", "recompiles"), figure("Capture", "capture", duration),
    figure("Backend", "backend", duration), figure("Calls", "calls"), figure("In graphs", "time", duration)], rows);
}

// The operations of all graphs by how often they occur.
function operationChart() {
  const counts = new Map();
  for (const graph of graphs)
    for (const node of D.graphs[graph.graph].nodes) if (node[1] === KIND.call || node[1] === KIND.other) counts.set(node[2], (counts.get(node[2]) || 0) + 1);
  const shown = [...counts].sort((a, b) => b[1] - a[1]).slice(0, 24);
  if (!shown.length) return "";
  return el("section", null, el("h2", null, "Operations ", el("span.dim", null, `${plural(counts.size, "kind")}${counts.size > shown.length ? `, the ${shown.length} most frequent` : ""}`)),
    el("ul.chart", null, shown.map(([name, count]) => el("li", null, el("code", { title: name }, name), el("span.track", null, el("span.fill", { style: { width: `${(100 * count) / shown[0][1]}%` } })), el("span.num", null, number(count))))));
}

// ---- Breaks -------------------------------------------------------------------------------------------------------

function breakCard(group, short) {
  const frames = group.frames.slice(-12);
  return el(`article.card${group.idle ? "" : ".warn"}`, { id: `break-${group.number}`, tabindex: "-1" },
    el("header", null, el("h3", null, rich(group.what)), el("span.count", { title: "How often a capture ended here" }, `${number(group.count)}×`)),
    el("p.where", null, placeLink(group.place, true)), sourceLine(group.place),
    el("p", null, rich(group.why)), group.detail && !group.what.includes(group.detail) && !group.why.includes(group.detail) ? el("p.detail", null, el("code", null, group.detail)) : null,
    group.hints.length ? el("div.hints", null, el("h4", null, "What to do"), el("ul", null, group.hints.map((hint) => el("li", null, rich(hint))))) : null,
    short ? null : el("details", null, el("summary", null, `How the program got there, ${plural(group.frames.length, "frame")}`),
      el("ol.frames", null, frames.map((frame) => el("li", null, placeLink(frame, true), frame[5] ? el("span.tag", null, frame[5]) : null, sourceLine(frame))))),
    short ? null : el("p.dim", null, `Reason `, el("code", null, group.reason), group.fns.length ? `, in ${group.fns.map(functionName).join(", ")}` : ""));
}

function showBreaks(target, [chosen]) {
  if (!breaks.length) target.append(empty(D.captures.length ? "No breaks: everything was captured whole." : "Nothing was captured."));
  const reasons = new Map();
  for (const group of breaks) reasons.set(group.reason, [...(reasons.get(group.reason) || []), group]);
  const sorted = [...reasons].sort((a, b) => sum(b[1].map((group) => group.count)) - sum(a[1].map((group) => group.count)));
  for (const [reason, groups] of sorted)
    target.append(el("section", null, el("h2", null, el("code", null, reason), el("span.dim", null, ` ${plural(sum(groups.map((group) => group.count)), "break")} at ${plural(groups.length, "place")}`)),
      groups.sort((a, b) => b.count - a.count).map((group) => breakCard(group))));
  if (idleBreaks.length) target.append(el("details.quiet-part", null,
    el("summary", null, `${plural(sum(idleBreaks.map((group) => group.count)), "more stop")} with nothing to compute in front of them: they split no graph`), idleBreaks.map((group) => breakCard(group))));
  const card = chosen !== undefined && target.querySelector(`#break-${CSS.escape(chosen)}`);
  if (card) { card.closest("details")?.setAttribute("open", ""); card.classList.add("target"); requestAnimationFrame(() => card.scrollIntoView({ block: "center" })); }
}

// ---- Guards -------------------------------------------------------------------------------------------------------

const GUARD_PAGE = 200;

function showGuards(target, [chosen]) {
  if (!D.guards.length) return target.append(empty("No guards."));
  let shown = GUARD_PAGE;
  const search = el("input", { type: "search", placeholder: "Search, for example  dropout  or  == 3", "aria-label": "Search guards", oninput: () => { shown = GUARD_PAGE; fill(); } });
  const pick = el("select", { "aria-label": "Graph", onchange: () => { shown = GUARD_PAGE; fill(); } }, el("option", { value: "" }, "All graphs"),
    graphs.map((graph) => el("option", { value: graph.id, selected: String(graph.number) === chosen }, `Graph ${graph.number}: ${functionName(graph.fn)}`)));
  const result = el("p.dim", { role: "status" });
  const holder = el("div");
  const columns = [
    { title: "Guard", wide: true, cell: (row) => el("code.guard", null, row.text), sort: (row) => row.text },
    { title: "Kind", cell: (row) => row.kind, sort: (row) => row.kind },
    { title: "Line that needs it", cell: (row) => placeLink(row.place), sort: (row) => (row.place ? row.place[1] : 0) },
    { title: "Graphs", cell: (row) => { const of = row.captures.map((id) => byCapture.get(id)).filter((graph) => graph && graph.number);
      return [of.slice(0, 8).map((graph) => [graphLink(graph), " "]), of.length > 8 ? `+${of.length - 8}` : null]; }, sort: (row) => row.captures.length }];
  function fill() {
    const words = search.value.toLowerCase().trim();
    const id = pick.value ? +pick.value : null;
    const found = D.guards.filter((row) => (id === null || row.captures.includes(id)) && (row.text.toLowerCase().includes(words) || row.kind.toLowerCase().includes(words)));
    result.textContent = `${plural(found.length, "guard")}${found.length > shown ? `, the first ${shown} shown` : ""}`;
    holder.replaceChildren(table("Guards", columns, found.slice(0, shown)),
      found.length > shown ? el("button", { type: "button", onclick: () => { shown += 5 * GUARD_PAGE; fill(); } }, "Show more") : "");
  }
  fill();
  target.append(el("p.lead", null, "A graph is used again while its guards hold. What the capture read is guarded, and nothing else."),
    el("div.filters", null, search, pick, result), holder);
}

// ---- Recompilations -----------------------------------------------------------------------------------------------

function showRecompiles(target) {
  if (!D.recompiles.length && !D.limits.length && !D.fallbacks.length)
    return target.append(empty(D.captures.length ? "Nothing was compiled twice." : "Nothing was captured."));
  if (D.limits.length) target.append(el("article.card.warn.first", null, el("h3", null, "A limit was reached"),
    el("p", null, "No further graphs are made at that point; calls that no graph fits run eagerly."),
    el("div.hints", null, el("h4", null, "What to do"), el("ul", null, ["Make the value that changes a tensor: `torch.tensor(n)` is an input of the graph, `n` a constant in it.", "Keep it constant, or pad sizes to a few.",
      "Raise the limit if the values are few: `torch._dynamo.config.recompile_limit`."].map((hint) => el("li", null, rich(hint)))))));
  const causes = new Map();
  for (const row of D.recompiles) causes.set(row.guard, [...(causes.get(row.guard) || []), row]);
  target.append(el("section", null, el("h2", null, "Causes"), table("Causes", [
    { title: "What changed", wide: true, cell: ([guard]) => el("code.guard", null, guard) },
    { title: "Times", number: true, cell: ([, rows]) => number(rows.length), sort: ([, rows]) => rows.length },
    { title: "In", cell: ([, rows]) => [...new Set(rows.map((row) => functionName(row.fn)))].join(", ") },
    { title: "Last", wide: true, cell: ([, rows]) => rich(rows[rows.length - 1].reason) }], [...causes].sort((a, b) => b[1].length - a[1].length))));
  const events = [...D.recompiles.map((row) => [row, "recompiled"]), ...D.limits.map((row) => [row, "limit"]), ...D.fallbacks.map((row) => [row, "eager"])].sort((a, b) => a[0].time - b[0].time);
  target.append(el("section", null, el("h2", null, "One after the other"), el("ol.trail", null, events.map(([row, kind]) => {
    const next = kind === "recompiled" ? graphs.find((graph) => graph.fn === row.fn && graph.began >= row.time) : null;
    const what = kind === "recompiled" ? row.reason : kind === "limit" ? `${row.limit} (${row.value}) reached: no further graphs, it runs eagerly where none fits. Last: ${row.reason}` :
      `runs eagerly: ${row.group === null ? "" : D.breaks[row.group].what}`;
    return el(kind === "recompiled" ? "li" : "li.warn", null, el("span.time", null, duration(row.time)), el("span", null, el("strong", null, functionName(row.fn)), " ", rich(what), next ? [" ", "→ ", graphLink(next)] : null));
  }))));
}
