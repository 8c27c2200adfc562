// Bytes, and what clients keep.

function traffic(data, state) {
  const of = data.points[state.point].totals,
    shown = visible(data, state);
  const kinds = [
    ["down_cross_device", "down", 1],
    ["down_cross_silo", "down, silo", 0.65],
    ["up", "up", 0.4],
    ["state_bytes", "kept", 0.25],
  ];
  const longest = Math.max(1, most(shown.flatMap((m) => kinds.map(([k]) => of[m][k] || 0))));
  const bar = (m, share, strength) =>
    el("span", {
      class: "fill",
      style: `width:${(55 * share).toFixed(2)}%;background:${colour(m)};opacity:${strength}`,
    });
  const row = (m, kind, value, share, strength) =>
    el(
      "div",
      { class: "row" },
      el("span", { class: "kind" }, kind),
      bar(m, share, strength),
      el("span", { class: "figure" }, value === null || value === undefined ? "-" : bytes(value)),
    );
  const byRound = bands(
    data,
    state,
    X.round[1],
    (r) => r.series.state_bytes && r.series.state_bytes.map((v) => (v === null ? null : v / UNIT)),
  );
  const grows = byRound.some((s) => s.points.some((p) => p.y > 0));
  return section(
    "bytes",
    "Bytes, and state on clients",
    el(
      "p",
      { class: "soft" },
      "All rounds and clients together, the mean over seeds. Down to clients that have nothing (cross-device) and to clients that still have the last model (silo). Kept: what the method makes all clients remember after the last round.",
    ),
    el(
      "div",
      { class: "bars" },
      shown.map((m) => [
        el(
          "div",
          { class: "name" },
          called(data.methods[m]),
          of[m].note ? el("span", { class: "soft" }, ` ${of[m].note}`) : null,
        ),
        el(
          "div",
          {},
          kinds.map(([k, name, strength]) => row(m, name, of[m][k], (of[m][k] || 0) / longest, strength)),
        ),
      ]),
    ),
    grows
      ? [
          el("h3", {}, "State on clients by round"),
          lineChart({ height: 220, xLabel: "round", yLabel: "MiB kept", series: byRound }),
        ]
      : null,
    lacking(data, "state"),
  );
}
