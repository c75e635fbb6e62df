// The scopes of a graph as a tree. Ops of a function stand below the function, names are split at "/".

const FEW = 3; // a sibling with at most so many ops may be folded with others like it
const DEEPEST = 60; // so many scopes stand inside each other; what lies deeper is one name
const MANY = 8; // so many siblings that differ in a number only are folded into one group
const collator = new Intl.Collator("en", { numeric: true });

function scopesOf(graph) {
  if (graph.root) return graph.root;
  const root = newScope("", null);
  for (const op of graph.ops) place(root, op);
  graph.places = new Map();
  settle(root, graph.places);
  graph.root = root;
  return root;
}

function newScope(name, parent) {
  return {
    name,
    parent,
    inside: new Map(),
    children: [],
    op: null,
    group: false,
    ops: 0,
    counts: {},
    kinds: {},
    sorted: null,
  };
}

function place(root, op) {
  const own = op.name.split("/");
  const steps = [...own.slice(0, DEEPEST), ...(own.length > DEEPEST ? [own.slice(DEEPEST).join("/")] : [])];
  if (op.function) steps.unshift(`ƒ ${op.function}`);
  let here = root;
  for (const step of steps) {
    if (!here.inside.has(step)) here.inside.set(step, newScope(step, here));
    here = here.inside.get(step);
  }
  here.op = op;
}

// Join what has one child only, fold what looks alike, then count: all of it from the leaves up.
function settle(scope, places) {
  scope.children = [...scope.inside.values()];
  scope.children.forEach((child) => settle(child, places));
  scope.children = scope.children.map((child) => joined(child, scope));
  scope.children = folded(scope);
  tally(scope);
  if (scope.op) places.set(scope.op.id, scope);
}

function joined(scope, parent) {
  scope.parent = parent;
  if (scope.op || scope.children.length !== 1 || scope.children[0].group) return scope;
  const only = scope.children[0];
  only.name = `${scope.name}/${only.name}`;
  only.parent = parent;
  return only;
}

function folded(scope) {
  const alike = new Map();
  for (const child of scope.children) {
    const stem = child.ops <= FEW ? child.name.replace(/_\d+(?=\/|$)/g, "") : child.name;
    if (!alike.has(stem)) alike.set(stem, []);
    alike.get(stem).push(child);
  }
  if (alike.size === 1) return scope.children;
  return [...alike].flatMap(([stem, members]) => (members.length < MANY ? members : [groupOf(stem, members, scope)]));
}

function groupOf(stem, members, parent) {
  const group = { ...newScope(`${stem}_*`, parent), children: members, group: true };
  for (const member of members) member.parent = group;
  tally(group);
  return group;
}

function tally(scope) {
  scope.ops = scope.op ? 1 : 0;
  scope.counts = scope.op ? { [scope.op.precision]: 1 } : {};
  scope.kinds = scope.op ? { [scope.op.category]: 1 } : {};
  for (const child of scope.children) {
    scope.ops += child.ops;
    for (const [key, times] of Object.entries(child.counts)) scope.counts[key] = (scope.counts[key] || 0) + times;
    for (const [key, times] of Object.entries(child.kinds)) scope.kinds[key] = (scope.kinds[key] || 0) + times;
  }
}

// By name, as people count.
function childrenOf(scope) {
  if (!scope.sorted) scope.sorted = [...scope.children].sort((a, b) => collator.compare(a.name, b.name));
  return scope.sorted;
}

function lineage(scope) {
  const line = [];
  for (let here = scope; here; here = here.parent) line.unshift(here);
  return line;
}

function opsBelow(scope) {
  return [...(scope.op ? [scope.op] : []), ...scope.children.flatMap(opsBelow)];
}

// The smallest scope that holds all of these.
function common(scopes) {
  const [first, ...others] = scopes.map(lineage);
  let depth = first.length;
  for (const line of others) while (depth > 1 && line[depth - 1] !== first[depth - 1]) depth -= 1;
  return first[depth - 1];
}

const PARTS = { precision: PRECISIONS, category: CATEGORIES };
const partsOf = (scope, mode) => (mode === "precision" ? scope.counts : scope.kinds);
const partOf = (op, mode) => (mode === "precision" ? op.precision : op.category);

function describe(scope, mode) {
  const parts = partsOf(scope, mode);
  const named = PARTS[mode].filter((part) => parts[part]).map((part) => `${count(parts[part])} ${part}`);
  return `${scope.name || "whole graph"}: ${counted(scope.ops, "op")}, ${named.join(", ")}`;
}

// A thin bar that shows the parts of a scope in their colours.
function mixBar(parts, order, total) {
  const bar = el("span", { class: "mix", "aria-hidden": "true" });
  for (const part of order) {
    if (!parts[part]) continue;
    const piece = el("span", { class: `fill-${part}` });
    piece.style.flexGrow = parts[part] / total;
    bar.append(piece);
  }
  return bar;
}
