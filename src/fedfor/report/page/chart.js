// Lines with bands, in SVG: sharp in print, coloured by the page's style, read with mouse, finger and arrow keys.

function niceSteps(low, high, count, whole) {
  const rough = Math.max((high - low) / Math.max(1, count), whole ? 1 : 0);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step =
    [1, 2, 2.5, 5, 10]
      .map((s) => s * power)
      .find((s) => s >= rough * 0.999 && (!whole || Number.isInteger(s))) || 10 * power;
  const steps = [];
  for (let v = Math.ceil(low / step - 1e-9) * step; v <= high + step * 1e-9; v += step)
    steps.push(Math.abs(v) < step * 1e-9 ? 0 : v);
  return steps;
}
function logSteps(low, high, count) {
  const found = [];
  for (let p = Math.floor(Math.log10(low)); p <= Math.ceil(Math.log10(high)); p += 1)
    for (const s of [1, 2, 5]) {
      const v = s * 10 ** p;
      if (v >= low * 0.999 && v <= high * 1.001) found.push(v);
    }
  if (found.length > count + 3)
    return found.filter((v) => Math.abs(Math.log10(v) - Math.round(Math.log10(v))) < 1e-9);
  return found.length > 1 ? found : niceSteps(low, high, count);
}
function scale(values, log, from, to, count, { pad, whole } = {}) {
  const usable = values.filter((v) => Number.isFinite(v) && (!log || v > 0));
  let low = least(usable),
    high = most(usable);
  if (!usable.length) {
    low = log ? 1 : 0;
    high = log ? 10 : 1;
  }
  if (low === high) {
    low = log ? low / 2 : low - (Math.abs(low) || 1) / 2;
    high = log ? high * 2 : high + (Math.abs(high) || 1) / 2;
  }
  if (pad && !log) {
    const more = (high - low) * 0.04;
    high += more;
    low = low >= 0 && low - more < 0 ? 0 : low - more;
  }
  const put = log ? (v) => Math.log10(v) : (v) => v;
  const a = put(low),
    b = put(high);
  const at = (v) => from + ((put(v) - a) / (b - a)) * (to - from);
  at.steps = log ? logSteps(low, high, count) : niceSteps(low, high, count, whole);
  at.has = (v) => Number.isFinite(v) && (!log || v > 0);
  return at;
}

// spec: {series: [{method, name, points: [{x, y, d, n}]}], xLabel, yLabel, logX, logY, height, marks, lines, verticals, format, small}
const lineChart = (spec) => sized((width, holder) => drawLines(spec, width, holder));

function drawLines(spec, width, holder) {
  const height = spec.height || Math.min(420, Math.max(240, width * 0.45));
  const room = {
    left: spec.small ? 38 : 56,
    right: spec.small ? 8 : 14,
    top: 8,
    bottom: spec.small ? 22 : 42,
  };
  const shown = spec.series.filter((s) => s.points.length);
  const points = shown.flatMap((s) => s.points);
  const ys = points
    .flatMap((p) => (p.d ? [p.y - p.d, p.y + p.d] : [p.y]))
    .concat(
      (spec.marks || []).map((m) => m.y),
      spec.lines || [],
      spec.range || [],
    );
  const x = scale(
    points.map((p) => p.x),
    spec.logX,
    room.left,
    width - room.right,
    Math.max(3, Math.floor(width / 90)),
    { whole: spec.xLabel === "round" },
  );
  const y = scale(ys, spec.logY, height - room.bottom, room.top, spec.small ? 4 : 5, { pad: !spec.range });
  const root = svg("svg", {
    viewBox: `0 0 ${width} ${height}`,
    role: "img",
    tabindex: "0",
    "aria-label": `${spec.yLabel} against ${spec.xLabel}: ${shown
      .map((s) => `${s.name}, last ${figure(s.points[s.points.length - 1].y)}`)
      .join("; ")
      .slice(0, 1000)}`,
  });
  for (const v of y.steps) {
    root.append(svg("line", { class: "grid", x1: room.left, x2: width - room.right, y1: y(v), y2: y(v) }));
    root.append(svg("text", { x: room.left - 6, y: y(v) + 4, "text-anchor": "end" }, figure(v)));
  }
  for (const v of x.steps) {
    root.append(
      svg("line", {
        class: "axis",
        x1: x(v),
        x2: x(v),
        y1: height - room.bottom,
        y2: height - room.bottom + 4,
      }),
    );
    root.append(svg("text", { x: x(v), y: height - room.bottom + 17, "text-anchor": "middle" }, figure(v)));
  }
  root.append(
    svg("line", {
      class: "axis",
      x1: room.left,
      x2: width - room.right,
      y1: height - room.bottom,
      y2: height - room.bottom,
    }),
  );
  if (!spec.small) {
    root.append(
      svg(
        "text",
        { x: (room.left + width - room.right) / 2, y: height - 6, "text-anchor": "middle" },
        spec.xLabel,
      ),
    );
    const middle = (room.top + height - room.bottom) / 2;
    root.append(
      svg(
        "text",
        { x: 13, y: middle, transform: `rotate(-90 13 ${middle})`, "text-anchor": "middle" },
        spec.yLabel,
      ),
    );
  }
  for (const v of spec.verticals || [])
    if (x.has(v))
      root.append(
        svg("line", { class: "shift", x1: x(v), x2: x(v), y1: room.top, y2: height - room.bottom }),
      );
  for (const v of spec.lines || [])
    if (y.has(v))
      root.append(
        svg("line", { class: "target", x1: room.left, x2: width - room.right, y1: y(v), y2: y(v) }),
      );
  const inside = (p) => x.has(p.x) && y.has(p.y);
  const path = (list, f) =>
    list.map((p, i) => `${i ? "L" : "M"}${x(p.x).toFixed(1)} ${f(p).toFixed(1)}`).join("");
  const floor = height - room.bottom;
  for (const s of shown) {
    const list = s.points.filter(inside);
    if (list.some((p) => p.d > 0)) {
      const under = (p) => (y.has(p.y - p.d) ? Math.min(floor, y(p.y - p.d)) : floor);
      const band = path(list, (p) => y(p.y + p.d)) + path([...list].reverse(), under).replace("M", "L") + "Z";
      root.append(svg("path", { class: "band", d: band, fill: colour(s.method), "fill-opacity": 0.13 }));
    }
  }
  for (const s of shown) {
    const list = s.points.filter(inside);
    root.append(
      svg("path", {
        class: "curve",
        "data-method": s.method,
        d: path(list, (p) => y(p.y)),
        stroke: colour(s.method),
        "stroke-dasharray": dash(s.method),
        "stroke-width": spec.small ? 1.5 : 2,
      }),
    );
    const every = Math.max(1, Math.round(list.length / (spec.small ? 2 : 7)));
    list.forEach((p, i) => {
      if (i === list.length - 1 || (i + 1 + s.method) % every === 0)
        root.append(mark(s.method, x(p.x), y(p.y)));
    });
  }
  for (const m of spec.marks || []) {
    if (!inside(m)) continue;
    const cx = x(m.x),
      cy = y(m.y);
    root.append(
      svg(
        "path",
        {
          d: `M${cx - 5} ${cy - 5}L${cx + 5} ${cy + 5}M${cx - 5} ${cy + 5}L${cx + 5} ${cy - 5}`,
          stroke: colour(m.method),
          "stroke-width": 2.5,
        },
        svg("title", {}, m.text),
      ),
    );
  }
  readable(root, spec, shown, x, y, width, height, room, holder);
  return root;
}

// A line across at the nearest place, and beside it what each method has there.
function readable(root, spec, shown, x, y, width, height, room, holder) {
  const places = [...new Set(shown.flatMap((s) => s.points.map((p) => p.x)))]
    .filter(x.has)
    .sort((a, b) => a - b);
  if (!places.length) return;
  const cross = svg("line", { class: "cross", y1: room.top, y2: height - room.bottom, visibility: "hidden" });
  root.append(cross);
  const tip = el("div", { class: "tip", hidden: true });
  holder.append(tip);
  let here = -1;
  const near = (list, v) =>
    list.reduce((best, p) => (Math.abs(p.x - v) < Math.abs(best.x - v) ? p : best), list[0]);
  const show = (place) => {
    here = Math.max(0, Math.min(places.length - 1, place));
    const v = places[here],
      gap = places.length > 1 ? (places[places.length - 1] - places[0]) / (places.length - 1) : 1;
    const rows = shown
      .map((s) => ({ s, p: near(s.points, v) }))
      .filter(({ p }) => Math.abs(p.x - v) <= gap * 1.01)
      .sort((a, b) => b.p.y - a.p.y);
    cross.setAttribute("x1", x(v));
    cross.setAttribute("x2", x(v));
    cross.setAttribute("visibility", "visible");
    tip.replaceChildren(
      el("b", {}, `${spec.xLabel}: ${figure(v)}`),
      ...rows
        .slice(0, 14)
        .map(({ s, p }) =>
          el(
            "div",
            {},
            sample(s.method),
            el("span", { class: "name" }, s.name),
            el(
              "span",
              { class: "figure" },
              `${figure(p.y)}${p.d ? ` ± ${figure(p.d)}` : ""}${p.n > 1 ? `, ${p.n} runs` : ""}${p.x === v ? "" : ` (at ${figure(p.x)})`}`,
            ),
          ),
        ),
      ...(rows.length > 14 ? [el("div", {}, `and ${rows.length - 14} more`)] : []),
    );
    tip.hidden = false;
    const shrink = holder.clientWidth / width,
      left = x(v) * shrink;
    tip.style.top = `${room.top}px`;
    const beside = left < holder.clientWidth / 2 ? left + 12 : left - 12 - tip.offsetWidth;
    tip.style.left = `${Math.max(0, Math.min(beside, holder.clientWidth - tip.offsetWidth))}px`;
  };
  const hide = () => {
    tip.hidden = true;
    cross.setAttribute("visibility", "hidden");
  };
  const move = (event) => {
    const box = root.getBoundingClientRect(),
      at = ((event.clientX - box.left) / box.width) * width;
    let best = 0;
    places.forEach((v, i) => {
      if (Math.abs(x(v) - at) < Math.abs(x(places[best]) - at)) best = i;
    });
    show(best);
  };
  root.addEventListener("pointermove", move);
  root.addEventListener("pointerdown", move);
  root.addEventListener("pointerleave", hide);
  root.addEventListener("blur", hide);
  root.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1, PageDown: -10, PageUp: 10, Home: -1e9, End: 1e9 }[event.key];
    if (step) {
      event.preventDefault();
      show(
        here >= 0 ? here + step : event.key === "End" || event.key === "ArrowLeft" ? places.length - 1 : 0,
      );
    }
    if (event.key === "Escape") hide();
  });
}
