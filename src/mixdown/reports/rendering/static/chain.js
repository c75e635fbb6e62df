// The chain of causes: from a site to the sites that made it what it is, each once, until nothing is behind them.

const AT_START = 6; // steps shown of a long chain before the fold,
const AT_END = 3; // and after it: the last ones are where it began

function chainOf(graph, op, site) {
  const steps = [{ op, site, effect: null }];
  const seen = new Set([site]);
  for (const step of steps) {
    for (const cause of step.site.causes) {
      const op = graph.ops[cause.op];
      const site = op.sites[cause.site];
      if (!seen.has(site)) steps.push({ op, site, effect: step });
      seen.add(site);
    }
  }
  return steps;
}

const siteLabel = (op, site) => (op.sites.length > 1 ? `${op.label}.${site.attribute}` : op.label);

function chainList(graph, steps, onOp) {
  const items = steps.map((step, index) => chainItem(graph, step, index, onOp));
  const list = el("ol", { class: "chain", id: "chain" }, items);
  const hidden = items.slice(AT_START, items.length - AT_END);
  if (hidden.length < 3) return list;
  hidden.forEach((item) => {
    item.hidden = true;
  });
  const unfold = el("button", { type: "button", class: "more" }, `Show ${counted(hidden.length, "step")} between`);
  const fold = el("li", { class: "fold" }, unfold);
  unfold.addEventListener("click", () => {
    hidden.forEach((item) => {
      item.hidden = false;
    });
    fold.remove();
  });
  items[AT_START].before(fold);
  return list;
}

function chainItem(graph, { op, site }, index, onOp) {
  const part = site.dtype === graph.low ? "low" : "full";
  const name = siteLabel(op, site);
  return el(
    "li",
    { "data-op": op.id },
    el(
      "span",
      { class: "step-head" },
      index ? opLink(op, onOp, name) : el("strong", { class: "name" }, wrapping(name)),
      el("span", { class: `badge fill-${part}` }, site.dtype),
    ),
    el("span", { class: "step-why" }, el("span", { class: "muted" }, `${op.kind} · `), worded(site.reason)),
  );
}

function opLink(op, onOp, name) {
  return el(
    "button",
    {
      type: "button",
      class: "op-link name",
      title: `${op.name} (${op.kind}, ${op.precision})`,
      onclick: () => onOp(op),
    },
    wrapping(name || op.label),
  );
}
