// Elements are made from text alone, never from markup: whatever a name holds, it shows as text.
const SVG = "http://www.w3.org/2000/svg";

function fill(node, attributes, children) {
  for (const [key, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else node.setAttribute(key, value === true ? "" : value);
  }
  for (const child of children.flat(Infinity)) {
    if (child !== null && child !== undefined && child !== false) node.append(child);
  }
  return node;
}
const el = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);
const svg = (tag, attributes, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);

// Colours are told apart with any colour vision; dashes and marks, without any.
const DASHES = ["", "7 4", "8 3 2 3", "2 3", "12 4", "6 2 2 2 2 2", "3 3", "10 3 3 3"];
const COLOURS = 8;
const dash = (m) => DASHES[(m + Math.floor(m / COLOURS)) % DASHES.length];
const colour = (m) => `var(--m${m % COLOURS})`;
const MARKS = [
  "M-3.5 0a3.5 3.5 0 1 0 7 0a3.5 3.5 0 1 0-7 0Z",
  "M-3-3H3V3H-3Z",
  "M0-4L4 3H-4Z",
  "M0-4.5L4.5 0L0 4.5L-4.5 0Z",
  "M-4-3H4L0 4Z",
  "M-1.2-4h2.4v2.8h2.8v2.4h-2.8v2.8h-2.4v-2.8h-2.8v-2.4h2.8Z",
  "M-4 0L0-2L4 0L0 2Z",
  "M-2-4H2V4H-2Z",
];
const mark = (m, x, y) =>
  svg("path", {
    d: MARKS[(m + Math.floor(m / COLOURS)) % MARKS.length],
    transform: `translate(${x.toFixed(1)} ${y.toFixed(1)})`,
    fill: colour(m),
  });
const sample = (m) =>
  svg(
    "svg",
    { width: 34, height: 12, viewBox: "0 0 34 12", "aria-hidden": "true" },
    svg("line", {
      x1: 1,
      x2: 33,
      y1: 6,
      y2: 6,
      stroke: colour(m),
      "stroke-width": 2.2,
      "stroke-dasharray": dash(m),
    }),
    mark(m, 17, 6),
  );

const digits = (value, most) => value.toLocaleString("en", { maximumFractionDigits: most });
function figure(value) {
  if (value === null || value === undefined || !Number.isFinite(value)) return "-";
  const size = Math.abs(value);
  return size !== 0 && (size < 0.001 || size >= 1e7)
    ? value.toExponential(2)
    : digits(value, size >= 100 ? 1 : size >= 1 ? 2 : 4);
}
function bytes(value) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  let place = 0;
  while (value >= 1024 && place < units.length - 1) {
    value /= 1024;
    place += 1;
  }
  return `${digits(value, value >= 100 || place === 0 ? 0 : 2)} ${units[place]}`;
}
function duration(seconds) {
  if (seconds < 90) return `${digits(seconds, seconds < 10 ? 1 : 0)} s`;
  if (seconds < 5400) return `${digits(seconds / 60, 0)} min`;
  return seconds < 172800 ? `${digits(seconds / 3600, 1)} h` : `${digits(seconds / 86400, 1)} days`;
}
// Not Math.min(...values), which has no room for very many.
const least = (values) => values.reduce((a, b) => Math.min(a, b), Infinity);
const most = (values) => values.reduce((a, b) => Math.max(a, b), -Infinity);
const mean = (values) => values.reduce((a, b) => a + b, 0) / values.length;
function deviation(values) {
  if (values.length < 2) return 0;
  const middle = mean(values);
  return Math.sqrt(values.reduce((a, v) => a + (v - middle) ** 2, 0) / (values.length - 1));
}
const option = (value, text, chosen) => el("option", { value, selected: value === chosen }, text);
function choice(text, name, options, state, redraw) {
  const change = (event) => {
    state[name] = event.target.value;
    redraw();
  };
  return el(
    "label",
    {},
    `${text} `,
    el(
      "select",
      { "data-control": name, onchange: change },
      options.map(([v, t]) => option(v, t, state[name])),
    ),
  );
}
function tick(text, name, state, redraw) {
  const change = (event) => {
    state[name] = event.target.checked;
    redraw();
  };
  return el(
    "label",
    {},
    el("input", { type: "checkbox", "data-control": name, checked: state[name], onchange: change }),
    ` ${text}`,
  );
}

// Drawn for the width that there is, and again when that changes.
function sized(draw) {
  const holder = el("div", { class: "chart" });
  const fit = () => {
    const width = Math.max(240, holder.clientWidth || 700);
    if (holder.dataset.width === String(width)) return;
    holder.dataset.width = width;
    holder.replaceChildren();
    holder.prepend(draw(width, holder));
  };
  new ResizeObserver(fit).observe(holder);
  return holder;
}
const titled = (node, text) => {
  node.append(svg("title", {}, text));
  return node;
};
// A long name breaks at its commas first.
const breakable = (name) => name.split(/(?<=,)/).flatMap((part, i) => (i ? [el("wbr"), part] : [part]));
const cut = (name, most) => (name.length > most ? `${name.slice(0, most - 1)}…` : name);
const called = (name) => el("span", { class: "clamp", title: name }, breakable(name));

// A table of words; without headings where there are none.
function words(headings, rows) {
  const cells = (tag, values) =>
    el(
      "tr",
      {},
      values.map((v) => el(tag, {}, v instanceof Node ? v : String(v))),
    );
  return el(
    "div",
    { class: "wide" },
    el(
      "table",
      { class: "words" },
      headings.length ? el("thead", {}, cells("th", headings)) : null,
      el(
        "tbody",
        {},
        rows.map((row) => cells("td", row)),
      ),
    ),
  );
}
