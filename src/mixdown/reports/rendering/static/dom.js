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

// The few most frequent of many, as [label, how often].
function ranking(labels, most) {
  const times = new Map();
  for (const label of labels) times.set(label, (times.get(label) || 0) + 1);
  const ranked = [...times].sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1));
  return { top: ranked.slice(0, most), rest: ranked.length - Math.min(most, ranked.length) };
}

// A list of bars, as long as the numbers say.
function bars({ top, rest }, noun, shown = (times) => count(times)) {
  const longest = Math.max(1, ...top.map(([, times]) => times));
  const rows = top.map(([label, times, sites]) => {
    const bar = el("span", { class: "bar-fill" });
    bar.style.width = `${(100 * times) / longest}%`;
    return el(
      "li",
      {},
      el("span", { class: "bar-label" }, label),
      el("span", { class: "bar-count" }, shown(times, sites)),
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
