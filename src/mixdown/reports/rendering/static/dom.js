// Elements and numbers. Text reaches the page through text nodes only, so no name can become markup.

const SVG = "http://www.w3.org/2000/svg";

const byId = (id) => document.getElementById(id);

function fill(node, properties, children) {
  for (const [name, value] of Object.entries(properties || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return node;
}

const el = (tag, properties, ...children) => fill(document.createElement(tag), properties, children);
const svg = (tag, properties, ...children) => fill(document.createElementNS(SVG, tag), properties, children);

const number = new Intl.NumberFormat("en-US");
const count = (value) => number.format(value);
const counted = (value, one, many) => `${count(value)} ${value === 1 ? one : many || one + "s"}`;

function percent(part, whole) {
  if (!whole || !part) return "0 %";
  const share = (100 * part) / whole;
  return share < 0.1 ? "< 0.1 %" : `${share < 10 ? share.toFixed(1) : Math.round(share)} %`;
}

function size(bytes) {
  if (bytes === null) return "unknown";
  const units = ["B", "KB", "MB", "GB", "TB"];
  let value = bytes;
  let unit = 0;
  while (value >= 1000 && unit < units.length - 1) {
    value /= 1000;
    unit += 1;
  }
  return `${unit && value < 100 ? value.toFixed(1) : Math.round(value)} ${units[unit]}`;
}

// Multiplications and additions, for people.
function flops(count) {
  const units = ["FLOP", "kFLOP", "MFLOP", "GFLOP", "TFLOP", "PFLOP"];
  const unit = Math.min(units.length - 1, Math.max(0, Math.floor(Math.log10(count || 1) / 3)));
  return `${Number((count / 1000 ** unit).toPrecision(3))} ${units[unit]}`;
}

// A name that may wrap where it has a slash.
const wrapping = (name) => name.split(/(?<=\/)/).flatMap((piece) => [piece, el("wbr")]);

// A reason with the names in it set as names: it writes them between backticks.
const worded = (reason) =>
  reason.split("`").map((piece, index) => (index % 2 ? el("code", { class: "name" }, wrapping(piece)) : piece));

// The named colour of the style sheet, for the canvas.
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

// The heaviest kinds of these ops, as [kind, bytes, ops].
function ranking(ops, most) {
  const found = new Map();
  for (const op of ops) {
    const [bytes, times] = found.get(op.kind) || [0, 0];
    found.set(op.kind, [bytes + op.bytes, times + 1]);
  }
  const rows = [...found].map(([kind, [bytes, times]]) => [kind, bytes, times]);
  rows.sort((a, b) => b[1] - a[1] || b[2] - a[2] || (a[0] < b[0] ? -1 : 1));
  return { top: rows.slice(0, most), rest: rows.length - Math.min(most, rows.length) };
}

// A list of bars, as long as the numbers say.
function bars({ top, rest }, noun) {
  const longest = Math.max(1, ...top.map(([, bytes]) => bytes));
  const rows = top.map(([label, bytes, times]) => {
    const bar = el("span", { class: "bar-fill" });
    bar.style.width = `${(100 * bytes) / longest}%`;
    return el(
      "li",
      {},
      el("span", { class: "bar-label" }, label),
      el("span", { class: "bar-count" }, `${size(Math.round(bytes))}, ${count(times)}`),
      bar,
    );
  });
  return el(
    "ul",
    { class: "bars" },
    rows,
    rest ? el("li", { class: "muted" }, `and ${count(rest)} more ${noun}${rest === 1 ? "" : "s"}`) : null,
  );
}
