// The loss scale over the steps, drawn as steps on a logarithmic axis, with every skipped step marked.

const PLOT = { height: 280, left: 72, right: 20, top: 20, bottom: 36 };

function scalerView(scaler) {
  const plot = el("div", { class: "plot" });
  const draw = () => {
    if (plot.clientWidth) plot.replaceChildren(scalePlot(scaler, plot.clientWidth));
  };
  new ResizeObserver(draw).observe(plot);
  return el(
    "section",
    { class: "card" },
    el("h2", {}, scaler.name),
    el(
      "p",
      {},
      `Loss scale ${shownScale(scaler.loss_scale)} after ${counted(scaler.steps, "step")}, of which `,
      `${count(scaler.skipped_steps)} skipped (${percent(scaler.skipped_steps, scaler.steps)}).`,
    ),
    scaler.timeline.length ? plot : el("p", { class: "muted" }, "No timeline was recorded."),
    skipTable(scaler),
  );
}

const shownScale = (scale) => (scale === null ? "not finite" : count(scale));

function skipTable(scaler) {
  if (!scaler.skips.length)
    return el(
      "p",
      { class: "muted" },
      scaler.skipped_steps ? "The skipped steps were not recorded one by one." : "No step was skipped.",
    );
  const missing = scaler.skipped_steps - scaler.skips.length;
  return el(
    "div",
    {},
    el("h3", {}, "Skipped steps"),
    missing > 0
      ? el(
          "p",
          { class: "muted" },
          `${count(scaler.skips.length)} of ${count(scaler.skipped_steps)} were recorded one by one.`,
        )
      : null,
    table(
      "skips",
      "Skipped steps",
      [
        { title: "Step", key: (skip) => skip.step, cell: (skip) => count(skip.step), numeric: true },
        {
          title: "Loss scale then",
          key: (skip) => scaleAt(scaler, skip.step),
          cell: (skip) => {
            const scale = scaleAt(scaler, skip.step);
            return scale === null ? "unknown" : count(scale);
          },
          numeric: true,
        },
        { title: "Variables whose gradient was not finite", cell: (skip) => offenders(skip), wide: true },
      ],
      scaler.skips,
      { column: 0, falling: false },
    ),
  );
}

function offenders(skip) {
  if (!skip.variables.length) return el("span", { class: "muted" }, "not recorded");
  return el(
    "ul",
    { class: "plain" },
    skip.variables.map(([name, held]) =>
      el("li", {}, el("span", { class: "name" }, name), " ", el("span", { class: "badge fill-deny" }, held)),
    ),
  );
}

function scaleAt(scaler, step) {
  let scale = null;
  for (const [from, value] of scaler.timeline) if (from <= step) scale = value;
  return scale;
}

function scalePlot(scaler, width) {
  const known = scaler.timeline.filter(([, scale]) => scale !== null && scale > 0);
  const last = Math.max(1, scaler.steps, ...scaler.skips.map((skip) => skip.step), ...known.map(([step]) => step));
  const powers = known.map(([, scale]) => Math.log2(scale));
  const low = Math.floor(Math.min(...powers, Infinity) === Infinity ? 0 : Math.min(...powers)) - 1;
  const high = Math.ceil(powers.length ? Math.max(...powers) : 1) + 1;
  const x = (step) => PLOT.left + ((width - PLOT.left - PLOT.right) * step) / last;
  const y = (power) => PLOT.top + ((PLOT.height - PLOT.top - PLOT.bottom) * (high - power)) / (high - low);
  const view = svg("svg", {
    class: "scale-plot",
    width,
    height: PLOT.height,
    viewBox: `0 0 ${width} ${PLOT.height}`,
    role: "img",
    "aria-label": `Scale of ${scaler.name}, ${count(scaler.skipped_steps)} of ${count(scaler.steps)} steps skipped`,
  });
  drawAxes(view, { x, y, last, low, high, width });
  view.append(
    svg("path", {
      class: "scale-area",
      d: `${stairs(known, last, x, y)}V${PLOT.height - PLOT.bottom}H${x(known.length ? known[0][0] : 0)}Z`,
    }),
    svg("path", { class: "scale-line", d: stairs(known, last, x, y) }),
  );
  for (const skip of scaler.skips) view.append(skipMark(scaler, skip, x, y, low));
  return view;
}

function stairs(known, last, x, y) {
  const pieces = known.map(
    ([step, scale], index) => `${index ? `H${x(step)}V` : `M${x(step)} `}${y(Math.log2(scale))}`,
  );
  return known.length ? `${pieces.join("")}H${x(last)}` : "M0 0";
}

function drawAxes(view, { x, y, last, low, high, width }) {
  const every = Math.max(1, Math.ceil((high - low) / 6));
  for (let power = low; power <= high; power += every) {
    view.append(
      svg("line", { class: "grid", x1: PLOT.left, x2: width - PLOT.right, y1: y(power), y2: y(power) }),
      svg(
        "text",
        { class: "tick", x: PLOT.left - 8, y: y(power) + 4, "text-anchor": "end" },
        power >= 0 && power < 20 ? count(2 ** power) : `2^${power}`,
      ),
    );
  }
  const stride = niceStride(last, Math.max(2, Math.floor(width / 110)));
  for (let step = 0; step <= last; step += stride)
    view.append(svg("text", { class: "tick", x: x(step), y: PLOT.height - 14, "text-anchor": "middle" }, count(step)));
}

function niceStride(last, most) {
  const rough = Math.max(1, last / most);
  const ten = 10 ** Math.floor(Math.log10(rough));
  return [1, 2, 5, 10].map((each) => each * ten).find((each) => each >= rough);
}

function skipMark(scaler, skip, x, y, low) {
  const scale = scaleAt(scaler, skip.step);
  const culprits = skip.variables.map(([name, held]) => `${name} (${held})`).join(", ");
  const [at, top] = [x(skip.step), scale ? y(Math.log2(scale)) : y(low)];
  return svg(
    "g",
    { class: "skip", "data-step": skip.step },
    svg("title", {}, `step ${skip.step} skipped: ${culprits || "variables not recorded"}`),
    svg("line", { x1: at, x2: at, y1: top, y2: PLOT.height - PLOT.bottom }),
    svg("path", { d: `M${at} ${top}m-5 -5l10 10m0 -10l-10 10` }),
  );
}
