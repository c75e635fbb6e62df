// The head of the page: how much of the work runs in 16 bits, and what that saves; numbers of ops come last.

const shareOf = ({ flops: all, low_flops: low }) =>
  low === all ? "100 %" : low / all > 0.999 ? "99.9 %" : percent(low, all);

function drawSummary(report, graph) {
  const effort = graph ? graph.effort : { flops: 0 };
  byId("summary").replaceChildren(
    ...report.warnings.map((warning) => el("p", { class: "warning", role: "note" }, warning)),
    ...report.notes.map((note) => el("p", { class: "muted", role: "note" }, note)),
    el("div", { class: "headline" }, graph ? lead(graph, effort) : null, graph ? workBar(graph, effort) : null),
    el("dl", { class: "tiles" }, tiles(report, graph).map(tile)),
  );
}

function lead(graph, effort) {
  if (!effort.flops)
    return el("p", { class: "lead" }, el("strong", { id: "summary-share" }, "No"), " matrix arithmetic of known size");
  return el(
    "p",
    { class: "lead" },
    el("strong", { id: "summary-share" }, shareOf(effort)),
    ` of the matrix arithmetic runs in ${graph.low}`,
    el("span", { class: "lead-share" }, `${flops(effort.low_flops)} of ${flops(effort.flops)}`),
  );
}

function workBar(graph, effort) {
  if (effort.flops)
    return mixBar({ low: effort.low_flops, full: effort.flops - effort.low_flops }, PRECISIONS);
  const parts = {};
  for (const op of graph.ops) parts[op.precision] = (parts[op.precision] || 0) + 1;
  return graph.ops.length ? mixBar(parts, PRECISIONS) : null;
}

// An amount beside that of float32.
function saving(id, title, mixed, full) {
  return full ? [id, title, `${(mixed / full).toFixed(2)} ×`, `${size(mixed)}, float32 ${size(full)}`] : null;
}

function tiles(report, graph) {
  const ops = graph ? graph.ops : [];
  const casts = graph ? graph.casts : [];
  const effort = graph ? graph.effort : { predicted: [] };
  const unknown = unknownCasts(casts);
  const moved = casts.length && unknown === casts.length ? "unknown" : size(knownBytes(casts));
  return [
    saving("bytes", "Bytes moved", effort.bytes, effort.float32_bytes),
    saving("activations", "Activations kept", effort.activations, effort.float32_activations),
    ...effort.predicted.map(predictedTile),
    ...scalerTiles(report.scalers),
    [
      "casts",
      "Casts",
      count(casts.length),
      graph && graph.is_compiled
        ? "before XLA fuses them"
        : `moving ${moved}${unknown ? `, ${count(unknown)} of unknown shape` : ""}`,
    ],
    ["ops", "Ops in 16 bits", count(lowCount(ops)), `of ${counted(ops.length, "float32 op")}`],
    policyTile(graph ? graph.policy : {}),
    versionsTile(Object.entries(report.versions).map((pair) => pair.join(" "))),
  ].filter(Boolean);
}

function predictedTile({ source, float32, mixed }) {
  const milliseconds = (seconds) => `${Number((seconds * 1e3).toPrecision(3))} ms`;
  const times = mixed ? `${(float32 / mixed).toFixed(2)} × as fast` : "–";
  const [device, how] = source.split(/ \((.*)\)$/);
  const note = `${milliseconds(mixed)}, float32 ${milliseconds(float32)}${how ? `; ${how}` : ""}`;
  return ["predicted", `Predicted ${device}`, times, note];
}

function scalerTiles(scalers) {
  if (!scalers.length) return [];
  const sum = (key) => scalers.reduce((total, scaler) => total + scaler[key], 0);
  const [first] = scalers;
  return [
    ["skipped", "Skipped steps", count(sum("skipped_steps")), `of ${counted(sum("steps"), "step")}`],
    ["scale", "Loss scale", shownScale(first.loss_scale), scalers.length > 1 ? first.name : "now"],
  ];
}

function policyTile(policy) {
  if (!policy.low) return null;
  const parts = [
    policy.rules && `${policy.rules} lists`,
    policy.devices && `devices ${plain(policy.devices)}`,
    policy.overrides && policy.overrides.length ? counted(policy.overrides.length, "override") : null,
  ];
  return ["policy", "Policy", policy.low, parts.filter(Boolean).join(", ")];
}

const versionsTile = ([first, ...others]) => ["versions", "Versions", first || "–", others.join(", ")];

function tile([id, title, value, note]) {
  return el(
    "div",
    { class: "tile" },
    el("dt", {}, title),
    el(
      "dd",
      {},
      el("span", { class: "tile-value", id: `summary-${id}` }, value),
      el("span", { class: "tile-note" }, note),
    ),
  );
}
