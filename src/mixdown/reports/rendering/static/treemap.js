// The arithmetic of the map: scopes as boxes in boxes, each as large as the bytes or the arithmetic in it.

// Boxes for weights inside a rectangle, kept as square as can be. Weights come largest first.
function squarify(weights, rect) {
  const boxes = [];
  let { x, y, w, h } = rect;
  let left = weights.reduce((sum, weight) => sum + weight, 0);
  let start = 0;
  while (start < weights.length) {
    const side = Math.min(w, h);
    const scale = left > 0 ? (w * h) / left : 0;
    const end = rowEnd(weights, start, side, scale);
    const sum = weights.slice(start, end).reduce((total, weight) => total + weight, 0);
    const depth = side > 0 ? (sum * scale) / side : 0;
    let along = 0;
    for (let index = start; index < end; index += 1) {
      const length = sum > 0 ? (side * weights[index]) / sum : 0;
      boxes.push(w >= h ? { x, y: y + along, w: depth, h: length } : { x: x + along, y, w: length, h: depth });
      along += length;
    }
    if (w >= h) {
      x += depth;
      w = Math.max(0, w - depth);
    } else {
      y += depth;
      h = Math.max(0, h - depth);
    }
    left -= sum;
    start = end;
  }
  return boxes;
}

// How far the next row of boxes goes: as long as its worst box does not get slimmer.
function rowEnd(weights, start, side, scale) {
  const largest = weights[start] * scale;
  let sum = 0;
  let worst = Infinity;
  for (let end = start; end < weights.length; end += 1) {
    const smallest = weights[end] * scale;
    sum += smallest;
    const square = (sum * sum) / (side * side || 1);
    const ratio = Math.max(largest / square, square / smallest);
    if (ratio > worst) return end;
    worst = ratio;
  }
  return weights.length;
}

// What stands in a scope: its own op, if it is one, and its children; largest first. What has no weight is left out.
function partsInside(scope, area) {
  const { op } = scope;
  const own = op && scope.children.length ? [{ ...scope, children: [], ops: 1, bytes: op.bytes, flops: op.flops }] : [];
  return [...own, ...scope.children].filter((part) => part[area] > 0).sort((a, b) => b[area] - a[area]);
}

// All boxes of a scope: `frames` are scopes with room for what is in them, `cells` are what gets a colour.
function layout(scope, rect, area) {
  const frames = [];
  const cells = [];
  const visit = (here, box, depth, top) => {
    const closed = here.closed && depth > 0;
    if (!here.children.length || closed || box.w < 3 || box.h < 3) {
      cells.push({ ...box, scope: here, top });
      return;
    }
    const head =
      depth === 0 ? 0 : depth === 1 && box.h > 34 && box.w > 44 ? 20 : depth === 2 && box.h > 60 && box.w > 70 ? 15 : 0;
    const pad = depth === 0 ? 0 : depth === 1 ? 3 : box.w > 24 && box.h > 24 ? 2 : 0.5;
    const inner = {
      x: box.x + pad,
      y: box.y + Math.max(pad, head),
      w: box.w - 2 * pad,
      h: box.h - pad - Math.max(pad, head),
    };
    if (depth > 0) frames.push({ ...box, scope: here, depth, head });
    const parts = partsInside(here, area);
    squarify(
      parts.map((part) => part[area]),
      inner,
    ).forEach((next, index) => {
      visit(parts[index], shrink(next, depth), depth + 1, top || { scope: parts[index], box: next });
    });
  };
  visit(scope, rect, 0, null);
  return { frames, cells };
}

function shrink(box, depth) {
  const gap = depth === 0 ? 4 : box.w > 8 && box.h > 8 ? 1 : 0.4;
  return { x: box.x, y: box.y, w: Math.max(0.5, box.w - gap), h: Math.max(0.5, box.h - gap) };
}
