// The report out of its compact JSON (page.py writes it): graphs of ops that know their neighbours and casts.

const FULL = "float32";
const PRECISIONS = ["low", "mixed", "full"];
const CATEGORIES = ["allow", "infer", "clear", "deny", "barrier", "mixed"];

function readReport(text) {
  const data = JSON.parse(text);
  data.graphs = data.graphs.map(readGraph);
  return data;
}

function readGraph(packed, index) {
  const { strings, verdicts } = packed;
  const ops = packed.ops.map(([name, kind, func, source, inputs, sites], id) => {
    const read = sites.map(([verdict, ...because]) => readSite(verdicts[verdict], strings, because));
    return {
      id,
      name,
      inputs,
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

// A reason without the names in it, so that equal reasons can be counted.
const headline = (reason) => reason.replace(/`[^`]*`(?: and `[^`]*`)*/g, "…");

// Why sites of these ops stay in float32, most frequent first.
function obstacles(ops, most) {
  const sites = ops.flatMap((op) => op.sites).filter((site) => site.dtype === FULL);
  return ranking(
    sites.map((site) => headline(site.reason)),
    most,
  );
}
