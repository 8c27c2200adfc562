// How clients' updates agree with the global one.

function agreement(data, state) {
  const has = data.runs.some((r) => r.point === state.point && r.series.cosine);
  const chart = (key, title, words) =>
    el(
      "div",
      {},
      el("h3", {}, title),
      el("p", { class: "soft" }, words),
      lineChart({
        height: 240,
        xLabel: "round",
        yLabel: title,
        series: bands(data, state, X.round[1], (r) => r.series[key]),
      }),
    );
  const disagrees = data.runs.some((r) => r.point === state.point && r.series.disagreement);
  return section(
    "agreement",
    "Do clients agree?",
    el(
      "div",
      { class: "pair" },
      has
        ? chart(
            "cosine",
            "cosine",
            "Between a client's update and the round's mean update, the mean over clients. 1: all go the same way.",
          )
        : null,
      has
        ? chart(
            "opposing",
            "opposing weights, %",
            "Weights that a client moved against the last global update: those that FedFOR's penalty acts on at the end of the round.",
          )
        : null,
      disagrees
        ? chart(
            "disagreement",
            "disagreement",
            "The mean length of a client's update over the length of the mean update. 1: full agreement.",
          )
        : null,
    ),
    lacking(data, "agreement"),
  );
}
