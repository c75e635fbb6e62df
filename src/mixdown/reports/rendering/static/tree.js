// The tree of scopes, open at the layers of the model first. Only the rows in view exist, so that thousands of siblings cost nothing.

const ROW = 28; // pixels; page.css has the same number
const SPARE = 8; // rows drawn beyond either edge

class Tree {
  constructor({ onScope, onOp }) {
    this.onScope = onScope;
    this.onOp = onOp;
    this.canvas = el("div", { class: "tree-rows", role: "presentation" });
    this.node = el(
      "div",
      {
        class: "tree",
        role: "tree",
        tabindex: "0",
        id: "tree",
        "aria-label": "Scopes and ops",
        onkeydown: (event) => this.key(event),
        onscroll: () => this.draw(),
      },
      this.canvas,
    );
  }

  load(root, mode) {
    Object.assign(this, { root, mode, open: new Set(layersOf(root)), path: new Set(), chosen: null, at: 0 });
    this.list();
  }

  list() {
    this.rows = [];
    const walk = (scope, level) => {
      const children = childrenOf(scope);
      children.forEach((child, index) => {
        this.rows.push({ scope: child, level, index: index + 1, of: children.length });
        if (this.open.has(child)) walk(child, level + 1);
      });
    };
    walk(this.root, 1);
    this.at = Math.min(this.at, this.rows.length - 1);
    this.canvas.style.height = `${this.rows.length * ROW}px`;
    this.draw();
  }

  draw() {
    const first = Math.max(0, Math.floor(this.node.scrollTop / ROW) - SPARE);
    const last = Math.ceil((this.node.scrollTop + (this.node.clientHeight || 600)) / ROW) + SPARE;
    const shown = this.rows.slice(first, last);
    this.canvas.replaceChildren(...shown.map((row, index) => this.row(row, first + index)));
    if (this.rows.length) this.node.setAttribute("aria-activedescendant", `row-${this.at}`);
  }

  row({ scope, level, index, of }, position) {
    const branch = scope.children.length > 0;
    const classes = [
      "row",
      position === this.at && "active",
      scope === this.chosen && "chosen",
      this.path.has(scope) && "on-path",
    ];
    const node = el(
      "div",
      {
        class: classes.filter(Boolean).join(" "),
        role: "treeitem",
        id: `row-${position}`,
        "aria-level": level,
        "aria-setsize": of,
        "aria-posinset": index,
        "aria-expanded": branch ? String(this.open.has(scope)) : null,
        "aria-selected": String(scope === this.chosen),
        "aria-label": describe(scope, this.mode),
        title: scope.op ? `${scope.op.name} (${scope.op.kind})` : scope.name,
        onclick: (event) => this.click(event, position),
      },
      el("span", { class: branch ? "twist" : "twist leaf", "aria-hidden": "true" }),
      scope.op ? el("span", { class: `dot fill-${partOf(scope.op, this.mode)}` }) : null,
      el("span", { class: scope.group ? "row-name group" : "row-name" }, scope.name),
      branch ? el("span", { class: "row-count" }, size(scope.bytes)) : el("span", { class: "row-kind" }, scope.op.kind),
      branch ? mixBar(weightsOf(scope, this.mode), PARTS[this.mode]) : null,
    );
    node.style.top = `${position * ROW}px`;
    node.style.paddingLeft = `${level * 14 - 6}px`;
    return node;
  }

  click(event, position) {
    this.at = position;
    const { scope } = this.rows[position];
    if (scope.children.length && (event.target.classList.contains("twist") || !scope.op)) this.toggle(scope);
    this.choose(scope);
  }

  choose(scope) {
    if (scope.op) this.onOp(scope.op);
    else this.onScope(scope);
  }

  toggle(scope) {
    if (!this.open.delete(scope)) this.open.add(scope);
    this.list();
  }

  key(event) {
    const row = this.rows[this.at];
    const page = Math.max(1, Math.floor(this.node.clientHeight / ROW) - 1);
    const moves = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity };
    if (!row || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key in moves) this.move(this.at + moves[event.key]);
    else if (event.key === "ArrowRight") this.deeper(row.scope);
    else if (event.key === "ArrowLeft") this.shallower(row.scope);
    else if (event.key === "Enter") this.choose(row.scope);
    else if (event.key === " " && row.scope.children.length) this.toggle(row.scope);
    else return;
    event.preventDefault();
  }

  move(position) {
    this.at = Math.max(0, Math.min(this.rows.length - 1, position));
    this.scrollTo(this.at);
    this.draw();
  }

  deeper(scope) {
    if (!scope.children.length) return;
    if (this.open.has(scope)) this.move(this.at + 1);
    else this.toggle(scope);
  }

  shallower(scope) {
    if (this.open.has(scope)) this.toggle(scope);
    else
      this.move(
        Math.max(
          this.rows.findIndex((row) => row.scope === scope.parent),
          0,
        ),
      );
  }

  scrollTo(position) {
    const top = position * ROW;
    const height = this.node.clientHeight;
    if (top < this.node.scrollTop) this.node.scrollTop = top;
    else if (top + ROW > this.node.scrollTop + height) this.node.scrollTop = top + ROW - height;
  }

  // Open all that hides a scope, mark it, and mark what led to it with the scopes around.
  reveal(scope, path) {
    this.chosen = scope;
    this.path = new Set(path.flatMap(lineage));
    lineage(scope)
      .slice(0, -1)
      .forEach((each) => this.open.add(each));
    this.list();
    const position = this.rows.findIndex((row) => row.scope === scope);
    if (position >= 0) this.move(position);
  }

  paint(mode) {
    this.mode = mode;
    this.draw();
  }
}
