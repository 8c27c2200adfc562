// The parts of the page. Each takes the data and the state (what is hidden, which axes) and gives an element.

const UNIT = 2 ** 20;
const roundsOf = (run) => (Array.isArray(run.rounds) ? run.rounds : Array.from({ length: run.rounds }, (_, i) => i + 1));
const runsOf = (data, state, method) => data.runs.filter((r) => r.point === state.point && r.method === method);
const methodsOf = (data, state) => [...new Set(data.runs.filter((r) => r.point === state.point).map((r) => r.method))].sort((a, b) => a - b);
const visible = (data, state) => methodsOf(data, state).filter((m) => !state.hidden.has(data.methods[m]));
const totals = (values) => { let sum = 0; return values.map((v) => (sum += v || 0)); };
const bestSoFar = (values) => { let best = null; return values.map((v) => (v === null ? null : (best = best === null ? v : Math.max(best, v)))); };

const X = {
  round: ["round", (run) => roundsOf(run)],
  device: ["MiB sent, down and up (cross-device)", (run) => sent(run, "down_cross_device")],
  silo: ["MiB sent, down and up (cross-silo)", (run) => sent(run, "down_cross_silo")],
  seconds: ["seconds of work", (run) => run.series.seconds && totals(run.series.seconds)],
};
function sent(run, down) {
  const { [down]: given, up } = run.series;
  return given && up ? totals(given.map((v, i) => (v || 0) + (up[i] || 0))).map((v) => v / UNIT) : null;
}
const Y = {
  accuracy: ["test accuracy, %", (run) => run.series.accuracy],
  best: ["best test accuracy so far, %", (run) => run.series.accuracy && bestSoFar(run.series.accuracy)],
  loss: ["test loss", (run) => run.series.loss],
  train_loss: ["training loss", (run) => run.series.train_loss],
};
const simple = (key, name) => [name, (run) => run.series[key]];

// At each round, over the runs that got as far: mean and deviation; x is their mean too.
function band(runs, xOf, yOf) {
  const at = new Map();
  for (const run of runs) {
    const xs = xOf(run), ys = yOf(run);
    if (!xs || !ys) continue;
    roundsOf(run).forEach((t, i) => {
      if (ys[i] === null || ys[i] === undefined) return;
      if (!at.has(t)) at.set(t, { xs: [], ys: [] });
      at.get(t).xs.push(xs[i]); at.get(t).ys.push(ys[i]);
    });
  }
  return [...at.keys()].sort((a, b) => a - b).map((t) => { const { xs, ys } = at.get(t); return { x: mean(xs), y: mean(ys), d: deviation(ys), n: ys.length }; });
}
function bands(data, state, x, y) {
  return visible(data, state).map((m) => ({ method: m, name: data.methods[m], points: band(runsOf(data, state, m), x, y) }));
}
function lacking(data, part) {
  const words = data.missing[part] || [];
  return words.length ? el("div", { class: "missing" }, words.map((w) => el("p", {}, w))) : null;
}
const section = (id, title, ...children) => el("section", { id }, el("h2", {}, title), children);

function curves(data, state, redraw) {
  const point = data.points[state.point], [xLabel, xOf] = X[state.x], [yLabel, yOf] = Y[state.y];
  const has = (f) => data.runs.some((r) => f(r));
  const isAccuracy = state.y === "accuracy" || state.y === "best";
  const isRound = state.x === "round";
  const marks = isRound && isAccuracy ? point.paper.filter((p) => !state.hidden.has(data.methods[p.method])).map((p) => ({ x: p.round, y: p.accuracy, method: p.method, text: `paper: ${data.methods[p.method]}, ${p.accuracy} % by round ${p.round}` })) : [];
  return section("curves", "Learning curves",
    el("p", { class: "soft" }, "Mean over seeds; the band is one deviation. ", marks.length ? "Crosses: the paper's numbers, best to that round. " : "", point.shifts.length && isRound ? "Grey lines: a concept shifted. " : "", "Point at the picture, or move through it with the arrow keys."),
    el("div", { class: "controls" },
      choice("show", "y", Object.entries(Y).filter(([, [, f]]) => has(f)).map(([k, [t]]) => [k, t]), state, redraw),
      choice("by", "x", Object.entries(X).filter(([, [, f]]) => has(f)).map(([k, [t]]) => [k, t]), state, redraw),
      tick("log x", "logX", state, redraw), tick("log y", "logY", state, redraw)),
    lineChart({ series: bands(data, state, xOf, yOf), xLabel, yLabel, logX: state.logX, logY: state.logY, marks, lines: isAccuracy && point.target ? [point.target] : [], verticals: isRound ? point.shifts : [] }),
    lacking(data, "curves"), lacking(data, "bytes"));
}

function comparison(data, state, redraw) {
  const { columns, rows } = data.points[state.point].table;
  const order = rows.filter((r) => !state.hidden.has(data.methods[r.method]));
  if (state.sort !== null && state.sort < columns.length + 1) {
    const key = (r) => (state.sort === 0 ? data.methods[r.method].toLowerCase() : r.cells[state.sort - 1].sort);
    order.sort((a, b) => {
      const [u, v] = [key(a), key(b)];
      if (u === null || v === null) return (u === null) - (v === null);
      return (u < v ? -1 : u > v ? 1 : 0) * (state.down ? -1 : 1);
    });
  }
  const press = (i) => () => { state.down = state.sort === i ? !state.down : i > 0; state.sort = i; redraw(); };
  const head = (title, i) => el("th", { scope: "col", "aria-sort": state.sort === i ? (state.down ? "descending" : "ascending") : "none" }, el("button", { type: "button", onclick: press(i) }, title));
  const cell = (c) => el("td", { class: c.winner ? "winner" : null }, c.winner ? `★ ${c.text}` : c.text, c.paper ? el("span", { class: "paper" }, `paper ${c.paper}${c.apart ? `, ${c.apart} dev.` : ""}`) : null);
  const some = rows.some((r) => r.cells.some((c) => c.paper));
  return section("table", "Comparison",
    el("p", { class: "soft" }, "Mean (deviation) over seeds; ★ the best of its column, ties as printed; MiB: all rounds and clients together. ", some ? "dev.: how far from the paper's number, in joint deviations. " : "", "Press a heading to sort."),
    el("div", { class: "wide" }, el("table", {}, el("thead", {}, el("tr", {}, head("method", 0), columns.map((c, i) => head(c.title, i + 1)))),
      el("tbody", {}, order.map((r) => el("tr", { "data-method": r.method }, el("td", {}, el("span", { class: "clamp", title: data.methods[r.method] }, data.methods[r.method]), r.note ? el("span", { class: "note" }, r.note) : null), r.cells.map(cell)))))),
    data.notes.map((n) => el("p", {}, `Data: ${n}.`)));
}

// The first round of each run at or above the target; those that never got there stand apart, by name.
function target(data, state, redraw) {
  const point = data.points[state.point], goal = state.target ?? point.target ?? suggested(data, state);
  const holder = el("div", { class: "chart" });
  const rows = visible(data, state).map((m) => ({ m, runs: runsOf(data, state, m).map((run) => ({ run, at: reached(run, goal) })) }));
  const last = Math.max(1, point.rounds, ...data.runs.filter((r) => r.point === state.point).map((r) => Math.max(0, ...roundsOf(r))));
  const draw = () => {
    const width = Math.max(260, holder.clientWidth || 700);
    if (holder.dataset.width === String(width)) return;
    holder.dataset.width = width;
    const each = 46, edge = width - 96, x = (t) => 12 + ((t - 1) / Math.max(1, last - 1)) * (edge - 28);
    const root = svg("svg", { viewBox: `0 0 ${width} ${rows.length * each + 30}`, role: "img", "aria-label": `Rounds to ${goal} % accuracy` });
    niceSteps(1, last, Math.max(2, Math.floor(width / 100)), true).filter((t) => t >= 1).forEach((t) => {
      root.append(svg("line", { class: "grid", x1: x(t), x2: x(t), y1: 4, y2: rows.length * each }), svg("text", { x: x(t), y: rows.length * each + 16, "text-anchor": "middle" }, figure(t)));
    });
    root.append(svg("text", { x: edge + 8, y: rows.length * each + 16 }, "never"));
    rows.forEach(({ m, runs }, i) => {
      const top = i * each, name = data.methods[m], got = runs.filter((r) => r.at !== null), most = Math.floor(edge / 7);
      root.append(svg("text", { class: "label", x: 12, y: top + 15 }, name.length > most ? `${name.slice(0, most - 1)}…` : name));
      root.append(svg("line", { class: "axis", x1: x(1), x2: edge, y1: top + 30, y2: top + 30 }));
      got.forEach((r) => root.append(fillTitle(mark(m, x(r.at), top + 30), `${name}, seed ${r.run.seed}: round ${r.at}`)));
      if (got.length === runs.length && runs.length > 1) { const c = x(mean(got.map((r) => r.at))); root.append(svg("line", { x1: c, x2: c, y1: top + 22, y2: top + 38, stroke: colour(m), "stroke-width": 2 })); }
      if (got.length < runs.length) root.append(svg("text", { class: "label never", x: edge + 8, y: top + 34 }, `${runs.length - got.length} of ${runs.length}`));
    });
    holder.replaceChildren(root);
  };
  new ResizeObserver(draw).observe(holder);
  const change = (event) => { const v = Number(event.target.value); state.target = v > 0 && v <= 100 ? v : null; redraw(); };
  const short = (r) => (Number.isFinite(top(r.run)) ? `${digits(top(r.run), 1)} %` : "no accuracy") + (r.run.state === "done" ? "" : `, ${r.run.state}`);
  const absent = rows.map(({ m, runs }) => ({ m, runs: runs.filter((r) => r.at === null) })).filter(({ runs }) => runs.length);
  return section("target", "Rounds to target",
    el("div", { class: "controls" }, el("label", {}, "test accuracy, % ", el("input", { type: "number", min: "0.1", max: "100", step: "0.1", value: goal, "data-control": "target", onchange: change }))),
    el("p", { class: "soft" }, "One mark a seed, the bar is their mean, drawn only if every seed got there."),
    holder, absent.length ? el("details", { open: absent.length <= 8 }, el("summary", {}, `Never at ${goal} %, and the best that they had`),
      el("ul", {}, absent.map(({ m, runs }) => el("li", {}, el("span", { class: "clamp" }, data.methods[m]), runs.map((r) => `seed ${r.run.seed}: ${short(r)}`).join("; "))))) : null);
}
const fillTitle = (node, text) => { node.append(svg("title", {}, text)); return node; };
const top = (run) => Math.max(...(run.series.accuracy || []).filter((v) => v !== null));
function reached(run, goal) {
  const place = (run.series.accuracy || []).findIndex((v) => v !== null && v >= goal);
  return place < 0 ? null : roundsOf(run)[place];
}
function suggested(data, state) {
  const bests = data.runs.filter((r) => r.point === state.point && r.series.accuracy).map(top).filter(Number.isFinite).sort((a, b) => a - b);
  return bests.length ? Math.max(1, Math.floor(bests[Math.floor(bests.length / 2)] * 0.95)) : 50;
}

const MOST_PARTS = 30;
function parts(data, state) {
  const found = data.points[state.point].parts;
  if (!found) return section("parts", "Accuracy by domain or class", lacking(data, "parts"));
  const methods = visible(data, state).filter((m) => found.methods[m]);
  const last = (place) => mean(methods.map((m) => found.methods[m][place].values.at(-1) ?? 0));
  let places = found.names.map((_, i) => i);
  const many = places.length > MOST_PARTS;
  if (many && methods.length) places = places.sort((a, b) => last(a) - last(b)).slice(0, MOST_PARTS).sort((a, b) => a - b);
  const ys = methods.flatMap((m) => found.methods[m].flatMap((c) => c.values));
  const range = ys.length ? [Math.min(...[0, 100].filter((v) => v === 0), ...ys), Math.max(...ys)] : [0, 100];
  return section("parts", `Accuracy by ${found.kind}`,
    el("p", { class: "soft" }, `Test accuracy in % by round, the mean over seeds, one picture a ${found.kind}; all have the same axes.`, many ? ` The ${MOST_PARTS} lowest of ${found.names.length} are shown.` : ""),
    el("div", { class: "many" }, places.map((i) => el("div", {}, el("h3", { class: "clamp", title: found.names[i] }, found.names[i]),
      lineChart({ small: true, height: 130, range, xLabel: "round", yLabel: `${found.names[i]}, %`, series: methods.map((m) => ({ method: m, name: data.methods[m], points: found.methods[m][i].at.map((t, k) => ({ x: t, y: found.methods[m][i].values[k] })) })) })))),
    lacking(data, "parts"));
}

function traffic(data, state) {
  const of = data.points[state.point].totals, shown = visible(data, state);
  const kinds = [["down_cross_device", "down", 1], ["down_cross_silo", "down, silo", 0.65], ["up", "up", 0.4]];
  const most = Math.max(1, ...shown.flatMap((m) => kinds.map(([k]) => of[m][k] || 0)));
  const bar = (m, share, strength) => el("span", { class: "fill", style: `width:${(55 * share).toFixed(2)}%;background:${colour(m)};opacity:${strength}` });
  const kept = Math.max(1, ...shown.map((m) => of[m].state_bytes || 0));
  const row = (m, kind, value, share, strength) => el("div", { class: "row" }, el("span", { class: "kind" }, kind), bar(m, share, strength), el("span", { class: "figure" }, value === null || value === undefined ? "not told" : bytes(value)));
  const byRound = bands(data, state, X.round[1], (r) => r.series.state_bytes && r.series.state_bytes.map((v) => (v === null ? null : v / UNIT)));
  const grows = byRound.some((s) => s.points.some((p) => p.y > 0));
  return section("bytes", "Bytes, and state on clients",
    el("p", { class: "soft" }, "All rounds and clients together, the mean over seeds. Down to clients that have nothing (cross-device) and to clients that still have the last model (silo). Kept: what the method makes all clients remember after the last round."),
    el("div", { class: "bars" }, shown.map((m) => [el("div", { class: "name clamp", title: data.methods[m] }, data.methods[m]), el("div", {},
      kinds.map(([k, name, strength]) => row(m, name, of[m][k], (of[m][k] || 0) / most, strength)), row(m, "kept", of[m].state_bytes, (of[m].state_bytes || 0) / kept, 0.25))])),
    grows ? [el("h3", {}, "State on clients by round"), lineChart({ height: 220, xLabel: "round", yLabel: "MiB kept", series: byRound })] : null,
    lacking(data, "state"));
}

function cohort(data, state) {
  const found = data.points[state.point].cohort;
  if (!found) return section("cohort", "What the clients have", lacking(data, "cohort"));
  const classes = Math.max(...found.clients.map((c) => c.counts.length)), most = Math.max(1, ...found.clients.flatMap((c) => c.counts));
  const names = Array.from({ length: classes }, (_, i) => String((found.class_names || [])[i] ?? i));
  const holder = el("div", { class: "chart" });
  const draw = () => {
    const width = Math.max(260, holder.clientWidth || 700);
    if (holder.dataset.width === String(width)) return;
    holder.dataset.width = width;
    const left = Math.min(130, width * 0.28), step = Math.min(64, (width - left - 4) / classes), each = Math.max(16, Math.min(26, step));
    const long = names.some((n) => n.length * 7 > step), head = long ? 76 : 22;
    const root = svg("svg", { viewBox: `0 0 ${width} ${head + found.clients.length * each + 4}`, role: "img", "aria-label": `Samples of each class that ${found.clients.length} clients have` });
    names.forEach((name, i) => {
      const x = left + (i + 0.5) * step, short = name.length > 12 ? `${name.slice(0, 11)}…` : name;
      if (!long || classes <= 40) root.append(fillTitle(svg("text", long ? { x, y: head - 6, transform: `rotate(-55 ${x} ${head - 6})` } : { x, y: head - 6, "text-anchor": "middle" }, short), name));
    });
    found.clients.forEach((client, k) => {
      const y = head + (k + 0.5) * each, name = client.domain ?? `client ${client.client}`, room = Math.floor(left / 7);
      root.append(fillTitle(svg("text", { class: "label", x: left - 8, y: y + 4, "text-anchor": "end" }, name.length > room ? `${name.slice(0, room - 1)}…` : name), name));
      root.append(svg("line", { class: "grid", x1: left, x2: left + classes * step, y1: y, y2: y }));
      client.counts.forEach((count, i) => {
        if (count > 0) root.append(fillTitle(svg("circle", { cx: left + (i + 0.5) * step, cy: y, r: Math.max(1.2, Math.sqrt(count / most) * Math.min(each, step) * 0.48), fill: colour(0) }), `${name}, ${names[i]}: ${count} samples`));
      });
    });
    holder.replaceChildren(root);
  };
  new ResizeObserver(draw).observe(holder);
  const all = found.clients.length < found.of ? ` (${found.clients.length} of the ${found.of} that were called)` : "";
  return section("cohort", "What the clients have",
    el("p", { class: "soft" }, `Samples of each class, by area, of the clients of round ${found.round ?? 1}, seed ${found.seed}${all}, out of ${digits(found.population ?? 0, 0)} in the population. The largest is ${digits(most, 0)} samples. Alike columns of dots would be IID.`),
    holder);
}

function agreement(data, state) {
  const has = data.runs.some((r) => r.point === state.point && r.series.cosine);
  const chart = (key, title, words) => el("div", {}, el("h3", {}, title), el("p", { class: "soft" }, words),
    lineChart({ height: 240, xLabel: "round", yLabel: title, series: bands(data, state, X.round[1], (r) => r.series[key]) }));
  const disagrees = data.runs.some((r) => r.point === state.point && r.series.disagreement);
  return section("agreement", "Do clients agree?",
    el("div", { class: "pair" },
      has ? chart("cosine", "cosine", "Between a client's update and the round's mean update, the mean over clients. 1: all go the same way.") : null,
      has ? chart("opposing", "opposing weights, %", "Weights that a client moved against the last global update: those that FedFOR's penalty acts on.") : null,
      disagrees ? chart("disagreement", "disagreement", "The mean length of a client's update over the length of the mean update. 1: full agreement.") : null),
    lacking(data, "agreement"));
}

function settings(data, state) {
  const columns = data.settings.columns.map((c, i) => ({ ...c, i })).filter((c) => c.point === data.points[state.point].name && !state.hidden.has(data.methods[c.method]));
  const rows = data.settings.rows.filter(([, values]) => columns.some((c) => values[c.i] !== values[columns[0].i]));
  const common = { ...data.settings.common };
  if (columns.length) data.settings.rows.forEach((r) => { if (!rows.includes(r) && r[1][columns[0].i] !== "") common[r[0]] = r[1][columns[0].i]; });
  const pairs = (object) => el("div", { class: "wide" }, el("table", { class: "words" }, el("tbody", {}, Object.entries(object).map(([k, v]) => el("tr", {}, el("td", {}, k), el("td", {}, v))))));
  return section("settings", "Settings",
    rows.length ? el("div", { class: "wide" }, el("table", { class: "words" }, el("thead", {}, el("tr", {}, el("th", {}, "what differs"), columns.map((c) => el("th", { scope: "col" }, el("span", { class: "clamp", title: data.methods[c.method] }, data.methods[c.method]))))),
      el("tbody", {}, rows.map(([key, values]) => el("tr", {}, el("td", {}, key), columns.map((c) => el("td", {}, values[c.i]))))))) : el("p", {}, "These methods have the same settings."),
    el("details", {}, el("summary", {}, `What all have in common (${Object.keys(common).length} settings)`), pairs(common)),
    el("h3", {}, "Environment"), data.environments.map((e) => el("details", { open: data.environments.length === 1 }, el("summary", {}, `${e.runs} ${e.runs === 1 ? "run" : "runs"}: ${[e.facts.device, e.facts.engine && `${e.facts.engine} engine`, e.facts.torch && `torch ${e.facts.torch}`].filter(Boolean).join(", ") || "not told"}`), pairs(e.facts))));
}

function everyRun(data) {
  const row = (r) => el("tr", {}, el("td", {}, r.path), el("td", {}, el("span", { class: "clamp" }, data.methods[r.method])), el("td", {}, data.points[r.point].name), el("td", {}, String(r.seed)), el("td", {}, `${roundsOf(r).length ? Math.max(...roundsOf(r)) : 0} of ${r.planned}`), el("td", {}, r.flower ? `${r.state}, on Flower` : r.state), el("td", {}, [r.words, ...r.problems].filter(Boolean).join("; ")));
  const failed = data.failures;
  return section("runs", "Runs",
    failed.count ? [el("p", {}, `${failed.count} ${failed.count === 1 ? "reply of a client was" : "replies of clients were"} rejected.`), el("div", { class: "wide" }, el("table", { class: "words" }, el("thead", {}, el("tr", {}, ["run", "round", "node", "why"].map((t) => el("th", {}, t)))), el("tbody", {}, failed.shown.slice(-20).map((f) => el("tr", {}, [f.run, f.round, f.node, f.why].map((v) => el("td", {}, String(v))))))))] : null,
    el("details", {}, el("summary", {}, `All ${data.runs.length} runs`), el("div", { class: "wide" }, el("table", { class: "words" }, el("thead", {}, el("tr", {}, ["folder", "method", "point", "seed", "rounds", "state", "words"].map((t) => el("th", {}, t)))), el("tbody", {}, data.runs.map(row))))));
}
