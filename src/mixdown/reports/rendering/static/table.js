// A table that sorts by its headings and grows on demand.

const FIRST_ROWS = 200;

// Columns are { title, cell(row), key(row), numeric }; without a key a column does not sort.
function table(name, caption, columns, rows, sort) {
  const state = { column: sort ? sort.column : null, falling: sort ? sort.falling : false, shown: FIRST_ROWS };
  const heads = columns.map((column) => el("th", { scope: "col", class: column.numeric ? "numeric" : null }));
  const body = el("tbody");
  const more = el("button", {
    type: "button",
    class: "more",
    onclick: () => {
      state.shown *= 5;
      draw();
    },
  });
  const sorted = () => {
    const column = columns[state.column];
    if (!column) return rows;
    const ordered = [...rows].sort((a, b) => order(column.key(a), column.key(b)));
    return state.falling ? ordered.reverse() : ordered;
  };
  const draw = () => {
    heads.forEach((head, index) => {
      if (columns[index].key)
        head.setAttribute("aria-sort", index !== state.column ? "none" : state.falling ? "descending" : "ascending");
    });
    body.replaceChildren(
      ...sorted()
        .slice(0, state.shown)
        .map((row) =>
          el(
            "tr",
            {},
            columns.map((column) =>
              el(
                "td",
                { class: [column.numeric && "numeric", column.wide && "wide"].filter(Boolean).join(" ") || null },
                column.cell(row),
              ),
            ),
          ),
        ),
    );
    more.hidden = rows.length <= state.shown;
    more.textContent = `Show more of ${count(rows.length)} rows`;
  };
  columns.forEach((column, index) =>
    heads[index].append(
      column.key
        ? el(
            "button",
            {
              type: "button",
              onclick: () => {
                const again = state.column === index;
                Object.assign(state, { column: index, falling: again ? !state.falling : Boolean(column.numeric) });
                draw();
              },
            },
            column.title,
          )
        : column.title,
    ),
  );
  draw();
  return el(
    "div",
    { class: "table-wrap", tabindex: "0", role: "region", "aria-label": caption },
    el(
      "table",
      { "data-table": name },
      el("caption", { class: "sr-only" }, caption),
      el("thead", {}, el("tr", {}, heads)),
      body,
    ),
    more,
  );
}

// A column of names, which sorts by them.
function nameColumn(title, name) {
  return { title, key: name, cell: (row) => el("span", { class: "name" }, name(row)), wide: true };
}

// Unknown sorts below everything that is known.
function order(a, b) {
  if (a === null || b === null) return (a !== null) - (b !== null);
  return typeof a === "string" ? collator.compare(a, b) : a - b;
}

function castTable(graph, onOp) {
  const largest = Math.max(1, ...graph.casts.map((cast) => cast.bytes || 0));
  return table(
    "casts",
    "Casts",
    [
      { title: "Tensor", key: (cast) => cast.tensor, cell: (cast) => opLink(cast.op, onOp, cast.tensor), wide: true },
      { title: "Made by", key: (cast) => cast.op.kind, cell: (cast) => cast.op.kind },
      {
        title: "Direction",
        key: (cast) => direction(graph, cast.to),
        cell: (cast) => directionBadge(graph.low, cast.to),
      },
      {
        title: "Bytes moved",
        key: (cast) => cast.bytes,
        cell: (cast) => bytesCell(cast.bytes, largest),
        numeric: true,
      },
    ],
    graph.casts,
    { column: 3, falling: true },
  );
}

function directionBadge(low, to) {
  const [from, target] = to === FULL ? ["low", "full"] : ["full", "low"];
  return el(
    "span",
    { class: "direction" },
    el("span", { class: `badge fill-${from}` }, to === FULL ? low : FULL),
    "→",
    el("span", { class: `badge fill-${target}` }, to),
  );
}

function bytesCell(bytes, largest) {
  if (bytes === null) return el("span", { class: "muted", title: "its shape is known only when it runs" }, "unknown");
  const bar = el("span", { class: "bytes-bar" });
  bar.style.width = `${(100 * bytes) / largest}%`;
  return el("span", { class: "bytes", title: `${count(bytes)} bytes` }, bar, size(bytes));
}
