// A layered drawing of a graph whose parts can be collapsed.
//
//   tree       boxes: leaves are nodes, the others are modules; children stand in the order in which they ran, so a
//              box's children never depend on one another in a circle
//   ports      where an edge passes through the border of an open box: `in` ports on its top, `out` ports on its bottom
//   layout     each open box on its own, from the inside out: layers by longest path, order by barycentres, positions
//              by aligning items into columns (Brandes and Köpf, "Fast and simple horizontal coordinate assignment")

const KIND = { input: 0, held: 1, call: 2, other: 3, output: 4 };
const GAP = { x: 18, y: 34, port: 10, pad: 14, head: 22 };
const CHUNK = 60; // nodes of a long row without modules that go into a box of their own
const MAX_CHILDREN = 240;

// ---- The tree -----------------------------------------------------------------------------------------------------

function makeBox(key, label, kind, parent) {
  return { key, label, kind, parent, children: [], open: false, nodes: 0, node: null };
}

// Make the tree of a graph. Modules' calls nest and nodes stand in the order in which they ran, so the nodes of one
// call stand together.
function makeTree(graph, withHeld) {
  const root = makeBox("", "", "root", null);
  root.open = true;
  const leaves = new Array(graph.nodes.length).fill(null);
  let path = [];
  let calls = 0;
  const later = [];
  graph.nodes.forEach((node, index) => {
    if (node[1] === KIND.input || node[1] === KIND.held) {
      if (node[1] === KIND.input || withHeld) later.push(index);
      return;
    }
    const stack = node[1] === KIND.output ? [] : graph.stacks[node[4]];
    let depth = 0;
    while (depth < path.length && depth < stack.length && path[depth].key === stack[depth][0]) depth++;
    path = path.slice(0, depth);
    for (; depth < stack.length; depth++) {
      const parent = depth ? path[depth - 1].box : root;
      const box = makeBox(`m${calls++}`, shortPath(stack[depth][1], depth ? stack[depth - 1][1] : ""), "module", parent);
      box.path = stack[depth][1];
      box.cls = stack[depth][2];
      parent.children.push(box);
      path.push({ key: stack[depth][0], box });
    }
    leaves[index] = addLeaf(path.length ? path[path.length - 1].box : root, index, node);
  });
  placeInputs(graph, root, leaves, later);
  splitLongRows(root);
  count(root);
  return { root, leaves };
}

function addLeaf(parent, index, node, atFront) {
  const leaf = makeBox(`n${index}`, node[2], "node", parent);
  leaf.node = index;
  if (atFront) parent.children.unshift(leaf);
  else parent.children.push(leaf);
  return leaf;
}

const shortPath = (path, outer) => {
  const short = outer && path.startsWith(outer) ? path.slice(outer.length) : path.replace(/^L\['self'\]/, "");
  return short.replace(/^\./, "") || path;
};

const ancestors = (box) => { const out = []; for (let at = box; at; at = at.parent) out.unshift(at); return out; };

// An input stands in the innermost box that holds all its users.
function placeInputs(graph, root, leaves, indices) {
  const users = new Map(indices.map((index) => [index, []]));
  graph.nodes.forEach((node, index) => { for (const source of node[5]) if (users.has(source) && leaves[index]) users.get(source).push(leaves[index]); });
  for (const index of [...indices].reverse()) {
    const found = users.get(index);
    let home = root;
    if (found.length && graph.nodes[index][1] === KIND.held) {
      const paths = found.map((leaf) => ancestors(leaf.parent));
      for (let depth = 0; depth < paths[0].length && paths.every((path) => path[depth] === paths[0][depth]); depth++) home = paths[0][depth];
    }
    leaves[index] = addLeaf(home, index, graph.nodes[index], true);
  }
}

// A row of very many children becomes some boxes of neighbours, so that any graph can be drawn.
function splitLongRows(box) {
  if (box.children.length > MAX_CHILDREN) {
    const size = Math.max(CHUNK, Math.ceil(Math.sqrt(box.children.length)));
    const rows = [];
    for (let from = 0; from < box.children.length; from += size) {
      const part = makeBox(`${box.key}r${from}`, `steps ${from + 1} to ${Math.min(from + size, box.children.length)}`, "module", box);
      part.children = box.children.slice(from, from + size);
      for (const child of part.children) child.parent = part;
      rows.push(part);
    }
    box.children = rows;
  }
  box.children.forEach(splitLongRows);
}

function count(box) {
  box.nodes = box.kind === "node" ? 1 : sum(box.children.map(count));
  return box.nodes;
}

// ---- Edges through open boxes -------------------------------------------------------------------------------------

// What is seen of a box: itself, or the outermost closed box around it.
function shownBox(box) {
  let shown = box;
  for (let at = box.parent; at; at = at.parent) if (!at.open) shown = at;
  return shown;
}

// Give each open box the edges between its children, and its ports.
function routeEdges(graph, leaves) {
  const levels = new Map();
  const level = (box) => {
    if (!levels.has(box)) levels.set(box, { edges: new Map(), ins: new Map(), outs: new Map() });
    return levels.get(box);
  };
  const add = (box, from, to, source) => level(box).edges.set(`${from}>${to}>${source.key}`, { from, to, source });
  graph.nodes.forEach((node, index) => {
    if (!leaves[index]) return;
    const target = shownBox(leaves[index]);
    for (const input of node[5]) {
      if (!leaves[input]) continue;
      const source = shownBox(leaves[input]);
      if (source === target) continue;
      const a = ancestors(source);
      const b = ancestors(target);
      let common = 0;
      while (a[common] === b[common]) common++;
      add(a[common - 1], a[common].key, b[common].key, source);
      for (let depth = common; depth < a.length - 1; depth++) {
        level(a[depth]).outs.set(source.key, source);
        add(a[depth], a[depth + 1].key, `out:${source.key}`, source);
      }
      for (let depth = common; depth < b.length - 1; depth++) {
        level(b[depth]).ins.set(source.key, source);
        add(b[depth], `in:${source.key}`, b[depth + 1].key, source);
      }
    }
  });
  return levels;
}

// ---- One level ----------------------------------------------------------------------------------------------------

const textWidth = (text, size = 6.7) => text.length * size;

function measureLeaf(box, graph) {
  const node = graph.nodes[box.node];
  box.lines = [shorten(node[1] <= KIND.held ? node[0] : node[2], 30), shorten(node[3], 30)].filter(Boolean);
  box.w = Math.max(46, ...box.lines.map((line) => textWidth(line))) + 18;
  box.h = box.lines.length > 1 ? 36 : 24;
}

function measureClosed(box) {
  const about = `${box.cls ? box.cls + " · " : ""}${plural(box.nodes, "node")}`;
  box.lines = [shorten(box.label, 34), about];
  box.w = Math.max(...box.lines.map((line) => textWidth(line))) + 40;
  box.h = 40;
}

const shorten = (text, length) => (text.length > length ? text.slice(0, length - 1) + "…" : text);

// Lay out an open box. Its children get x, y (relative to it), it gets w, h, ports and lines to draw.
function layoutBox(box, graph, levels) {
  for (const child of box.children) {
    if (child.kind === "node") measureLeaf(child, graph);
    else if (child.open) layoutBox(child, graph, levels);
    else measureClosed(child);
  }
  const level = levels.get(box) || { edges: new Map(), ins: new Map(), outs: new Map() };
  const items = new Map();
  const put = (key, fields) => items.set(key, { key, above: [], below: [], links: new Map(), layer: 0, x: 0, ...fields });
  for (const key of level.ins.keys()) put(`in:${key}`, { w: GAP.port, h: 0, port: "in", source: key });
  for (const child of box.children) put(child.key, { w: child.w, h: child.h, box: child });
  for (const key of level.outs.keys()) put(`out:${key}`, { w: GAP.port, h: 0, port: "out", source: key });
  const edges = [...level.edges.values()].map(({ from, to, source }) => ({ from: items.get(from), to: items.get(to), source: source.key }));
  const layers = assignLayers([...items.values()], edges);
  const chains = insertBends(layers, edges);
  orderLayers(layers);
  positionLayers(layers);
  placeBox(box, layers, chains);
}

function assignLayers(items, edges) {
  const incoming = new Map(items.map((item) => [item, []]));
  const outgoing = new Map(items.map((item) => [item, []]));
  for (const edge of edges) { incoming.get(edge.to).push(edge.from); outgoing.get(edge.from).push(edge.to); }
  const ports = items.some((item) => item.port === "in") ? 1 : 0;
  for (const item of items) if (item.port !== "in") item.layer = Math.max(ports, ...incoming.get(item).map((from) => from.layer + 1));
  let last = Math.max(0, ...items.filter((item) => !item.port).map((item) => item.layer));
  // What depends on nothing stands right above its first user, not at the top.
  for (const item of [...items].reverse())
    if (!item.port && !incoming.get(item).length && outgoing.get(item).length)
      item.layer = Math.max(ports, Math.min(...outgoing.get(item).map((to) => (to.port === "out" ? last + 1 : to.layer))) - 1);
  for (const item of items) if (item.port === "out") item.layer = last + 1;
  const layers = [];
  for (const item of items) (layers[item.layer] ||= []).push(item);
  return Array.from(layers, (layer) => layer || []);
}

// Put a bend into every layer that an edge passes, and link neighbours.
function insertBends(layers, edges) {
  return edges.map((edge) => {
    const chain = [edge.from];
    for (let layer = edge.from.layer + 1; layer < edge.to.layer; layer++) {
      const shared = layers[layer].find((item) => item.bend === edge.source && item.from === edge.from);
      const bend = shared || { bend: edge.source, from: edge.from, w: 4, h: 0, layer, above: [], below: [], links: new Map(), x: 0 };
      if (!shared) layers[layer].push(bend);
      chain.push(bend);
    }
    chain.push(edge.to);
    for (let i = 1; i < chain.length; i++) {
      if (chain[i].links.has(chain[i - 1])) continue;
      chain[i].links.set(chain[i - 1], edge.source);
      chain[i - 1].links.set(chain[i], edge.source);
      chain[i - 1].below.push(chain[i]);
      chain[i].above.push(chain[i - 1]);
    }
    return { chain, source: edge.source, to: edge.to };
  });
}

function orderLayers(layers) {
  const number = (layer) => layer.forEach((item, index) => { item.rank = index; });
  layers.forEach(number);
  const sweep = (layer, side) => {
    for (const item of layer) item.weight = item[side].length ? sum(item[side].map((other) => other.rank)) / item[side].length : item.rank;
    layer.sort((a, b) => a.weight - b.weight || a.rank - b.rank);
    number(layer);
  };
  for (let round = 0; round < 6; round++) {
    for (let i = 1; i < layers.length; i++) sweep(layers[i], "above");
    for (let i = layers.length - 2; i >= 0; i--) sweep(layers[i], "below");
  }
  for (let i = 1; i < layers.length; i++) sweep(layers[i], "above");
}

const distance = (a, b) => (a.w + b.w) / 2 + (a.bend !== undefined || b.bend !== undefined || a.port || b.port ? GAP.port : GAP.x);

// How far from the middle of an item an edge to another one begins: at a port, if it is an open box.
function portOffset(item, other) {
  if (!item.box || !item.box.open) return 0;
  const ports = other.layer < item.layer ? item.box.ports.in : item.box.ports.out;
  const port = ports.get(item.links.get(other));
  return port === undefined ? 0 : port - item.w / 2;
}

// Positions after Brandes and Köpf: items are aligned with a middle neighbour above (or below) into straight columns, which
// are then pushed together; four times, from both sides and in both directions, and the middle of the four is taken.
function positionLayers(layers) {
  const conflicts = findConflicts(layers);
  const results = [];
  for (const down of [true, false]) for (const left of [true, false]) results.push(placeColumns(layers, down, left, conflicts));
  const bounds = results.map((result) => {
    let [low, high] = [Infinity, -Infinity];
    for (const [item, x] of result) { low = Math.min(low, x - item.w / 2); high = Math.max(high, x + item.w / 2); }
    return [low, high];
  });
  const narrow = bounds.reduce((best, bound) => (bound[1] - bound[0] < best[1] - best[0] ? bound : best));
  const shifts = bounds.map(([low, high], index) => (index % 2 === 0 ? narrow[0] - low : narrow[1] - high));
  for (const item of layers.flat()) {
    const found = results.map((result, index) => result.get(item) + shifts[index]).sort((a, b) => a - b);
    item.x = (found[1] + found[2]) / 2;
  }
}

const isBend = (item) => item.bend !== undefined;

// Edges that cross one that passes both layers: that one is to be straight.
function findConflicts(layers) {
  const conflicts = new Map();
  for (let number = 1; number < layers.length; number++) {
    const [before, layer] = [layers[number - 1], layers[number]];
    let [low, from] = [0, 0];
    layer.forEach((item, index) => {
      const inner = isBend(item) ? item.above.find(isBend) : null;
      if (!inner && index < layer.length - 1) return;
      const high = inner ? inner.rank : before.length;
      for (const other of layer.slice(from, index + 1))
        for (const above of other.above)
          if ((above.rank < low || high < above.rank) && !(isBend(above) && isBend(other))) conflicts.set(other, (conflicts.get(other) || new Set()).add(above));
      [low, from] = [high, index + 1];
    });
  }
  return conflicts;
}

// One of the four: where each item goes. To work from the right, ranks and distances are mirrored.
function placeColumns(layers, down, left, conflicts) {
  const sign = left ? 1 : -1;
  const rows = (down ? layers : [...layers].reverse()).map((layer) => (left ? layer : [...layer].reverse()));
  const root = new Map(), shift = new Map(), taken = new Set();
  for (const item of rows.flat()) { root.set(item, item); shift.set(item, 0); }
  const conflicting = (a, b) => (down ? conflicts.get(a)?.has(b) : conflicts.get(b)?.has(a));
  // Where a long edge begins it gives way: what follows directly stands straight below.
  const yielding = (bend, other) => isBend(bend) && !isBend(other) && (down ? other.below : other.above).some((item) => !isBend(item));
  for (const row of rows) {
    let last = -Infinity;
    for (const item of row) {
      const near = [...(down ? item.above : item.below)].sort((a, b) => sign * (a.rank - b.rank));
      const middle = (near.length - 1) / 2;
      for (let at = Math.floor(middle); near.length && at <= Math.ceil(middle); at++) {
        const other = near[at];
        if (root.get(item) !== item || taken.has(other) || sign * other.rank <= last || conflicting(item, other) || yielding(item, other)) continue;
        taken.add(other);
        root.set(item, root.get(other));
        shift.set(item, shift.get(other) + sign * (portOffset(other, item) - portOffset(item, other)));
        last = sign * other.rank;
      }
    }
  }
  const columns = pushTogether(rows, root, shift);
  return new Map(rows.flat().map((item) => [item, sign * (columns.get(root.get(item)) + shift.get(item))]));
}

// Give each column the least position that keeps the distances, then move it to the right as far as nothing else moves.
function pushTogether(rows, root, shift) {
  const after = new Map(), waiting = new Map();
  for (const item of root.values()) { after.set(item, new Map()); waiting.set(item, 0); }
  for (const row of rows)
    for (let index = 1; index < row.length; index++) {
      const [a, b] = [row[index - 1], row[index]];
      const gap = distance(a, b) + shift.get(a) - shift.get(b);
      const known = after.get(root.get(a)).get(root.get(b));
      if (known === undefined) waiting.set(root.get(b), waiting.get(root.get(b)) + 1);
      after.get(root.get(a)).set(root.get(b), Math.max(gap, known ?? -Infinity));
    }
  const place = new Map([...after.keys()].map((column) => [column, -Infinity]));
  const order = [...waiting].filter(([, count]) => count === 0).map(([column]) => column);
  for (const column of order) if (place.get(column) === -Infinity) place.set(column, 0);
  for (let at = 0; at < order.length; at++)
    for (const [next, gap] of after.get(order[at])) {
      place.set(next, Math.max(place.get(next), place.get(order[at]) + gap));
      waiting.set(next, waiting.get(next) - 1);
      if (waiting.get(next) === 0) order.push(next);
    }
  for (const column of order.reverse()) {
    const room = Math.min(...[...after.get(column)].map(([next, gap]) => place.get(next) - gap));
    if (room !== Infinity) place.set(column, Math.max(place.get(column), room));
  }
  return place;
}

function placeBox(box, layers, chains) {
  const items = layers.flat();
  const root = box.kind === "root";
  const left = items.length ? Math.min(...items.map((item) => item.x - item.w / 2)) : 0;
  const right = items.length ? Math.max(...items.map((item) => item.x + item.w / 2)) : 0;
  const head = root ? 0 : Math.max(0, textWidth(box.label) + textWidth(box.cls || "") + 40 - (right - left));
  let y = root ? GAP.pad : GAP.head + 8;
  const tops = layers.map((layer) => {
    const top = y;
    const height = Math.max(0, ...layer.map((item) => item.h));
    y += height + (layer.every((item) => item.port) ? GAP.y / 2 : GAP.y);
    return [top, height];
  });
  box.w = right - left + head + 2 * GAP.pad;
  const [bottom, below] = tops.filter((_, index) => !layers[index].every((item) => item.port)).pop() || [y, 0];
  box.h = bottom + below + GAP.pad;
  const shift = GAP.pad - left + head / 2;
  box.ports = { in: new Map(), out: new Map() };
  for (const item of items) {
    item.x += shift;
    const [top, height] = tops[item.layer];
    item.top = item.port === "in" ? 0 : item.port === "out" ? box.h : top + (height - item.h) / 2;
    if (item.bend !== undefined) Object.assign(item, { top, h: height });
    if (item.port) { box.ports[item.port].set(item.source, item.x); item.h = 0; }
    if (item.box) { item.box.x = item.x - item.w / 2; item.box.y = item.top; }
  }
  box.edges = chains.map(({ chain, source, to }) => ({ source, to: to.box ? to.box.key : null, ends: Boolean(to.box && !to.box.open), points: pathPoints(chain, source) }));
}

function pathPoints(chain, source) {
  return chain.flatMap((item, index) => {
    const opening = item.box && item.box.open ? item.box.ports : null;
    const along = (port) => (port === undefined ? item.x : item.x - item.w / 2 + port);
    if (index === 0) return [[along(opening?.out.get(source)), item.top + item.h]];
    if (index === chain.length - 1) return [[along(opening?.in.get(source)), item.top]];
    return [[item.x, item.top], [item.x, item.top + item.h]];
  });
}

function layout(graph, tree) {
  layoutBox(tree.root, graph, routeEdges(graph, tree.leaves));
}
