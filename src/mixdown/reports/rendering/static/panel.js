// The panel beside the map: one op with its causes and neighbours, or a scope in numbers.

const FIRST_LINKS = 10;

function opPanel(graph, op, site, { onOp, onSite, onScope }) {
  const steps = chainOf(graph, op, site);
  return el(
    "div",
    { class: "panel-body" },
    el("p", { class: "eyebrow" }, "Op"),
    el("h2", { class: "name", id: "op-name", tabindex: "-1" }, wrapping(op.name)),
    op.sites.length > 1 ? sitePicker(graph, op, site, onSite) : null,
    el(
      "p",
      { class: "verdict" },
      el("span", { class: "badge fill-full" }, FULL),
      el("span", { "aria-label": "becomes" }, "→"),
      el("span", { class: `badge fill-${site.dtype === graph.low ? "low" : "full"}`, id: "op-dtype" }, site.dtype),
    ),
    facts([
      ["Kind", op.kind],
      ["Work", [op.flops ? flops(op.flops) : null, op.bytes ? `moves ${size(op.bytes)} in ${FULL}` : null].filter(Boolean).join(", ")],
      ["Category", category(site.category)],
      ["Decided by", `stage ${site.stage}`],
      ["Because", worded(site.reason)],
      ["Function", op.function],
      ["Source", op.source],
    ]),
    el("h3", {}, steps.length > 1 ? `Chain of causes, ${counted(steps.length, "step")}` : "Chain of causes"),
    chainList(graph, steps, onOp),
    castsOf(graph, op),
    linkList(
      "Inputs",
      op.inputs.map((id) => graph.ops[id]),
      onOp,
    ),
    linkList(
      "Outputs",
      op.outputs.map((id) => graph.ops[id]),
      onOp,
    ),
    scopeLink(graph, op, onScope),
  );
}

function sitePicker(graph, op, site, onSite) {
  const options = op.sites.map((each, index) =>
    el("option", { value: index, selected: each === site }, `${each.attribute}: ${each.dtype}`),
  );
  const select = el(
    "select",
    { id: "site-picker", onchange: (event) => onSite(op.sites[Number(event.target.value)]) },
    options,
  );
  return el("label", { class: "field" }, el("span", {}, `One of ${op.sites.length} types`), select);
}

function facts(pairs) {
  return el(
    "dl",
    { class: "facts" },
    pairs
      .filter(([, value]) => value)
      .flatMap(([name, value]) => [
        el("dt", {}, name),
        el("dd", { id: `fact-${name.toLowerCase().replace(/\W/g, "-")}` }, value),
      ]),
  );
}

function category(name) {
  const known = CATEGORIES.includes(name) ? name : "barrier";
  return el("span", {}, el("span", { class: `dot fill-${known}` }), ` ${name}`);
}

function castsOf(graph, op) {
  if (!op.casts.length) return null;
  const rows = op.casts.map((cast) =>
    el(
      "li",
      {},
      el("span", { class: "name" }, wrapping(cast.tensor)),
      ` ${direction(graph, cast.to)}, ${size(cast.bytes)}`,
    ),
  );
  return el("div", {}, el("h3", {}, "Casts behind it"), el("ul", { class: "plain" }, rows));
}

function linkList(title, ops, onOp) {
  const item = (op) =>
    el(
      "li",
      {},
      el("span", { class: `dot fill-${op.precision}` }),
      opLink(op, onOp),
      el("span", { class: "row-kind" }, op.kind),
    );
  const list = el("ul", { class: "plain links", id: `op-${title.toLowerCase()}` }, ops.slice(0, FIRST_LINKS).map(item));
  const rest = ops.slice(FIRST_LINKS);
  if (rest.length) {
    const more = el("button", { type: "button", class: "more" }, `Show ${count(rest.length)} more`);
    more.addEventListener("click", () => {
      list.append(...rest.map(item));
      more.remove();
    });
    return el("div", {}, el("h3", {}, `${title}, ${count(ops.length)}`), list, more);
  }
  return el("div", {}, el("h3", {}, title), ops.length ? list : el("p", { class: "muted" }, "none in float"));
}

function scopeLink(graph, op, onScope) {
  const place = graph.places.get(op.id);
  if (!place || !place.parent.parent) return null;
  return el(
    "p",
    {},
    el("button", { type: "button", class: "more", onclick: () => onScope(place.parent) }, "Show its scope"),
  );
}

function castsBelow(ops) {
  const casts = ops.flatMap((op) => op.casts);
  const unknown = unknownCasts(casts);
  const rest = unknown ? `, ${count(unknown)} of unknown size` : "";
  return casts.length ? `${counted(casts.length, "cast")} behind them, ${size(knownBytes(casts))}${rest}` : "no casts";
}

const isLow = (graph, op) => op.sites.length > 0 && op.sites[0].dtype === graph.low;

function scopePanel(graph, scope, mode) {
  const ops = scope === graph.root ? graph.ops : opsBelow(scope);
  const low = lowCount(ops);
  const kinds = ranking(
    ops.filter((op) => op.precision !== "full"),
    8,
  );
  const why = obstacles(graph, ops, 8);
  const lowFlops = ops.reduce((sum, op) => sum + (isLow(graph, op) ? op.flops : 0), 0);
  return el(
    "div",
    { class: "panel-body" },
    el("p", { class: "eyebrow" }, scope.group ? "Alike" : "Scope"),
    el(
      "h2",
      { class: "name" },
      scope === graph.root
        ? graph.name
        : wrapping(
            lineage(scope)
              .slice(1)
              .filter((each) => !each.group || each === scope)
              .map((each) => each.name)
              .join("/"),
          ),
    ),
    scope.flops
      ? el("p", {}, `${percent(lowFlops, scope.flops)} of ${flops(scope.flops)} of matrix arithmetic in ${graph.low}`)
      : null,
    el("p", {}, `moves ${size(scope.bytes)} in ${FULL}, op by op; ${count(low)} of ${counted(ops.length, "op")} in ${graph.low}`),
    el("p", { class: "muted", id: "scope-casts" }, castsBelow(ops)),
    mixBar(weightsOf(scope, mode), PARTS[mode]),
    kinds.top.length ? el("div", {}, el("h3", {}, `In ${graph.low}, by kind`), bars(kinds, "kind")) : null,
    why.top.length ? el("div", {}, el("h3", {}, `Still ${FULL}, because`), bars(why, "reason")) : null,
    el("p", { class: "muted hint" }, "Choose an op in the map, the tree or by search to see why it is what it is."),
  );
}
