// The map: every op of a scope as a coloured cell on a canvas, under real buttons for the keyboard.

const CLICKABLE = 9; // pixels; a cell smaller than this is no target: a click on it zooms in instead
const CONTEXT = 30; // ops; following an op, the map zooms in no further than to so many
const MOST_BUTTONS = 300;

class ScopeMap {
  constructor({ onScope, onOp }) {
    this.onScope = onScope;
    this.onOp = onOp;
    this.canvas = el("canvas", {
      "aria-hidden": "true",
      onclick: (event) => this.click(event),
      onmousemove: (event) => this.hover(event),
      onmouseleave: () => this.tell(null),
    });
    this.trail = svg("svg", { class: "trail", "aria-hidden": "true" });
    this.buttons = el("div", {
      class: "map-buttons",
      role: "group",
      "aria-label": "Boxes of this scope",
      onkeydown: (event) => this.key(event),
    });
    this.tip = el("div", { class: "tip", hidden: true });
    this.crumbs = el("nav", { class: "crumbs", "aria-label": "Scope shown" });
    this.surface = el("div", { class: "map-surface" }, this.canvas, this.trail, this.buttons, this.tip);
    this.node = el("div", { class: "map" }, this.crumbs, this.surface);
    new ResizeObserver(() => this.draw()).observe(this.surface);
  }

  load(graph, mode, area) {
    Object.assign(this, { graph, mode, area, scope: scopesOf(graph), chain: [], chosen: null });
    this.draw();
  }

  zoom(scope) {
    this.scope = scope.children.length ? scope : scope.parent;
    this.draw();
  }

  // Show an op and the path of its causes; zoom only if part of it is out of sight or too small to see.
  follow(op, chain) {
    this.chosen = op;
    this.chain = chain;
    const places = chain.map((step) => this.graph.places.get(step.op.id)).filter(Boolean);
    const spot = this.spots && this.spots.get(op.id);
    const seen = spot && Math.min(spot.w, spot.h) >= CLICKABLE;
    if (places.length && !(seen && places.every((place) => lineage(place).includes(this.scope))))
      this.scope = surroundings(places);
    this.draw();
  }

  draw() {
    const { clientWidth: width, clientHeight: height } = this.surface;
    if (!this.graph || !width || !height) return;
    Object.assign(this, layout(this.scope, { x: 0, y: 0, w: width + 4, h: height + 4 }, this.areaOf(this.scope)));
    this.spots = new Map(this.cells.map((cell) => [cell.scope.children.length ? cell.scope : cell.scope.op.id, cell]));
    this.paintCanvas(width, height);
    this.placeButtons();
    this.drawTrail(width, height);
    this.drawCrumbs();
  }

  // What boxes are as large as: what was chosen, or if a scope has none of it, its ops.
  areaOf(scope) {
    return [this.area, ...AREAS].find((area) => scope[area] > 0);
  }

  paintCanvas(width, height) {
    const ratio = window.devicePixelRatio || 1;
    this.canvas.width = width * ratio;
    this.canvas.height = height * ratio;
    const pen = this.canvas.getContext("2d");
    pen.scale(ratio, ratio);
    const paints = this.paints();
    for (const frame of this.frames) {
      pen.fillStyle = frame.depth === 1 ? paints.box : paints.inner;
      pen.fillRect(frame.x, frame.y, frame.w, frame.h);
    }
    for (const cell of this.cells) {
      pen.fillStyle = paints[this.partFor(cell.scope)];
      pen.fillRect(cell.x, cell.y, cell.w, cell.h);
    }
    this.write(pen, paints);
  }

  paints() {
    const names = { box: "box", inner: "box-inner", ink: "ink", muted: "muted" };
    for (const part of PARTS[this.mode]) Object.assign(names, { [part]: part, [`${part}-ink`]: `${part}-ink` });
    return Object.fromEntries(Object.entries(names).map(([key, name]) => [key, colour(name)]));
  }

  // The colour of a cell: that of its op, or for a scope too small to open, of most bytes in it.
  partFor(scope) {
    if (!scope.children.length && scope.op) return partOf(scope.op, this.mode);
    const parts = weightsOf(scope, this.mode);
    return PARTS[this.mode].reduce((most, part) => ((parts[part] || 0) > (parts[most] || 0) ? part : most));
  }

  write(pen, paints) {
    pen.textBaseline = "middle";
    pen.font = "11px system-ui, sans-serif";
    for (const frame of this.frames) {
      if (frame.depth > 1 && frame.head)
        this.label(pen, frame.scope.name, frame, paints.muted, frame.y + frame.head / 2 + 1);
    }
    for (const cell of this.cells) {
      if (cell.w < 44 || cell.h < 16 || cell.top.scope === cell.scope) continue;
      this.label(
        pen,
        cell.scope.name,
        cell,
        paints[`${this.partFor(cell.scope)}-ink`],
        cell.y + Math.min(cell.h / 2, 11),
      );
    }
  }

  label(pen, text, box, ink, middle) {
    pen.fillStyle = ink;
    pen.fillText(shortened(text, (box.w - 8) / 6.5), box.x + 4, middle);
  }

  placeButtons() {
    const tops = [];
    const seen = new Set();
    for (const { top } of this.cells) {
      if (top && !seen.has(top.scope)) tops.push(top);
      if (top) seen.add(top.scope);
    }
    const area = this.areaOf(this.scope);
    tops.sort((a, b) => b.scope[area] - a.scope[area]);
    this.buttons.replaceChildren(...tops.slice(0, MOST_BUTTONS).map((top, index) => this.button(top, index)));
  }

  button({ scope, box }, index) {
    const leaf = !scope.children.length;
    const ink = leaf ? `ink-${partOf(scope.op, this.mode)}` : "";
    const [high, wide] = leaf ? [22, 44] : [38, 48]; // a scope has room for its name where layout left some
    const named = box.h > high && box.w > wide;
    const telling = named && !leaf && box.w > 170;
    const room = (box.w - (telling ? 105 : 13)) / 7.3;
    const node = el(
      "button",
      {
        type: "button",
        class: `map-button ${ink}`,
        tabindex: index ? "-1" : "0",
        "aria-label": describe(scope, this.mode),
        onclick: () => (leaf ? this.onOp(scope.op) : this.onScope(scope)),
      },
      named ? el("span", { class: "map-name" }, shortened(scope.name, room)) : null,
      telling ? el("span", { class: "map-share" }, this.share(scope)) : null,
    );
    Object.assign(node.style, {
      left: `${box.x}px`,
      top: `${box.y}px`,
      width: `${Math.max(2, box.w - 4)}px`,
      height: `${Math.max(2, box.h - 4)}px`,
    });
    return node;
  }

  share(scope) {
    if (this.areaOf(this.scope) === "flops") return flops(scope.flops);
    return size(scope.bytes);
  }

  key(event) {
    const all = [...this.buttons.children];
    const at = all.indexOf(document.activeElement);
    const moves = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1, Home: -all.length, End: all.length };
    if ((event.key === "Escape" || event.key === "Backspace") && this.scope.parent) this.onScope(this.scope.parent);
    else if (event.key in moves) this.focus(Math.max(0, Math.min(all.length - 1, at + moves[event.key])));
    else return;
    event.preventDefault();
  }

  focus(index) {
    const all = [...this.buttons.children];
    all.forEach((button, position) => button.setAttribute("tabindex", position === index ? "0" : "-1"));
    if (all[index]) all[index].focus();
  }

  cellAt(event) {
    const { left, top } = this.canvas.getBoundingClientRect();
    const [x, y] = [event.clientX - left, event.clientY - top];
    return (
      this.cells.find((cell) => x >= cell.x && x <= cell.x + cell.w && y >= cell.y && y <= cell.y + cell.h) ||
      this.frames
        .filter((frame) => x >= frame.x && x <= frame.x + frame.w && y >= frame.y && y <= frame.y + frame.h)
        .pop()
    );
  }

  click(event) {
    const cell = this.cellAt(event);
    if (!cell) return;
    const op = !cell.scope.children.length && cell.scope.op;
    if (op && Math.min(cell.w, cell.h) >= CLICKABLE) this.onOp(op);
    else this.onScope(cell.top ? cell.top.scope : cell.scope);
  }

  hover(event) {
    const cell = this.cellAt(event);
    this.tell(cell);
    if (!cell) return;
    const { left, top, width } = this.surface.getBoundingClientRect();
    this.tip.style.left = `${Math.min(event.clientX - left + 14, Math.max(0, width - 300))}px`;
    this.tip.style.top = `${event.clientY - top + 16}px`;
  }

  tell(cell) {
    this.tip.hidden = !cell;
    if (!cell) return;
    const op = !cell.scope.children.length && cell.scope.op;
    const lines = op
      ? [op.name, `${op.kind} · ${WORDS[op.precision]} · ${op.category}`]
      : [
          lineage(cell.scope)
            .slice(1)
            .map((each) => each.name)
            .join("/"),
          describe(cell.scope, this.mode).split(": ").pop(),
        ];
    this.tip.replaceChildren(el("strong", {}, lines[0]), el("span", {}, lines[1]));
  }

  middle(op) {
    let box = this.spots.get(op.id);
    for (let here = this.graph.places.get(op.id); here && !box; here = here.parent) box = this.spots.get(here);
    return box ? { x: box.x + box.w / 2, y: box.y + box.h / 2, box } : null;
  }

  drawTrail(width, height) {
    this.trail.setAttribute("viewBox", `0 0 ${width} ${height}`);
    this.trail.replaceChildren();
    if (!this.chosen) return;
    const lines = this.chain
      .filter((step) => step.effect)
      .map((step) => [this.middle(step.op), this.middle(step.effect.op)]);
    const points = this.chain.map((step) => this.middle(step.op)).filter(Boolean);
    for (const [from, to] of lines)
      if (from && to) this.trail.append(svg("path", { class: "halo", d: curve(from, to) }));
    for (const [from, to] of lines)
      if (from && to) this.trail.append(svg("path", { class: "link", d: curve(from, to) }));
    for (const point of points) this.trail.append(svg("circle", { class: "stop", cx: point.x, cy: point.y, r: 3.5 }));
    const here = this.middle(this.chosen);
    if (here)
      this.trail.append(
        svg("rect", { class: "target", ...frameOf(here.box) }),
        svg("circle", { class: "start", cx: here.x, cy: here.y, r: 5 }),
      );
  }

  drawCrumbs() {
    const line = lineage(this.scope);
    this.crumbs.replaceChildren(
      ...line.flatMap((scope, index) => {
        const last = index === line.length - 1;
        const name = scope.name || "whole graph";
        const crumb = last
          ? el("span", { "aria-current": "location" }, name)
          : el("button", { type: "button", onclick: () => this.onScope(scope) }, name);
        return index ? [el("span", { class: "muted", "aria-hidden": "true" }, "/"), crumb] : [crumb];
      }),
      el("span", { class: "muted crumb-note" }, describe(this.scope, this.mode).split(": ").pop()),
    );
  }

  paint(mode, area) {
    Object.assign(this, { mode, area });
    this.draw();
  }
}

// The smallest scope around all of these that still shows some of what is about.
function surroundings(places) {
  let scope = common(places);
  while (scope.parent && (!scope.children.length || scope.ops < CONTEXT)) scope = scope.parent;
  return scope;
}

// A text of at most so many letters; names differ at their ends, so the middle is left out where that helps.
function shortened(text, room) {
  const kept = Math.max(1, Math.floor(room) - 1);
  if (text.length <= room || kept < 9) return text.slice(0, kept + 1);
  const tail = Math.ceil(kept / 2);
  return `${text.slice(0, kept - tail)}…${text.slice(text.length - tail)}`;
}

// A gentle bend, so that a path there and back is seen twice.
function curve(from, to) {
  const [dx, dy] = [to.x - from.x, to.y - from.y];
  const bend = { x: (from.x + to.x) / 2 - dy * 0.12, y: (from.y + to.y) / 2 + dx * 0.12 };
  const [start, turn, end] = [from, bend, to].map((point) => `${point.x.toFixed(1)} ${point.y.toFixed(1)}`);
  return `M${start}Q${turn} ${end}`;
}

const frameOf = (box) => ({ x: box.x - 2, y: box.y - 2, width: box.w + 4, height: box.h + 4, rx: 3 });
