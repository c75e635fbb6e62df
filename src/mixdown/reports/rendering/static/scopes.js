// The scopes of a graph as a tree. Ops of a function stand below the function, names are split at "/".

const FEW = 3; // a sibling with at most so many ops may be folded with others like it
const FUNCTION = "ƒ ";
const DEEPEST = 60; // so many scopes stand inside each other; what lies deeper is one name
const MANY = 8; // so many siblings that differ in a number only are folded into one group
const collator = new Intl.Collator("en", { numeric: true });

function scopesOf(graph) {
  if (graph.root) return graph.root;
  const root = newScope("", null);
  for (const op of graph.ops) place(root, op);
  graph.places = new Map();
  settle(root, graph.places);
  for (const scope of [root, ...root.children.filter((child) => child.name.startsWith(FUNCTION))])
    for (const child of scope.children) child.closed = isOptimizer(child);
  for (const scope of layersOf(root)) scope.first = true;
  graph.root = root;
  return root;
}

// An optimizer writes variables and multiplies no matrices: it is shown as one block.
const isOptimizer = (scope) => scope.children.length > 0 && scope.writes > 0 && !scope.flops && !scope.op;

function newScope(name, parent) {
  return {
    name,
    parent,
    inside: new Map(),
    children: [],
    op: null,
    group: false,
    ops: 0,
    flops: 0,
    bytes: 0,
    writes: 0,
    closed: false,
    counts: {},
    kinds: {},
    bytesBy: { precision: {}, category: {} },
    first: false,
    sorted: null,
  };
}

function place(root, op) {
  const own = op.name.split("/");
  const steps = [...own.slice(0, DEEPEST), ...(own.length > DEEPEST ? [own.slice(DEEPEST).join("/")] : [])];
  if (op.function) steps.unshift(`${FUNCTION}${op.function}`);
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
  for (const total of [...AREAS, "writes"]) scope[total] = scope.op ? Number(scope.op[total]) : 0;
  scope.counts = scope.op ? { [scope.op.precision]: 1 } : {};
  scope.kinds = scope.op ? { [scope.op.category]: 1 } : {};
  scope.bytesBy = { precision: {}, category: {} };
  if (scope.op) for (const mode of Object.keys(PARTS)) scope.bytesBy[mode][scope.op[mode]] = scope.op.bytes;
  for (const child of scope.children) {
    for (const total of [...AREAS, "writes"]) scope[total] += child[total];
    add(scope.counts, child.counts);
    add(scope.kinds, child.kinds);
    for (const mode of Object.keys(PARTS)) add(scope.bytesBy[mode], child.bytesBy[mode]);
  }
}

function add(sums, others) {
  for (const [key, amount] of Object.entries(others)) sums[key] = (sums[key] || 0) + amount;
}

// The model first, then by name, as people count; gradients after the layers, and the optimizer last.
function childrenOf(scope) {
  const turn = (child) => (child.first ? -1 : child.closed ? 2 : Number(isBackward(child)));
  if (!scope.sorted)
    scope.sorted = [...scope.children].sort((a, b) => turn(a) - turn(b) || collator.compare(a.name, b.name));
  return scope.sorted;
}

const isBackward = (scope) => BACKWARD.test(`${scope.name}/`);

// The scopes to open so that the layers of the model are seen: down to where no one scope has most of the work.
function layersOf(root) {
  const open = [root];
  for (let here = root; ; ) {
    const forward = here.children.filter((child) => !isBackward(child) && !child.closed);
    const work = here.flops ? "flops" : "bytes";
    const whole = forward.reduce((sum, child) => sum + child[work], 0);
    const next = forward.find((child) => child[work] > 0.9 * whole);
    if (!next || !next.children.some((child) => child.children.length)) return open;
    open.push(next);
    here = next;
  }
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
const WORDS = { low: "in 16 bits", full: `in ${FULL}`, mixed: "in both" };
const weightsOf = (scope, mode) => (scope.bytes ? scope.bytesBy[mode] : partsOf(scope, mode));
const partOf = (op, mode) => (mode === "precision" ? op.precision : op.category);

function describe(scope, mode) {
  const parts = partsOf(scope, mode);
  const named = PARTS[mode].filter((part) => parts[part]).map((part) => `${count(parts[part])} ${WORDS[part] || part}`);
  const work = scope.flops ? `${flops(scope.flops)}, ` : "";
  return `${scope.name || "whole graph"}: ${work}${size(scope.bytes)}, ${counted(scope.ops, "op")}, ${named.join(", ")}`;
}

// A thin bar that shows the parts of a scope in their colours.
function mixBar(parts, order) {
  const total = order.reduce((sum, part) => sum + (parts[part] || 0), 0);
  const bar = el("span", { class: "mix", "aria-hidden": "true" });
  for (const part of order) {
    if (!parts[part]) continue;
    const piece = el("span", { class: `fill-${part}` });
    piece.style.flexGrow = parts[part] / total;
    bar.append(piece);
  }
  return bar;
}
