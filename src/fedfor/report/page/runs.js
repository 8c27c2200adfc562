// Every run, and clients that failed.

function everyRun(data) {
  const failed = data.failures;
  const row = (r) => [
    r.path,
    called(data.methods[r.method]),
    data.points[r.point].name,
    r.seed,
    `${lastRound(r)} of ${r.planned}`,
    r.flower ? `${r.state}, on Flower` : r.state,
    [r.words, ...r.problems].filter(Boolean).join("; "),
  ];
  const were = failed.count === 1 ? "reply of a client was" : "replies of clients were";
  return section(
    "runs",
    "Runs",
    failed.count
      ? [
          el("p", {}, `${failed.count} ${were} rejected.`),
          words(
            ["run", "round", "node", "why"],
            failed.shown.slice(-20).map((f) => [f.run, f.round, f.node, f.why]),
          ),
        ]
      : null,
    el(
      "details",
      {},
      el("summary", {}, `All ${data.runs.length} runs`),
      words(["folder", "method", "point", "seed", "rounds", "state", "words"], data.runs.map(row)),
    ),
  );
}
