// The page itself: its parts, and what happens when something is chosen. Start with `start`.

const state = { report: null, graph: null, mode: "precision", area: "bytes" };
const views = {};

function start() {
  state.report = readReport(byId("report-data").textContent);
  document.title = `${state.report.title} · mixdown report`;
  byId("title").textContent = state.report.title;
  const actions = { onScope: (scope) => showScope(scope), onOp: (op) => showOp(op) };
  Object.assign(views, {
    tree: new Tree(actions),
    map: new ScopeMap(actions),
    search: new Search(actions.onOp),
    tabs: new Tabs(refresh),
  });
  views.panel = el("aside", { class: "panel", id: "op-panel", "aria-live": "polite", "aria-label": "Details" });
  drawSummary(state.report, null);
  fillPicker(state.report);
  window.addEventListener("hashchange", () => goTo(location.hash));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => views.map.draw());
  if (state.report.graphs.length) showGraph(heaviest(state.report.graphs));
  else showNothing();
  if (location.hash) goTo(location.hash);
  requestAnimationFrame(() => requestAnimationFrame(() => performance.mark("mixdown-ready")));
}

// The graph with the most work: of a training run, the step.
function heaviest(graphs) {
  const work = ({ effort, ops }) => [effort.flops, effort.float32_bytes, ops.length];
  const more = (a, b) => work(a).map((each, at) => each - work(b)[at]).find(Boolean) > 0;
  return graphs.reduce((best, graph) => (more(graph, best) ? graph : best)).index;
}

function fillPicker(report) {
  byId("graph-field").hidden = report.graphs.length < 2;
  byId("graph-picker").replaceChildren(
    ...report.graphs.map((graph) =>
      el(
        "option",
        { value: graph.index },
        `${graph.name} (${graph.kind}${graph.effort.flops ? `, ${shareOf(graph.effort)} in 16 bits` : ""})`,
      ),
    ),
  );
  byId("graph-picker").addEventListener("change", (event) => showGraph(Number(event.target.value)));
}

function showNothing() {
  views.search.load({ ops: [] });
  views.tabs.add("graph", "Graph", "", () =>
    el("section", { class: "card" }, el("p", { class: "muted" }, "This report holds no graph.")),
  );
  views.tabs.add("scale", "Loss scale", "", () => scalersView(state.report.scalers));
  views.tabs.show(state.report.scalers.length ? "scale" : "graph");
}

function showGraph(index) {
  const { report } = state;
  const graph = report.graphs[index];
  const tab = views.tabs.current || "graph";
  state.graph = graph;
  byId("graph-picker").value = String(index);
  const root = scopesOf(graph);
  drawSummary(report, graph);
  views.tree.load(root, state.mode);
  views.search.load(graph);
  views.tabs.clear();
  views.tabs.add("graph", "Graph", "", () => graphView(graph));
  views.tabs.add("casts", "Casts", count(graph.casts.length), () => castsView(graph, showOp));
  views.tabs.add(
    "scale",
    "Loss scale",
    report.scalers.length ? count(report.scalers.reduce((sum, each) => sum + each.skips.length, 0)) : "",
    () => scalersView(report.scalers),
  );
  views.tabs.add("advice", "Tensor Cores", count(graph.advice.length), () => adviceView(graph));
  if (report.before !== null)
    views.tabs.add(
      "compare",
      "Compare",
      count(report.comparison.reduce((sum, each) => sum + each.changes.length, 0)),
      () => comparisons(report),
    );
  views.tabs.add("details", "Details", "", () =>
    detailsView(report, graph, (each) => {
      showGraph(each);
      views.tabs.show("graph");
    }),
  );
  views.map.load(graph, state.mode, state.area);
  views.panel.replaceChildren(scopePanel(graph, root, state.mode));
  views.tabs.show(tab);
}

function comparisons(report) {
  const [before, after] = report.unpaired;
  const only = [
    ...before.map((name) => `${name} is only in ${report.before}.`),
    ...after.map((name) => `${name} is only in ${report.title}.`),
  ];
  return [
    ...report.comparison.map((each) => compareView(report, each)),
    only.length
      ? el(
          "section",
          { class: "card" },
          el("h2", {}, "Graphs in one report only"),
          el("ul", { class: "plain", id: "unpaired" }, only.map((line) => el("li", {}, line))),
        )
      : null,
  ];
}

function graphView(graph) {
  return [
    graph.rewritten
      ? null
      : el(
          "p",
          { class: "warning", role: "note" },
          `This ${graph.kind} was left as it was: ${graph.reason || "no reason recorded"}.`,
        ),
    el("div", { class: "graph-bar" }, ...switches(), el("ul", { class: "legend", id: "legend" }, legend())),
    el("div", { class: "graph-grid" }, views.tree.node, views.map.node, views.panel),
  ];
}

function switches() {
  return [
    choices("mode", "Colour by", { precision: "Precision", category: "Category" }),
    choices("area", "Area by", { bytes: "Bytes", flops: "Arithmetic" }),
  ];
}

// A row of radio buttons that sets one part of the state.
function choices(key, title, options) {
  const option = ([value, label]) =>
    el(
      "label",
      { class: "choice" },
      el("input", {
        type: "radio",
        id: `${key}-${value}`,
        name: key,
        value,
        checked: value === state[key],
        onchange: () => choose(key, value),
      }),
      el("span", {}, label),
    );
  return el(
    "div",
    { class: "field" },
    el("span", { "aria-hidden": "true" }, title),
    el("fieldset", { class: "modes" }, el("legend", { class: "sr-only" }, title), Object.entries(options).map(option)),
  );
}

function legend() {
  const root = scopesOf(state.graph);
  const parts = partsOf(root, state.mode);
  const words = { low: state.graph.low, full: FULL, mixed: state.mode === "precision" ? "both" : "several" };
  return PARTS[state.mode]
    .filter((part) => parts[part])
    .map((part) =>
      el(
        "li",
        {},
        el("span", { class: `dot fill-${part}` }),
        words[part] || part,
        el("span", { class: "muted" }, ` ${count(parts[part])}`),
      ),
    );
}

function choose(key, value) {
  state[key] = value;
  views.tree.paint(state.mode);
  views.map.paint(state.mode, state.area);
  byId("legend").replaceChildren(...legend());
}

// What was never in sight could not be measured: draw again when it comes into sight.
function refresh(tab) {
  if (tab !== "graph" || !state.graph) return;
  views.tree.draw();
  views.map.draw();
}

function showScope(scope) {
  const zoomed = views.map.buttons.contains(document.activeElement);
  Object.assign(views.map, { chosen: null, chain: [] });
  views.map.zoom(scope);
  views.tree.reveal(scope, []);
  views.panel.replaceChildren(scopePanel(state.graph, scope, state.mode));
  if (zoomed) views.map.focus(0);
}

function showOp(op) {
  const hash = `#/${state.graph.index}/op/${op.id}`;
  if (location.hash === hash) goTo(hash);
  else location.hash = hash; // so that Back leads to the op before
}

function goTo(hash) {
  const [, graph, op] = (hash.match(/^#\/(\d+)\/op\/(\d+)$/) || []).map(Number);
  const target = state.report.graphs[graph] && state.report.graphs[graph].ops[op];
  if (!target) return;
  if (state.graph.index !== graph) showGraph(graph);
  openOp(target, target.sites[0]);
}

function openOp(op, site) {
  if (!site) return;
  const chain = chainOf(state.graph, op, site);
  const place = state.graph.places.get(op.id);
  const busy = views.tree.node.contains(document.activeElement);
  views.tabs.show("graph");
  views.map.follow(op, chain);
  if (place) views.tree.reveal(place, chain.map((step) => state.graph.places.get(step.op.id)).filter(Boolean));
  views.panel.replaceChildren(
    opPanel(state.graph, op, site, { onOp: showOp, onScope: showScope, onSite: (each) => openOp(op, each) }),
  );
  views.panel.scrollTop = 0;
  if (!busy) byId("op-name").focus({ preventScroll: innerWidth > 1100 });
}

start();
