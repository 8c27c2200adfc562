// The first round of each run at or above the target; those that never got there stand apart, by name.
function target(data, state, redraw) {
  const point = data.points[state.point],
    goal = state.target ?? point.target ?? suggested(data, state);
  const rows = visible(data, state).map((m) => ({
    m,
    runs: runsOf(data, state, m).map((run) => ({ run, at: reached(run, goal) })),
  }));
  const last = Math.max(
    1,
    point.rounds,
    most(data.runs.filter((r) => r.point === state.point).map(lastRound)),
  );
  const change = (event) => {
    const v = Number(event.target.value);
    state.target = v > 0 && v <= 100 ? v : null;
    setTimeout(redraw, 200); // after the click that took the focus away has found its button
  };
  const short = (r) =>
    (Number.isFinite(top(r.run)) ? `${digits(top(r.run), 1)} %` : "no accuracy") +
    (isGoing(r.run) ? `, round ${lastRound(r.run)} of ${r.run.planned}` : "") +
    (r.run.state === "diverged" ? ", diverged" : "");
  const absent = rows
    .map(({ m, runs }) => ({ m, runs: runs.filter((r) => r.at === null) }))
    .filter(({ runs }) => runs.length);
  return section(
    "target",
    "Rounds to target",
    el(
      "div",
      { class: "controls" },
      el(
        "label",
        {},
        "test accuracy, % ",
        el("input", {
          type: "number",
          min: "0.1",
          max: "100",
          step: "0.1",
          value: goal,
          "data-control": "target",
          onchange: change,
        }),
      ),
    ),
    el(
      "p",
      { class: "soft" },
      `The first round with ${goal} % test accuracy. One mark a seed; the bar is their mean, drawn only if every seed got there.`,
    ),
    sized((width) => drawTarget(data, rows, goal, last, width)),
    absent.length
      ? el(
          "details",
          { class: "absent", open: absent.length <= 8 },
          el("summary", {}, `Not at ${goal} %, and the best that they had`),
          el(
            "ul",
            {},
            absent.map(({ m, runs }) =>
              el(
                "li",
                {},
                called(data.methods[m]),
                runs.map((r) => `seed ${r.run.seed}: ${short(r)}`).join("; "),
              ),
            ),
          ),
        )
      : null,
  );
}
const isGoing = (run) => run.state === "unfinished" && lastRound(run) < run.planned;
// A run that goes on may still get there; one that has ended never did.
function absentWords(runs) {
  const absent = runs.filter((r) => r.at === null);
  const going = absent.filter((r) => isGoing(r.run)).length;
  if (going === absent.length) return `${going} not yet`;
  return going
    ? `${absent.length - going} never, ${going} not yet`
    : `${absent.length} of ${runs.length} never`;
}

function drawTarget(data, rows, goal, last, width) {
  const each = 46,
    edge = width - 110,
    x = (t) => 12 + ((t - 1) / Math.max(1, last - 1)) * (edge - 28);
  const root = svg("svg", {
    viewBox: `0 0 ${width} ${rows.length * each + 30}`,
    role: "img",
    "aria-label": `Rounds to ${goal} % accuracy`,
  });
  niceSteps(1, last, Math.max(2, Math.floor(width / 100)), true)
    .filter((t) => t >= 1)
    .forEach((t) => {
      root.append(
        svg("line", { class: "grid", x1: x(t), x2: x(t), y1: 4, y2: rows.length * each }),
        svg("text", { x: x(t), y: rows.length * each + 16, "text-anchor": "middle" }, figure(t)),
      );
    });
  root.append(svg("text", { x: edge + 8, y: rows.length * each + 16 }, "not there"));
  rows.forEach(({ m, runs }, i) => {
    const top = i * each,
      name = data.methods[m],
      got = runs.filter((r) => r.at !== null),
      room = Math.floor(edge / 7);
    root.append(svg("text", { class: "label", x: 12, y: top + 15 }, cut(name, room)));
    root.append(svg("line", { class: "axis", x1: x(1), x2: edge, y1: top + 30, y2: top + 30 }));
    got.forEach((r) =>
      root.append(titled(mark(m, x(r.at), top + 30), `${name}, seed ${r.run.seed}: round ${r.at}`)),
    );
    if (got.length === runs.length && runs.length > 1) {
      const c = x(mean(got.map((r) => r.at)));
      root.append(
        svg("line", { x1: c, x2: c, y1: top + 22, y2: top + 38, stroke: colour(m), "stroke-width": 2 }),
      );
    }
    if (got.length < runs.length)
      root.append(svg("text", { class: "label never", x: edge + 8, y: top + 34 }, absentWords(runs)));
  });
  return root;
}

const top = (run) => run.bests.values.at(-1) ?? NaN;
function reached(run, goal) {
  const place = run.bests.values.findIndex((v) => v >= goal);
  return place < 0 ? null : run.bests.at[place];
}
function suggested(data, state) {
  const bests = data.runs
    .filter((r) => r.point === state.point && r.series.accuracy)
    .map(top)
    .filter(Number.isFinite)
    .sort((a, b) => a - b);
  return bests.length ? Math.max(1, Math.floor(bests[Math.floor(bests.length / 2)] * 0.95)) : 50;
}
