// What all parts of the page draw from. Each part takes the data and the state (what is hidden, which axes).

const UNIT = 2 ** 20;
const roundsOf = (run) =>
  Array.isArray(run.rounds) ? run.rounds : Array.from({ length: run.rounds }, (_, i) => i + 1);
const lastRound = (run) => roundsOf(run).at(-1) ?? 0;
const runsOf = (data, state, method) =>
  data.runs.filter((r) => r.point === state.point && r.method === method);
const methodsOf = (data, state) =>
  [...new Set(data.runs.filter((r) => r.point === state.point).map((r) => r.method))].sort((a, b) => a - b);
const visible = (data, state) => methodsOf(data, state).filter((m) => !state.hidden.has(data.methods[m]));
// From all rounds, also those that are not drawn.
function bestSoFar(run) {
  let place = 0;
  return roundsOf(run).map((t, i) => {
    if (run.series.accuracy[i] === null) return null;
    while (place + 1 < run.bests.at.length && run.bests.at[place + 1] <= t) place += 1;
    return run.bests.values[place];
  });
}

const X = {
  round: ["round", (run) => roundsOf(run)],
  device: ["MiB sent, down and up (cross-device)", (run) => sent(run, "down_cross_device")],
  silo: ["MiB sent, down and up (cross-silo)", (run) => sent(run, "down_cross_silo")],
  seconds: ["seconds of work", (run) => run.series.seconds],
};
function sent(run, down) {
  const { [down]: given, up } = run.series;
  return given && up ? given.map((v, i) => (v + up[i]) / UNIT) : null;
}
const Y = {
  accuracy: ["test accuracy, %", (run) => run.series.accuracy],
  best: ["best test accuracy so far, %", (run) => run.series.accuracy && bestSoFar(run)],
  loss: ["test loss", (run) => run.series.loss],
  train_loss: ["training loss", (run) => run.series.train_loss],
};

// At each round, over the runs that got as far: mean and deviation; x is their mean too.
function band(runs, xOf, yOf) {
  const at = new Map();
  for (const run of runs) {
    const xs = xOf(run),
      ys = yOf(run);
    if (!xs || !ys) continue;
    roundsOf(run).forEach((t, i) => {
      if (ys[i] === null || ys[i] === undefined) return;
      if (!at.has(t)) at.set(t, { xs: [], ys: [] });
      at.get(t).xs.push(xs[i]);
      at.get(t).ys.push(ys[i]);
    });
  }
  return [...at.keys()]
    .sort((a, b) => a - b)
    .map((t) => {
      const { xs, ys } = at.get(t);
      return { x: mean(xs), y: mean(ys), d: deviation(ys), n: ys.length };
    });
}
function bands(data, state, x, y) {
  return visible(data, state).map((m) => ({
    method: m,
    name: data.methods[m],
    points: band(runsOf(data, state, m), x, y),
  }));
}
function lacking(data, part) {
  const words = data.missing[part] || [];
  return words.length
    ? el(
        "div",
        { class: "missing" },
        words.map((w) => el("p", {}, w)),
      )
    : null;
}
const section = (id, title, ...children) => el("section", { id }, el("h2", {}, title), children);
