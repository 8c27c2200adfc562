// Settings that differ, and the environment.

function settings(data, state) {
  const columns = data.settings.columns
    .map((c, i) => ({ ...c, i }))
    .filter((c) => c.point === data.points[state.point].name && !state.hidden.has(data.methods[c.method]));
  const rows = data.settings.rows.filter(([, values]) =>
    columns.some((c) => values[c.i] !== values[columns[0].i]),
  );
  const common = { ...data.settings.common };
  if (columns.length)
    data.settings.rows.forEach((r) => {
      if (!rows.includes(r) && r[1][columns[0].i] !== "") common[r[0]] = r[1][columns[0].i];
    });
  const pairs = (object) => words([], Object.entries(object));
  return section(
    "settings",
    "Settings",
    rows.length
      ? words(
          ["what differs", ...columns.map((c) => called(data.methods[c.method]))],
          rows.map(([key, values]) => [key, ...columns.map((c) => values[c.i])]),
        )
      : el("p", {}, "These methods have the same settings."),
    el(
      "details",
      {},
      el("summary", {}, `What all have in common (${Object.keys(common).length} settings)`),
      pairs(common),
    ),
    el("h3", {}, "Environment"),
    data.environments.map((e) =>
      el("details", { open: data.environments.length === 1 }, el("summary", {}, made(e)), pairs(e.facts)),
    ),
  );
}

function made({ runs, facts }) {
  const engine = facts.engine && `${facts.engine} engine`;
  const told = [facts.device, engine, facts.torch && `torch ${facts.torch}`].filter(Boolean);
  return `${runs} ${runs === 1 ? "run" : "runs"}: ${told.join(", ") || "not told"}`;
}
