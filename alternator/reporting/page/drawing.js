// The drawing of a graph as SVG: boxes that open and close, pan and zoom, a node's particulars.

function smoothPath(points) {
  let text = `M${points[0][0].toFixed(1)},${points[0][1].toFixed(1)}`;
  for (let i = 1; i < points.length; i++) {
    const [x0, y0] = points[i - 1];
    const [x1, y1] = points[i];
    const bend = Math.max(8, Math.abs(y1 - y0) / 2);
    text += Math.abs(x1 - x0) < 0.5 ? `L${x1.toFixed(1)},${y1.toFixed(1)}`
      : `C${x0.toFixed(1)},${(y0 + bend).toFixed(1)} ${x1.toFixed(1)},${(y1 - bend).toFixed(1)} ${x1.toFixed(1)},${y1.toFixed(1)}`;
  }
  return text;
}

const KIND_NAMES = ["input", "parameter", "call", "call", "output"];

class Drawing {
  constructor(graph, onSelect) {
    this.graph = graph;
    this.onSelect = onSelect;
    this.held = false;
    this.selected = null;
    this.view = { x: 0, y: 0, scale: 1 };
    this.canvas = el("svg:g");
    this.svg = el("svg:svg.drawing", { role: "group", tabindex: "0", "aria-label": "Drawing of the graph. Arrow keys move it, plus and minus zoom, 0 fits it." },
      el("svg:defs", null, el("svg:marker", { id: "arrow", viewBox: "0 0 8 8", refX: "7", refY: "4", markerWidth: "7", markerHeight: "7", orient: "auto" },
        el("svg:path.arrow", { d: "M0,0.8L7,4L0,7.2z" }))), this.canvas);
    this.build();
    this.listen();
  }

  build() {
    const open = new Set();
    const walk = (box) => { if (box.open && box.path) open.add(box.path); box.children.forEach(walk); };
    if (this.tree) walk(this.tree.root);
    this.tree = makeTree(this.graph, this.held);
    const restore = (box) => { if (box.path && open.has(box.path)) box.open = true; box.children.forEach(restore); };
    restore(this.tree.root);
    if (!open.size && this.tree.root.children.length === 1) this.tree.root.children[0].open = true;
  }

  setOpen(all) {
    const walk = (box) => { if (box.kind === "module") box.open = all; box.children.forEach(walk); };
    walk(this.tree.root);
    this.draw();
    this.fit();
  }

  showHeld(held) { this.held = held; this.build(); this.draw(); this.fit(); }

  toggle(box) {
    const before = this.placeOf(box);
    box.open = !box.open;
    this.draw();
    const after = this.placeOf(box); // what was clicked stays under the pointer
    this.view.x += (before.x - after.x) * this.view.scale;
    this.view.y += (before.y - after.y) * this.view.scale;
    this.move();
    this.canvas.querySelector(`[data-key="${box.key}"]`)?.focus({ preventScroll: true });
  }

  placeOf(box) {
    let x = box.w / 2, y = 0;
    for (let at = box; at; at = at.parent) { x += at.x || 0; y += at.y || 0; }
    return { x, y };
  }

  draw() {
    layout(this.graph, this.tree);
    this.canvas.replaceChildren(this.drawChildren(this.tree.root));
    if (this.selected !== null) this.mark(this.selected);
  }

  drawChildren(box) {
    const edges = box.edges.map(({ points, source, to, ends }) => el("svg:path.edge", { d: smoothPath(points), "data-from": source, "data-to": to, "marker-end": ends ? "url(#arrow)" : null }));
    return el("svg:g", null, edges, box.children.map((child) => this.drawBox(child)));
  }

  drawBox(box) {
    const inside = box.kind === "node" ? null : box.open;
    const node = box.node === null ? null : this.graph.nodes[box.node];
    const group = el(`svg:g.${box.kind}${node ? "." + KIND_NAMES[node[1]] : ""}${inside ? ".open" : ""}`, {
      transform: `translate(${box.x.toFixed(1)},${box.y.toFixed(1)})`, "data-key": box.key, tabindex: "0", role: "button",
      "aria-expanded": inside === null ? null : String(inside), "aria-label": this.describe(box, node),
    });
    group.append(el("svg:title", null, this.describe(box, node)), el("svg:rect.body", { width: box.w.toFixed(1), height: box.h.toFixed(1), rx: box.kind === "node" ? 5 : 8 }));
    if (inside) {
      group.append(el("svg:text.head", { x: 12, y: 17 }, el("svg:tspan.sign", null, "− "), box.label, el("svg:tspan.dim", { dx: 8 }, box.cls || "")), this.drawChildren(box));
    } else {
      if (box.kind !== "node") group.append(el("svg:text.sign", { x: 10, y: box.h / 2 + 4 }, "+"));
      const x = box.kind === "node" ? box.w / 2 : box.w / 2 + 6;
      box.lines.forEach((line, index) => group.append(el(index ? "svg:text.dim" : "svg:text", { x, y: box.lines.length > 1 ? (index ? box.h / 2 + 12 : box.h / 2 - 3) : box.h / 2 + 4, "text-anchor": "middle" }, line)));
    }
    const act = (event) => {
      event.stopPropagation();
      event.preventDefault();
      if (box.kind === "node") this.select(box);
      else if (!this.dragged) this.toggle(box);
    };
    group.addEventListener("click", act);
    group.addEventListener("keydown", (event) => { if (event.key === "Enter" || event.key === " ") act(event); });
    group.addEventListener("pointerenter", () => this.glow(box.key, true));
    group.addEventListener("pointerleave", () => this.glow(box.key, false));
    return group;
  }

  describe(box, node) {
    if (node) return `${node[0]}: ${node[2]} ${node[3]}`.trim();
    return `${box.path || box.label}${box.cls ? ` (${box.cls})` : ""}, ${plural(box.nodes, "node")}`;
  }

  glow(key, on) {
    for (const edge of this.canvas.querySelectorAll(`[data-from="${key}"],[data-to="${key}"]`)) edge.classList.toggle("glow", on);
  }

  select(box) {
    this.mark(box.node);
    this.onSelect(box.node);
  }

  mark(node) {
    this.canvas.querySelector(".selected")?.classList.remove("selected");
    this.selected = node;
    this.canvas.querySelector(`[data-key="n${node}"]`)?.classList.add("selected");
  }

  // Open what is around a node and show it in the middle.
  reveal(index) {
    const leaf = this.tree.leaves[index];
    if (!leaf) return;
    for (let at = leaf.parent; at; at = at.parent) at.open = true;
    this.draw();
    this.mark(index);
    const { x, y } = this.placeOf(leaf);
    const { width, height } = this.svg.getBoundingClientRect();
    this.view = { scale: 1, x: width / 2 - x, y: height / 2 - y };
    this.move();
  }

  // ---- Moving ----

  move() { this.canvas.setAttribute("transform", `translate(${this.view.x},${this.view.y}) scale(${this.view.scale})`); }

  fit() {
    const { width, height } = this.svg.getBoundingClientRect();
    if (!width) return;
    const { w, h } = this.tree.root;
    const whole = Math.min(width / (w + 20), height / (h + 20));
    const scale = Math.min(1, Math.max(whole, Math.min(0.6, width / (w + 20)))); // a long graph begins at its top, readable
    this.view = { scale, x: (width - w * scale) / 2, y: whole >= scale ? (height - h * scale) / 2 : 8 };
    this.move();
  }

  zoom(factor, x, y) {
    const { width, height } = this.svg.getBoundingClientRect();
    const scale = Math.min(4, Math.max(0.03, this.view.scale * factor));
    const [cx, cy] = [x ?? width / 2, y ?? height / 2];
    this.view.x = cx - ((cx - this.view.x) * scale) / this.view.scale;
    this.view.y = cy - ((cy - this.view.y) * scale) / this.view.scale;
    this.view.scale = scale;
    this.move();
  }

  listen() {
    const keys = {
      ArrowLeft: () => { this.view.x += 60; }, ArrowRight: () => { this.view.x -= 60; }, ArrowUp: () => { this.view.y += 60; }, ArrowDown: () => { this.view.y -= 60; },
      "+": () => this.zoom(1.25), "=": () => this.zoom(1.25), "-": () => this.zoom(0.8), 0: () => this.fit(),
    };
    this.svg.addEventListener("keydown", (event) => { if (keys[event.key] && !event.ctrlKey && !event.metaKey) { keys[event.key](); this.move(); event.preventDefault(); } });
    this.svg.addEventListener("wheel", (event) => {
      event.preventDefault();
      const frame = this.svg.getBoundingClientRect();
      if (event.ctrlKey || event.metaKey) return this.zoom(Math.exp(-event.deltaY * 0.004), event.clientX - frame.left, event.clientY - frame.top);
      this.view.x -= event.shiftKey ? event.deltaY : event.deltaX;
      this.view.y -= event.shiftKey ? 0 : event.deltaY;
      this.move();
    }, { passive: false });
    let from = null;
    this.svg.addEventListener("pointerdown", (event) => { from = { x: event.clientX - this.view.x, y: event.clientY - this.view.y, px: event.clientX, py: event.clientY }; this.dragged = false; });
    this.svg.addEventListener("pointermove", (event) => {
      if (!from || !event.buttons) return;
      if (!this.dragged && Math.hypot(event.clientX - from.px, event.clientY - from.py) < 4) return;
      this.dragged = true;
      this.view.x = event.clientX - from.x;
      this.view.y = event.clientY - from.y;
      this.move();
    });
    window.addEventListener("pointerup", () => { from = null; });
  }
}
