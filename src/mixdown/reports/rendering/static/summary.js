// The head of the page: how many ops run in 16 bits, and what their casts move.

function drawSummary(report) {
  const ops = report.graphs.flatMap((graph) => graph.ops);
  const casts = report.graphs.flatMap((graph) => graph.casts);
  const lows = [...new Set(report.graphs.map((graph) => graph.low))].join(" and ") || "16 bits";
  const parts = {};
  for (const op of ops) parts[op.precision] = (parts[op.precision] || 0) + 1;
  byId("summary").replaceChildren(
    ...report.warnings.map((warning) => el("p", { class: "warning", role: "note" }, warning)),
    ...report.notes.map((note) => el("p", { class: "muted", role: "note" }, note)),
    el(
      "div",
      { class: "headline" },
      el(
        "p",
        { class: "lead" },
        el("strong", { id: "summary-low" }, count(lowCount(ops))),
        " of ",
        el("strong", { id: "summary-ops" }, count(ops.length)),
        ` float32 ops run in ${lows}`,
        el("span", { class: "lead-share" }, percent(lowCount(ops), ops.length)),
      ),
      ops.length ? mixBar(parts, PRECISIONS, ops.length) : null,
    ),
    el("dl", { class: "tiles" }, tiles(report, casts)),
  );
}

function tiles(report, casts) {
  const lowered = casts.filter((cast) => cast.to !== FULL).length;
  const unknown = unknownCasts(casts);
  const skipped = report.scalers.reduce((sum, scaler) => sum + scaler.skipped_steps, 0);
  const steps = report.scalers.reduce((sum, scaler) => sum + scaler.steps, 0);
  const policy = report.graphs.length ? report.graphs[0].policy : {};
  return [
    ["casts", "Casts", count(casts.length), `${count(lowered)} down, ${count(casts.length - lowered)} back`],
    [
      "bytes",
      "Moved by casts",
      casts.length && unknown === casts.length ? "unknown" : size(knownBytes(casts)),
      unknown ? `${count(unknown)} of unknown shape` : "per run",
    ],
    report.scalers.length ? ["skipped", "Skipped steps", count(skipped), `of ${counted(steps, "step")}`] : null,
    report.scalers.length
      ? [
          "scale",
          "Loss scale",
          shownScale(report.scalers[0].loss_scale),
          report.scalers.length > 1 ? report.scalers[0].name : "now",
        ]
      : null,
    policy.low
      ? [
          "policy",
          "Policy",
          policy.low,
          [
            policy.rules && `${policy.rules} lists`,
            policy.devices && `devices ${plain(policy.devices)}`,
            policy.overrides && policy.overrides.length ? counted(policy.overrides.length, "override") : null,
          ]
            .filter(Boolean)
            .join(", "),
        ]
      : null,
    [
      "versions",
      "Versions",
      Object.entries(report.versions).map((pair) => pair.join(" "))[0] || "–",
      Object.entries(report.versions)
        .slice(1)
        .map((pair) => pair.join(" "))
        .join(", "),
    ],
  ]
    .filter(Boolean)
    .map(([id, title, value, note]) =>
      el(
        "div",
        { class: "tile" },
        el("dt", {}, title),
        el(
          "dd",
          {},
          el("span", { class: "tile-value", id: `summary-${id}` }, value),
          el("span", { class: "tile-note" }, note),
        ),
      ),
    );
}
