// The report out of its compact JSON (page.py writes it): graphs of ops that know their neighbours and casts.

const FULL = "float32";
const PRECISIONS = ["low", "mixed", "full"];
const AREAS = ["bytes", "flops", "ops"];
const CATEGORIES = ["allow", "infer", "clear", "deny", "barrier", "mixed"];

const BACKWARD = /(^|\/)(gradient_tape|gradients)(_\d+)?\//;
const WRITES = /^(Assign|ResourceApply|ResourceSparseApply|Apply|SparseApply)/;
const CHANGEABLE = ["cut", "alone", "strip"]; // stages that decide by shapes and kernels

function readReport(text) {
  const data = JSON.parse(text);
  data.graphs = data.graphs.map(readGraph);
  return data;
}

function readGraph(packed, index) {
  const { strings, verdicts } = packed;
  const ops = packed.ops.map(([name, kind, func, source, inputs, sites, flops, bytes], id) => {
    const read = sites.map(([verdict, ...because]) => readSite(verdicts[verdict], strings, because));
    return {
      id,
      name,
      inputs,
      flops,
      bytes,
      ops: 1,
      backward: BACKWARD.test(name),
      writes: WRITES.test(strings[kind]),
      kind: strings[kind],
      function: strings[func],
      source: strings[source],
      label: strings[func] ? `${name} in ${strings[func]}` : name,
      sites: read,
      precision: shared(read.map((site) => (site.dtype === packed.low ? "low" : "full"))) || "full",
      category: shared(read.map((site) => site.category)) || "barrier",
      outputs: [],
      casts: [],
    };
  });
  for (const op of ops) for (const source of op.inputs) ops[source].outputs.push(op.id);
  const casts = packed.casts.map(([tensor, op, to, bytes]) => ({ tensor, op: ops[op], to: strings[to], bytes }));
  for (const cast of casts) cast.op.casts.push(cast);
  return { ...packed, index, ops, casts, root: null };
}

function readSite(verdict, strings, because) {
  const [attribute, dtype, category, stage, reason] = verdict.map((each) => strings[each]);
  const causes = because.flatMap((each, index) => (index % 2 ? [] : [{ op: each, site: because[index + 1] }]));
  return { attribute, dtype, category, stage, reason, causes };
}

function shared(values) {
  return values.every((value) => value === values[0]) ? values[0] : "mixed";
}

const lowCount = (ops) => ops.filter((op) => op.precision !== "full").length;
const knownBytes = (casts) => casts.reduce((sum, cast) => sum + (cast.bytes || 0), 0);
const unknownCasts = (casts) => casts.filter((cast) => cast.bytes === null).length;
const direction = (graph, to) => (to === FULL ? `${graph.low} → ${FULL}` : `${FULL} → ${to}`);

// The kind of op at which the chain of causes of a site begins.
function rootKind(graph, op, site) {
  const seen = new Set();
  let here = { op, site };
  for (;;) {
    seen.add(here.site);
    const next = here.site.causes
      .map((cause) => ({ op: graph.ops[cause.op], site: graph.ops[cause.op].sites[cause.site] }))
      .find((cause) => !seen.has(cause.site));
    if (!next) return here.op.kind;
    here = next;
  }
}

// A reason without names and amounts, so that equal reasons can be counted; and whether a user can change it.
function headline(graph, op, site) {
  if (site.stage === "taint" && site.causes.length)
    return [`it follows a denied op (${rootKind(graph, op, site)})`, true];
  if (site.stage === "cut") return ["16 bits would move no less here, casts included", true];
  const ruled = site.category === "deny" || site.reason.startsWith("a rule of the policy");
  return [site.reason.replace(/`[^`]*`(?: and `[^`]*`)*/g, "…"), ruled || CHANGEABLE.includes(site.stage)];
}

// Why sites of these ops stay in float32, with the bytes that they move: what a user can change first.
function obstacles(graph, ops, most) {
  const found = new Map();
  for (const op of ops)
    for (const site of op.sites) {
      if (site.dtype !== FULL) continue;
      const [reason, changeable] = headline(graph, op, site);
      const entry = found.get(reason) || { bytes: 0, sites: 0, changeable: false };
      entry.bytes += op.bytes / op.sites.length;
      entry.sites += 1;
      entry.changeable = entry.changeable || changeable;
      found.set(reason, entry);
    }
  const ranked = [...found].sort(
    ([, a], [, b]) => b.changeable - a.changeable || b.bytes - a.bytes || b.sites - a.sites,
  );
  const top = ranked.slice(0, most).map(([reason, { bytes, sites }]) => [reason, bytes, sites]);
  return { top, rest: ranked.length - top.length };
}
