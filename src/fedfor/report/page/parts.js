// Accuracy of each domain or class.

const MOST_PARTS = 30;
function parts(data, state) {
  const found = data.points[state.point].parts;
  if (!found) return section("parts", "Accuracy by domain or class", lacking(data, "parts"));
  const methods = visible(data, state).filter((m) => found.methods[m]);
  const last = (place) => mean(methods.map((m) => found.methods[m][place].values.at(-1) ?? 0));
  let places = found.names.map((_, i) => i);
  const many = places.length > MOST_PARTS;
  if (many && methods.length)
    places = places
      .sort((a, b) => last(a) - last(b))
      .slice(0, MOST_PARTS)
      .sort((a, b) => a - b);
  const ys = methods.flatMap((m) => found.methods[m].flatMap((c) => c.values));
  const range = [0, ys.length ? most(ys) : 100];
  return section(
    "parts",
    `Accuracy by ${found.kind}`,
    el(
      "p",
      { class: "soft" },
      `Test accuracy in % by round, the mean over seeds, one picture a ${found.kind}; all have the same axes.`,
      many ? ` The ${MOST_PARTS} lowest of ${found.names.length} are shown.` : "",
    ),
    el(
      "div",
      { class: "many" },
      places.map((i) =>
        el(
          "div",
          {},
          el("h3", { class: "clamp", title: found.names[i] }, found.names[i]),
          lineChart({
            small: true,
            height: 130,
            range,
            xLabel: "round",
            yLabel: `${found.names[i]}, %`,
            series: methods.map((m) => ({
              method: m,
              name: data.methods[m],
              points: found.methods[m][i].at.map((t, k) => ({ x: t, y: found.methods[m][i].values[k] })),
            })),
          }),
        ),
      ),
    ),
    lacking(data, "parts"),
  );
}
