// The comparison table.

function comparison(data, state, redraw) {
  const { columns, rows } = data.points[state.point].table;
  const order = rows.filter((r) => !state.hidden.has(data.methods[r.method]));
  if (state.sort !== null && state.sort < columns.length + 1) {
    const key = (r) =>
      state.sort === 0 ? data.methods[r.method].toLowerCase() : r.cells[state.sort - 1].sort;
    order.sort((a, b) => {
      const [u, v] = [key(a), key(b)];
      if (u === null || v === null) return (u === null) - (v === null);
      return (u < v ? -1 : u > v ? 1 : 0) * (state.down ? -1 : 1);
    });
  }
  const press = (i) => () => {
    state.down = state.sort === i ? !state.down : i > 0;
    state.sort = i;
    redraw();
  };
  const head = (title, i) =>
    el(
      "th",
      { scope: "col", "aria-sort": state.sort === i ? (state.down ? "descending" : "ascending") : "none" },
      el("button", { type: "button", onclick: press(i) }, title),
    );
  const cell = (c) =>
    el(
      "td",
      { class: c.winner ? "winner" : null },
      c.winner ? `★ ${c.text}` : c.text,
      c.paper
        ? el("span", { class: "paper" }, `paper ${c.paper}${c.apart ? `, ${c.apart} dev.` : ""}`)
        : null,
    );
  const some = rows.some((r) => r.cells.some((c) => c.paper));
  return section(
    "table",
    "Comparison",
    el(
      "p",
      { class: "soft" },
      "Mean (deviation) over seeds; ★ the best of its column, ties as printed; MiB: all rounds and clients together. ",
      some ? "dev.: how far from the paper's number, in joint deviations. " : "",
      "Press a heading to sort.",
    ),
    el(
      "div",
      { class: "wide" },
      el(
        "table",
        {},
        el(
          "thead",
          {},
          el(
            "tr",
            {},
            head("method", 0),
            columns.map((c, i) => head(c.title, i + 1)),
          ),
        ),
        el(
          "tbody",
          {},
          order.map((r) =>
            el(
              "tr",
              { "data-method": r.method },
              el(
                "td",
                {},
                called(data.methods[r.method]),
                r.note ? el("span", { class: "note" }, r.note) : null,
              ),
              r.cells.map(cell),
            ),
          ),
        ),
      ),
    ),
    data.notes.map((n) => el("p", {}, `Data: ${n}.`)),
  );
}
