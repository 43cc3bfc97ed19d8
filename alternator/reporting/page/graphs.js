// The graphs section: a list, and of the chosen one its drawing, its code and where it comes from.

const endText = (graph) => (graph.end === null || graph.end === undefined ? "returns" : D.breaks[graph.end].error ? "error" : "break");

function graphEntry(graph, current) {
  return el("a.entry", { href: `#graphs/${graph.number}`, "aria-current": graph === current ? "true" : null },
    el("span.name", null, chip(graph), functionName(graph.fn)),
    el("span.counts", null, `${plural(graph.operations, "operation")}, ${graph.afterBreak ? "behind a break" : "from the start"}, `,
      el(endText(graph) === "returns" ? "span" : "span.warn", null, endText(graph))));
}

function fact(name, ...value) {
  return el("div.fact", null, el("dt", null, name), el("dd", null, ...value));
}

function graphFacts(graph) {
  const calls = callStats(graph);
  const end = graph.end === null || graph.end === undefined ? null : D.breaks[graph.end];
  return el("dl.facts-list", null,
    fact("Begins", placeLink(graph.start, true)),
    fact("Ends", end ? [el("a", { href: `#breaks/${end.number}` }, end.what), " at ", placeLink(graph.endPlace || end.place)] : "the function returns"),
    graph.resumes ? fact("Goes on", placeLink(graph.resumes, true)) : null,
    fact("Capture", duration(graph.seconds)),
    fact(`Backend ${graph.backend ? graph.backend.name : ""}`, graph.backend ? [duration(graph.backend.seconds), graph.backend.error ? el("span.warn", null, ` failed: ${graph.backend.error}`) : null] : "–"),
    fact("Calls", calls[0] ? `${number(calls[0])}, ${duration(calls[1] / calls[0])} on average, ${duration(calls[2])} to ${duration(calls[3])}` : "none seen"),
    fact("Guards", el("a", { href: `#guards/${graph.number}` }, plural(graph.guards || 0, "guard"))),
    graph.effects && graph.effects.length ? fact("Writes", el("ul.plain", null, graph.effects.map((effect) => el("li", null, el("code", null, effect))))) : null);
}

function nodeFacts(graph, index, drawing) {
  const row = D.graphs[graph.graph];
  const node = row.nodes[index];
  const users = row.nodes.map((other, number) => [other, number]).filter(([other]) => other[5].includes(index));
  const jump = (number) => el("button.link", { type: "button", onclick: () => { drawing.reveal(number); drawing.onSelect(number); } }, row.nodes[number][0]);
  const list = (numbers) => numbers.slice(0, 12).flatMap((number, at) => [at ? ", " : "", jump(number)]).concat(numbers.length > 12 ? [`, and ${numbers.length - 12} more`] : []);
  const stack = row.stacks[node[4]];
  return el("dl.facts-list", null,
    fact("Node", el("code", null, node[0])), fact("Target", el("code", null, node[2])),
    node[3] ? fact("Value", el("code", null, node[3])) : null,
    node[7] ? fact("Arguments", el("code", null, node[7])) : null,
    stack.length ? fact("Module", el("code", null, `${stack[stack.length - 1][1]} (${stack[stack.length - 1][2]})`)) : null,
    node[6] ? fact("Line", placeLink(node[6])) : null,
    node[5].length ? fact("Takes", list(node[5])) : null,
    users.length ? fact("Goes to", list(users.map(([, number]) => number))) : null);
}

function drawingView(graph) {
  const row = D.graphs[graph.graph];
  if (!row.nodes.length) return empty(row.nodesCut ? `The drawing of this graph of ${plural(row.nodesCut, "node")} was left out to keep the page small.` : "This graph has no nodes.");
  const particulars = el("aside.particulars", { "aria-live": "polite", "aria-label": "The chosen node" }, el("p.dim", null, "Choose a node to see what it is and which line made it. A box with a plus is a module: choose it to open it."));
  const drawing = new Drawing(row, (index) => particulars.replaceChildren(nodeFacts(graph, index, drawing)));
  const button = (text, act, label) => el("button", { type: "button", onclick: act, "aria-label": label, title: label }, text);
  const modules = row.stacks.some((stack) => stack.length);
  const held = row.nodes.some((node) => node[1] === KIND.held);
  const tools = el("div.tools", { role: "toolbar", "aria-label": "Drawing" },
    modules || row.nodes.length > MAX_CHILDREN ? [button("Open all", () => drawing.setOpen(true), "Open all modules"), button("Close all", () => drawing.setOpen(false), "Close all modules")] : null,
    held ? el("label", null, el("input", { type: "checkbox", onchange: (event) => drawing.showHeld(event.target.checked) }), " Parameters and buffers") : null,
    el("span.spring"), button("−", () => drawing.zoom(0.8), "Zoom out"), button("+", () => drawing.zoom(1.25), "Zoom in"), button("Fit", () => drawing.fit(), "Fit the drawing"));
  const view = el("div.drawing-view", null, tools, el("div.drawing-frame", null, drawing.svg, particulars),
    row.nodesCut ? el("p.cut", null, `${plural(row.nodesCut, "more node")} are not drawn.`) : null);
  requestAnimationFrame(() => { drawing.draw(); drawing.fit(); });
  return view;
}

function graphCode(graph) {
  const row = D.graphs[graph.graph];
  if (!row.code) return empty("The code of this graph was left out to keep the page small.");
  const lines = row.code.replace(/\n$/, "").split("\n");
  return el("div", null,
    el("div.code.plain-code", { tabindex: "0", role: "region", "aria-label": `Code of graph ${graph.number}` },
      highlight(lines).map((tokens, index) => el("div.row", null, el("span.ln", null, String(index + 1)), el("code", null, codeLine(tokens, []), "\n")))),
    row.codeCut ? el("p.cut", null, `${number(row.codeCut)} more characters were left out.`) : null);
}

function showGraphs(target, [chosen, view]) {
  if (!graphs.length) return target.append(empty("No graph was captured."));
  const current = graphs[Math.min(Math.max(+chosen || 1, 1), graphs.length) - 1];
  const groups = new Map();
  for (const graph of graphs) groups.set(graph.fn, [...(groups.get(graph.fn) || []), graph]);
  const list = el("nav.list", { "aria-label": "Graphs" }, [...groups].map(([fn, found]) =>
    [el("h3", null, functionName(fn)), found.map((graph) => graphEntry(graph, current))]));
  const twins = graphs.filter((other) => other !== current && other.graph === current.graph);
  const views = [["drawing", "Drawing", drawingView], ["code", "Code", graphCode], ["facts", "Facts", graphFacts]];
  const shown = views.find(([name]) => name === view) || views[0];
  target.append(el("div.split", null, list, el("div.pane", null,
    el("div.pane-head", null, el("h2", null, chip(current), ` Graph ${current.number} `, el("span.dim", null, functionName(current.fn))),
      el("p.summary", null, plural(current.operations, "operation"), ", begins at ", placeLink(current.start),
        twins.length ? [", the same as ", twins.slice(0, 6).map((other) => [graphLink(other), " "])] : null),
      el("nav.switch", { "aria-label": "View" }, views.map(([name, title]) => el("a", { href: `#graphs/${current.number}/${name}`, "aria-current": shown[0] === name ? "true" : null }, title)))),
    shown[2](current))));
}
