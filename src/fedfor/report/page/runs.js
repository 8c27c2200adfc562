// Every run, and clients that failed.

function everyRun(data) {
  const row = (r) =>
    el(
      "tr",
      {},
      el("td", {}, r.path),
      el("td", {}, el("span", { class: "clamp" }, data.methods[r.method])),
      el("td", {}, data.points[r.point].name),
      el("td", {}, String(r.seed)),
      el("td", {}, `${lastRound(r)} of ${r.planned}`),
      el("td", {}, r.flower ? `${r.state}, on Flower` : r.state),
      el("td", {}, [r.words, ...r.problems].filter(Boolean).join("; ")),
    );
  const failed = data.failures;
  return section(
    "runs",
    "Runs",
    failed.count
      ? [
          el(
            "p",
            {},
            `${failed.count} ${failed.count === 1 ? "reply of a client was" : "replies of clients were"} rejected.`,
          ),
          el(
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
                  ["run", "round", "node", "why"].map((t) => el("th", {}, t)),
                ),
              ),
              el(
                "tbody",
                {},
                failed.shown.slice(-20).map((f) =>
                  el(
                    "tr",
                    {},
                    [f.run, f.round, f.node, f.why].map((v) => el("td", {}, String(v))),
                  ),
                ),
              ),
            ),
          ),
        ]
      : null,
    el(
      "details",
      {},
      el("summary", {}, `All ${data.runs.length} runs`),
      el(
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
              ["folder", "method", "point", "seed", "rounds", "state", "words"].map((t) => el("th", {}, t)),
            ),
          ),
          el("tbody", {}, data.runs.map(row)),
        ),
      ),
    ),
  );
}
