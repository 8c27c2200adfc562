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
  const pairs = (object) =>
    el(
      "div",
      { class: "wide" },
      el(
        "table",
        { class: "words" },
        el(
          "tbody",
          {},
          Object.entries(object).map(([k, v]) => el("tr", {}, el("td", {}, k), el("td", {}, v))),
        ),
      ),
    );
  return section(
    "settings",
    "Settings",
    rows.length
      ? el(
          "div",
          { class: "wide" },
          el(
            "table",
            { class: "words" },
            el(
              "thead",
              {},
              el(
                "tr",
                {},
                el("th", {}, "what differs"),
                columns.map((c) =>
                  el(
                    "th",
                    { scope: "col" },
                    el("span", { class: "clamp", title: data.methods[c.method] }, data.methods[c.method]),
                  ),
                ),
              ),
            ),
            el(
              "tbody",
              {},
              rows.map(([key, values]) =>
                el(
                  "tr",
                  {},
                  el("td", {}, key),
                  columns.map((c) => el("td", {}, values[c.i])),
                ),
              ),
            ),
          ),
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
      el(
        "details",
        { open: data.environments.length === 1 },
        el(
          "summary",
          {},
          `${e.runs} ${e.runs === 1 ? "run" : "runs"}: ${[e.facts.device, e.facts.engine && `${e.facts.engine} engine`, e.facts.torch && `torch ${e.facts.torch}`].filter(Boolean).join(", ") || "not told"}`,
        ),
        pairs(e.facts),
      ),
    ),
  );
}
