// Who was called, and who came through. Nothing where everyone is always there.

function participation(data, state) {
  const of = data.points[state.point].participation;
  if (!of) return null;
  const number = (value, most) => (value === null ? "-" : digits(value, most));
  const share = (one, key) => {
    const { [key]: value, called: all } = one;
    if (value === null || !all) return number(value, 1);
    return `${digits(value, 1)} (${digits((100 * value) / all, 1)} %)`;
  };
  const row = (m) => {
    const one = of[m];
    return [
      el("span", {}, called(data.methods[m]), one.note ? el("span", { class: "note" }, one.note) : null),
      ...[
        number(one.called, 1),
        ...["counted", "dropped", "late", "surplus"].map((key) => share(one, key)),
        number(one.away, 1),
        one.abandoned === null ? "-" : `${digits(one.abandoned, 1)} of ${digits(one.rounds, 1)}`,
        number(one.waited, 3),
      ].map((text) => el("span", { class: "number" }, text)),
    ];
  };
  return section(
    "participation",
    "Who took part",
    el(
      "p",
      { class: "soft" },
      "Clients of all rounds, the mean over seeds, in brackets of those called. Dropped: dropped out after they were called. Late: reported after the deadline. Surplus: in time, but enough had reported. Away: passed over before the call. A round with too few reports is abandoned, and what came for it in time counts nowhere. Wait: until a round was closed, the mean over rounds; a client of speed 1 with the mean amount of data takes 1.",
    ),
    words(
      ["method", "called", "counted", "dropped", "late", "surplus", "away", "rounds abandoned", "wait"],
      visible(data, state)
        .filter((m) => of[m])
        .map(row),
    ),
  );
}
