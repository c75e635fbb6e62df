// The tabs beside the graph: casts, loss scales, advice, details.

function castsView(graph, onOp) {
  if (!graph.casts.length)
    return el("section", { class: "card" }, el("p", { class: "muted" }, "This graph needs no casts."));
  const unknown = unknownCasts(graph.casts);
  const moved = `${size(knownBytes(graph.casts))} per run, read and written together`;
  const rest = unknown ? `; the shape of ${count(unknown)} is known only when it runs` : "";
  const moving = graph.is_compiled ? ". XLA fuses most of them; if it fused none, they would move" : ", moving";
  const note = `${counted(graph.casts.length, "cast")}${moving} ${moved}${rest}.`;
  return el("section", { class: "card" }, el("p", {}, note), castTable(graph, onOp));
}

function scalersView(scalers) {
  if (!scalers.length)
    return el("section", { class: "card" }, el("p", { class: "muted" }, "No loss scale is in this report."));
  return scalers.map(scalerView);
}

function adviceView(graph) {
  if (!graph.advice.length)
    return el(
      "section",
      { class: "card" },
      el(
        "p",
        { class: "muted" },
        "All known dimensions of 16-bit matrix products and convolutions suit Tensor Cores.",
      ),
    );
  return el(
    "section",
    { class: "card" },
    el(
      "p",
      {},
      "Tensor Cores want dimensions that are powers of two below 256, and multiples of 8 above. These are not:",
    ),
    table(
      "advice",
      "Tensor Core advice",
      [
        nameColumn("Layer", (advice) => advice.layer),
        { title: "Dimension", key: (advice) => advice.dimension, cell: (advice) => advice.dimension },
        { title: "Size", key: (advice) => advice.size, cell: (advice) => count(advice.size), numeric: true },
        {
          title: "Better",
          key: (advice) => advice.better,
          cell: (advice) => el("strong", {}, count(advice.better)),
          numeric: true,
        },
        {
          title: "Ops that have it",
          key: (advice) => advice.ops.length,
          cell: (advice) => el("span", { class: "name" }, advice.ops.join(", ")),
          wide: true,
        },
      ],
      graph.advice,
    ),
  );
}

function detailsView(report, graph, onGraph) {
  return [
    report.graphs.length > 1
      ? el("section", { class: "card" }, el("h2", {}, "All graphs"), graphTable(report, onGraph))
      : null,
    graph.trials.length ? trialsView(graph) : null,
    el(
      "section",
      { class: "card" },
      el("h2", {}, `Policy of ${graph.name}`),
      facts(Object.entries(graph.policy).map(([name, value]) => [name, plain(value)])),
    ),
    el("section", { class: "card" }, el("h2", {}, "Versions"), facts(Object.entries(report.versions))),
  ];
}

function trialsView(graph) {
  const times = ([time, ratio, interval, calls]) =>
    `${time} a call, ${ratio} of float32 (95 % interval: ${interval}; ${calls} calls)`;
  return el(
    "section",
    { class: "card", id: "trials" },
    el("h2", {}, `Tuning: ${graph.tuned || "going on"}`),
    facts(graph.trials.map(([name, shown]) => [name, times(shown)])),
  );
}

function plain(value) {
  if (Array.isArray(value)) return value.length ? value.map(plain).join("; ") : "none";
  return value && typeof value === "object"
    ? Object.entries(value)
        .filter(([, each]) => each !== "")
        .map(([name, each]) => `${name}: ${plain(each)}`)
        .join(", ")
    : String(value);
}

function graphTable(report, onGraph) {
  return table(
    "graphs",
    "Graphs",
    [
      {
        title: "Name",
        key: (graph) => graph.name,
        cell: (graph) =>
          el("button", { type: "button", class: "op-link name", onclick: () => onGraph(graph.index) }, graph.name),
        wide: true,
      },
      { title: "Kind", key: (graph) => graph.kind, cell: (graph) => graph.kind },
      {
        title: "16-bit ops",
        key: (graph) => lowCount(graph.ops),
        cell: (graph) => `${count(lowCount(graph.ops))} of ${count(graph.ops.length)}`,
        numeric: true,
      },
      { title: "Casts", key: (graph) => graph.casts.length, cell: (graph) => count(graph.casts.length), numeric: true },
      {
        title: "Rewritten",
        key: (graph) => String(graph.rewritten),
        cell: (graph) => (graph.rewritten ? "yes" : `left alone: ${graph.reason}`),
      },
    ],
    report.graphs,
  );
}
