// The live page: asks for new data again and again, and says how the run goes.

function livePanel(data) {
  const live = data.live;
  const done = live.rounds_planned ? live.rounds_done / live.rounds_planned : 0;
  const row = (r) => [
    called([r.point, r.name].filter(Boolean).join(", ")),
    r.seed,
    `${r.round} of ${r.of}`,
    r.accuracy === null ? "-" : `${figure(100 * r.accuracy)} %`,
    r.seconds_a_round === null ? "-" : duration(r.seconds_a_round),
    r.left === null ? "-" : duration(r.left),
    [r.failed, r.last_failure].filter(Boolean).join(": ") || "0",
    r.state,
  ];
  const busy = live.runs.filter((r) => r.state !== "done" && r.state !== "waiting"),
    shown = busy.length ? busy : live.runs;
  return el(
    "div",
    {
      class: `live ${live.state}`,
      role: "status",
      id: "live",
      "data-state": live.state,
      "data-rounds": live.rounds_done,
    },
    el(
      "p",
      {},
      el("b", {}, `${digits(live.rounds_done, 0)} of ${digits(live.rounds_planned, 0)} rounds`),
      live.left === null ? "" : `, about ${duration(live.left)} left`,
      `. ${live.words}`,
    ),
    el("progress", { max: 1, value: done }),
    words(
      ["run", "seed", "round", "accuracy", "a round", "left", "failed", "state"],
      shown.slice(0, 8).map(row),
    ),
    shown.length > 8 ? el("p", { class: "soft" }, `and ${shown.length - 8} more`) : null,
  );
}

// Of many runs, an answer may say how they stand and leave the curves for later. Nothing is drawn
// anew under a pointer that is reading a chart.
async function follow(first) {
  let latest = first,
    version = first.live.version,
    wait = first.live.refresh,
    stale = false,
    lost = false;
  for (;;) {
    await new Promise((wake) => setTimeout(wake, 1000 * wait));
    if (document.hidden) continue;
    try {
      const answer = await fetch(`data.json?seen=${encodeURIComponent(version)}`, { cache: "no-store" });
      if (answer.status === 200) {
        const data = await answer.json();
        version = data.live.version;
        wait = data.live.refresh;
        latest = data.runs ? data : { ...latest, live: data.live };
        stale ||= Boolean(data.runs);
        document.getElementById("live")?.replaceWith(livePanel(latest));
      }
      if (stale && !document.querySelector(".chart:hover")) {
        render(latest);
        stale = false;
      }
      if (lost) {
        lost = false;
        document.getElementById("lost")?.remove();
      }
    } catch (error) {
      if (!lost)
        document
          .getElementById("app")
          .prepend(
            el(
              "div",
              { class: "missing", id: "lost" },
              el(
                "p",
                {},
                "fedfor watch does not answer any more; this is what it told last. Start it again and this page goes on.",
              ),
            ),
          );
      lost = true;
    }
  }
}
