// Learning curves, by round, by bytes or by time.

function curves(data, state, redraw) {
  const point = data.points[state.point],
    [xLabel, xOf] = X[state.x],
    [yLabel, yOf] = Y[state.y];
  const has = (f) => data.runs.some((r) => f(r));
  const isAccuracy = state.y === "accuracy" || state.y === "best";
  const isRound = state.x === "round";
  const marks =
    isRound && isAccuracy
      ? point.paper
          .filter((p) => !state.hidden.has(data.methods[p.method]))
          .map((p) => ({
            x: p.round,
            y: p.accuracy,
            method: p.method,
            text: `paper: ${data.methods[p.method]}, ${p.accuracy} % by round ${p.round}`,
          }))
      : [];
  return section(
    "curves",
    "Learning curves",
    el(
      "p",
      { class: "soft" },
      "Mean over seeds; the band is one deviation. ",
      marks.length ? "Crosses: the paper's numbers, best to that round. " : "",
      point.shifts.length && isRound ? "Grey lines: a concept shifted. " : "",
      "Point at the picture, or move through it with the arrow keys.",
    ),
    el(
      "div",
      { class: "controls" },
      choice(
        "show",
        "y",
        Object.entries(Y)
          .filter(([, [, f]]) => has(f))
          .map(([k, [t]]) => [k, t]),
        state,
        redraw,
      ),
      choice(
        "by",
        "x",
        Object.entries(X)
          .filter(([, [, f]]) => has(f))
          .map(([k, [t]]) => [k, t]),
        state,
        redraw,
      ),
      tick("log x", "logX", state, redraw),
      tick("log y", "logY", state, redraw),
    ),
    lineChart({
      series: bands(data, state, xOf, yOf),
      xLabel,
      yLabel,
      logX: state.logX,
      logY: state.logY,
      marks,
      lines: isAccuracy && point.target ? [point.target] : [],
      verticals: isRound ? point.shifts : [],
    }),
    lacking(data, "curves"),
    lacking(data, "bytes"),
  );
}
