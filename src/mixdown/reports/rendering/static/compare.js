// Two reports of one graph: totals before and after, ops whose dtype changed and why, casts added and removed.

function compareView(report, comparison) {
  const label = (change) => (change.function ? `${change.op} in ${change.function}` : change.op);
  return el(
    "section",
    { class: "card" },
    el("h2", {}, comparison.name),
    el("p", { class: "muted" }, `Before: ${report.before}. After: ${report.title}.`),
    totalsTable(comparison),
    el("h3", {}, `Ops with another dtype, ${count(comparison.changes.length)}`),
    comparison.changes.length
      ? table(
          "changes",
          "Ops with another dtype",
          [
            {
              title: "Op",
              key: label,
              cell: (change) => [
                el("span", { class: "name" }, label(change)),
                el("span", { class: "muted" }, ` ${change.kind}`),
              ],
              wide: true,
            },
            dtypeColumn("Before", "dtype_before", "reason_before"),
            dtypeColumn("After", "dtype_after", "reason_after"),
          ],
          comparison.changes,
        )
      : el("p", { class: "muted" }, "None."),
    comparedCasts("Casts added", "casts-added", comparison.casts_added),
    comparedCasts("Casts removed", "casts-removed", comparison.casts_removed),
    comparedOps("Ops only after", comparison.ops_added),
    comparedOps("Ops only before", comparison.ops_removed),
  );
}

function dtypeColumn(title, dtype, reason) {
  return {
    title,
    key: (change) => change[dtype],
    cell: (change) => [
      el("span", { class: `badge fill-${change[dtype] === FULL ? "full" : "low"}` }, change[dtype]),
      el("span", { class: "step-why" }, worded(change[reason])),
    ],
    wide: true,
  };
}

function totalsTable({ before, after }) {
  const rows = [
    ["16-bit ops", "low_ops", count],
    ["Float ops", "ops", count],
    ["Casts", "casts", count],
    ["Bytes moved by casts", "bytes", size],
  ];
  return table(
    "totals",
    "Before and after",
    [
      { title: "", cell: ([title]) => title },
      { title: "Before", cell: ([, key, show]) => show(before[key]), numeric: true },
      { title: "After", cell: ([, key, show]) => show(after[key]), numeric: true },
      {
        title: "Change",
        cell: ([, key, show]) => {
          const change = after[key] - before[key];
          return change ? `${change > 0 ? "+" : "−"}${show(Math.abs(change))}` : "none";
        },
        numeric: true,
      },
    ],
    rows,
  );
}

function comparedCasts(title, id, casts) {
  const cells = [
    nameColumn("Tensor", (cast) => cast.tensor),
    { title: "To", key: (cast) => cast.to, cell: (cast) => cast.to },
    { title: "Bytes moved", key: (cast) => cast.bytes, cell: (cast) => size(cast.bytes), numeric: true },
  ];
  return el(
    "div",
    {},
    el("h3", {}, `${title}, ${count(casts.length)}`),
    casts.length ? table(id, title, cells, casts, { column: 2, falling: true }) : el("p", { class: "muted" }, "None."),
  );
}

function comparedOps(title, labels) {
  if (!labels.length) return null;
  return el(
    "div",
    {},
    el("h3", {}, `${title}, ${count(labels.length)}`),
    table("ops", title, [nameColumn("Op", (label) => label)], labels),
  );
}
