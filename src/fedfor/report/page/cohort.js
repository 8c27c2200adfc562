// What non-IID means: who has how many of which class.

function cohort(data, state) {
  const found = data.points[state.point].cohort;
  if (!found) return section("cohort", "What the clients have", lacking(data, "cohort"));
  const classes = most(found.clients.map((c) => c.counts.length));
  const names = Array.from({ length: classes }, (_, i) => found.class_names[i] ?? String(i));
  const largest = Math.max(1, most(found.clients.flatMap((c) => c.counts)));
  const shown = found.clients.length;
  const all = shown < found.of ? ` (${shown} of the ${digits(found.of, 0)} that were called)` : "";
  return section(
    "cohort",
    "What the clients have",
    el(
      "p",
      { class: "soft" },
      `Samples of each class, by area, of the clients of round ${found.round}${all} of ${cut(found.who, 80)}, `,
      `out of ${digits(found.population, 0)} in the population. The largest dot is ${digits(largest, 0)} `,
      "samples. If clients were alike, so would be the rows.",
    ),
    sized((width) => drawCohort(found.clients, names, largest, width)),
  );
}

function drawCohort(clients, names, largest, width) {
  const left = Math.min(130, width * 0.28);
  const step = Math.min(64, (width - left - 4) / names.length);
  const each = Math.max(16, Math.min(26, step));
  const slanted = names.some((n) => n.length * 7 > step);
  const head = slanted ? 76 : 22;
  const root = svg("svg", {
    viewBox: `0 0 ${width} ${head + clients.length * each + 4}`,
    role: "img",
    "aria-label": `Samples of each class that ${clients.length} clients have`,
  });
  names.forEach((name, i) => {
    const x = left + (i + 0.5) * step;
    const how = slanted ? { transform: `rotate(-55 ${x} ${head - 6})` } : { "text-anchor": "middle" };
    const text = svg("text", { x, y: head - 6, ...how }, cut(name, 12));
    if (!slanted || names.length <= 40) root.append(titled(text, name));
  });
  clients.forEach((client, k) => {
    const y = head + (k + 0.5) * each;
    const name = client.domain ?? `client ${client.client}`;
    const label = svg(
      "text",
      { class: "label", x: left - 8, y: y + 4, "text-anchor": "end" },
      cut(name, left / 7),
    );
    root.append(titled(label, name));
    root.append(svg("line", { class: "grid", x1: left, x2: left + names.length * step, y1: y, y2: y }));
    client.counts.forEach((count, i) => {
      const r = Math.max(1.2, Math.sqrt(count / largest) * Math.min(each, step) * 0.48);
      const dot = svg("circle", { cx: left + (i + 0.5) * step, cy: y, r, fill: colour(0) });
      if (count > 0) root.append(titled(dot, `${name}, ${names[i]}: ${count} samples`));
    });
  });
  return root;
}
