// The parts below the summary, and what stands in each but the graph.

class Tabs {
  constructor(onShow) {
    this.onShow = onShow;
    this.entries = [];
    byId("tabs").addEventListener("keydown", (event) => this.key(event));
  }

  add(name, title, badge, content) {
    const tab = el("button", { type: "button", role: "tab", id: `tab-${name}`, "aria-controls": `panel-${name}`, onclick: () => this.show(name) }, title, badge ? el("span", { class: "tab-badge" }, badge) : null);
    const panel = el("div", { role: "tabpanel", id: `panel-${name}`, class: `panel-${name}`, "aria-labelledby": `tab-${name}`, hidden: true }, content);
    byId("tabs").append(tab);
    byId("panels").append(panel);
    this.entries.push({ name, tab, panel });
  }

  clear() {
    byId("tabs").replaceChildren();
    byId("panels").replaceChildren();
    this.entries = [];
  }

  show(name) {
    this.current = this.entries.some((entry) => entry.name === name) ? name : "graph";
    for (const { name: each, tab, panel } of this.entries) {
      tab.setAttribute("aria-selected", String(each === this.current));
      tab.setAttribute("tabindex", each === this.current ? "0" : "-1");
      panel.hidden = each !== this.current;
    }
    this.onShow(this.current);
  }

  key(event) {
    const moves = { ArrowRight: 1, ArrowLeft: -1, Home: -this.entries.length, End: this.entries.length };
    if (!(event.key in moves)) return;
    const at = this.entries.findIndex((entry) => entry.name === this.current);
    const next = this.entries[Math.max(0, Math.min(this.entries.length - 1, at + moves[event.key]))];
    this.show(next.name);
    next.tab.focus();
    event.preventDefault();
  }
}

function castsView(graph, onOp) {
  if (!graph.casts.length) return el("section", { class: "card" }, el("p", { class: "muted" }, "This graph needs no casts."));
  const unknown = unknownCasts(graph.casts);
  const note = `${counted(graph.casts.length, "cast")} move ${size(knownBytes(graph.casts))} per run, read and written together${unknown ? `; ${count(unknown)} of them have a shape known only when they run` : ""}.`;
  return el("section", { class: "card" }, el("p", {}, note), castTable(graph, onOp));
}

function scalersView(scalers) {
  if (!scalers.length) return el("section", { class: "card" }, el("p", { class: "muted" }, "No loss scale is in this report."));
  return scalers.map(scalerView);
}

function adviceView(graph) {
  if (!graph.advice.length) return el("section", { class: "card" }, el("p", { class: "muted" }, "No dimension of a low matrix product or convolution stands in the way of Tensor Cores."));
  return el("section", { class: "card" },
    el("p", {}, "Tensor Cores want dimensions that are powers of two below 256, and multiples of 8 above. These are not:"),
    table("advice-table", "Tensor Core advice", [
      { title: "Op", key: (advice) => advice.op, cell: (advice) => el("span", { class: "name" }, advice.op), wide: true },
      { title: "Dimension", key: (advice) => advice.dimension, cell: (advice) => advice.dimension },
      { title: "Size", key: (advice) => advice.size, cell: (advice) => count(advice.size), numeric: true },
      { title: "Better", key: (advice) => advice.better, cell: (advice) => el("strong", {}, count(advice.better)), numeric: true },
    ], graph.advice));
}

function detailsView(report, graph, onGraph) {
  return [
    report.graphs.length > 1 ? el("section", { class: "card" }, el("h2", {}, "All graphs"), graphTable(report, onGraph)) : null,
    el("section", { class: "card" }, el("h2", {}, `Policy of ${graph.name}`), facts(Object.entries(graph.policy).map(([name, value]) => [name, plain(value)]))),
    el("section", { class: "card" }, el("h2", {}, "Versions"), facts(Object.entries(report.versions))),
  ];
}

function plain(value) {
  if (Array.isArray(value)) return value.length ? value.map(plain).join("; ") : "none";
  return value && typeof value === "object" ? Object.entries(value).filter(([, each]) => each !== "").map(([name, each]) => `${name}: ${plain(each)}`).join(", ") : String(value);
}

function graphTable(report, onGraph) {
  return table("graphs-table", "Graphs", [
    { title: "Name", key: (graph) => graph.name, cell: (graph) => el("button", { type: "button", class: "op-link name", onclick: () => onGraph(graph.index) }, graph.name), wide: true },
    { title: "Kind", key: (graph) => graph.kind, cell: (graph) => graph.kind },
    { title: "Low ops", key: (graph) => lowCount(graph.ops), cell: (graph) => `${count(lowCount(graph.ops))} of ${count(graph.ops.length)}`, numeric: true },
    { title: "Casts", key: (graph) => graph.casts.length, cell: (graph) => count(graph.casts.length), numeric: true },
    { title: "Rewritten", key: (graph) => String(graph.rewritten), cell: (graph) => (graph.rewritten ? "yes" : `left alone: ${graph.reason}`) },
  ], report.graphs);
}

function compareView(report, comparison) {
  const part = (dtype) => el("span", { class: `badge fill-${dtype === FULL ? "full" : "low"}` }, dtype);
  const label = (change) => (change.function ? `${change.op} in ${change.function}` : change.op);
  return el("section", { class: "card" },
    el("h2", {}, comparison.name), el("p", { class: "muted" }, `Before: ${report.before}. After: ${report.title}.`),
    totalsTable(comparison),
    el("h3", {}, `Ops with another dtype, ${count(comparison.changes.length)}`),
    comparison.changes.length ? table("changes-table", "Ops with another dtype", [
      { title: "Op", key: label, cell: (change) => [el("span", { class: "name" }, label(change)), el("span", { class: "muted" }, ` ${change.kind}`)], wide: true },
      { title: "Before", key: (change) => change.dtype_before, cell: (change) => [part(change.dtype_before), el("span", { class: "step-why" }, change.reason_before)], wide: true },
      { title: "After", key: (change) => change.dtype_after, cell: (change) => [part(change.dtype_after), el("span", { class: "step-why" }, change.reason_after)], wide: true },
    ], comparison.changes) : el("p", { class: "muted" }, "None."),
    comparedCasts("Casts added", "casts-added", comparison.casts_added), comparedCasts("Casts removed", "casts-removed", comparison.casts_removed),
    comparedOps("Ops only after", comparison.ops_added), comparedOps("Ops only before", comparison.ops_removed));
}

function totalsTable({ before, after }) {
  const rows = [["Low ops", "low_ops", count], ["Float ops", "ops", count], ["Casts", "casts", count], ["Bytes moved by casts", "bytes", size]];
  return table("totals-table", "Before and after", [
    { title: "", cell: ([title]) => title }, { title: "Before", cell: ([, key, show]) => show(before[key]), numeric: true },
    { title: "After", cell: ([, key, show]) => show(after[key]), numeric: true },
    { title: "Change", cell: ([, key, show]) => { const change = after[key] - before[key]; return change ? `${change > 0 ? "+" : "−"}${show(Math.abs(change))}` : "none"; }, numeric: true },
  ], rows);
}

function comparedCasts(title, id, casts) {
  const cells = [{ title: "Tensor", key: (cast) => cast.tensor, cell: (cast) => el("span", { class: "name" }, cast.tensor), wide: true }, { title: "To", key: (cast) => cast.to, cell: (cast) => cast.to }, { title: "Bytes moved", key: (cast) => cast.bytes, cell: (cast) => size(cast.bytes), numeric: true }];
  return el("div", {}, el("h3", {}, `${title}, ${count(casts.length)}`), casts.length ? table(id, title, cells, casts, { column: 2, falling: true }) : el("p", { class: "muted" }, "None."));
}

function comparedOps(title, labels) {
  if (!labels.length) return null;
  return el("div", {}, el("h3", {}, `${title}, ${count(labels.length)}`), table("", title, [{ title: "Op", key: (label) => label, cell: (label) => el("span", { class: "name" }, label), wide: true }], labels));
}
