// What is hidden, and which axes are shown, outlasts new data.
const state = {
  point: 0,
  hidden: new Set(),
  x: "round",
  y: "accuracy",
  logX: false,
  logY: false,
  sort: null,
  down: true,
  target: null,
};

function header(data, redraw) {
  const count = (name) => data.runs.filter((r) => r.state === name).length;
  const seeds = [...new Set(data.runs.map((r) => r.seed))].sort((a, b) => a - b);
  const states = ["done", "unfinished", "diverged"]
    .filter(count)
    .map((s) => `${count(s)} ${s}`)
    .join(", ");
  const words = Object.values(data.missing)
    .flat()
    .concat(data.runs.flatMap((r) => r.problems.map((p) => `${r.path}: ${p}.`)));
  const swap = () => {
    const dark = document.documentElement.dataset.theme
      ? document.documentElement.dataset.theme === "dark"
      : matchMedia("(prefers-color-scheme: dark)").matches;
    document.documentElement.dataset.theme = dark ? "light" : "dark";
  };
  return [
    el(
      "div",
      { class: "top" },
      el(
        "div",
        {},
        el("h1", {}, data.title),
        el(
          "p",
          { class: "soft" },
          `${data.methods.length} ${data.methods.length === 1 ? "method" : "methods"}, ${data.runs.length} ${data.runs.length === 1 ? "run" : "runs"} (${states || "none"}), ${seeds.length === 1 ? "seed" : "seeds"} ${seeds.slice(0, 12).join(", ")}${seeds.length > 12 ? ", …" : ""}; fedfor ${data.fedfor}`,
        ),
      ),
      el(
        "button",
        {
          type: "button",
          class: "theme",
          "aria-label": "light or dark",
          title: "light or dark",
          onclick: swap,
        },
        "◐",
      ),
    ),
    words.length
      ? el(
          "details",
          { class: "missing", open: words.length <= 4 && !data.live },
          el("summary", {}, `What is missing (${words.length})`),
          el(
            "ul",
            {},
            words.slice(0, 40).map((w) => el("li", {}, w)),
            words.length > 40 ? el("li", {}, `and ${words.length - 40} more`) : null,
          ),
        )
      : null,
  ];
}

function legend(data, redraw) {
  const toggle = (name) => () => {
    state.hidden.has(name) ? state.hidden.delete(name) : state.hidden.add(name);
    redraw();
  };
  const pick = (event) => {
    state.point = Number(event.target.value);
    redraw();
  };
  const all = () => {
    state.hidden.clear();
    redraw();
  };
  return el(
    "div",
    { class: "bar" },
    data.points.length > 1
      ? el(
          "div",
          { class: "controls" },
          el(
            "label",
            {},
            "point ",
            el(
              "select",
              { "data-control": "point", onchange: pick },
              data.points.map((p, i) => el("option", { value: i, selected: i === state.point }, p.name)),
            ),
          ),
        )
      : null,
    el(
      "div",
      { class: "legend", role: "group", "aria-label": "Methods; press one to hide or show it" },
      methodsOf(data, state).map((m) => {
        const name = data.methods[m];
        return el(
          "button",
          {
            type: "button",
            title: name,
            "aria-pressed": String(!state.hidden.has(name)),
            "data-method": m,
            onclick: toggle(name),
          },
          sample(m),
          el("span", {}, name),
        );
      }),
      state.hidden.size ? el("button", { type: "button", class: "all", onclick: all }, "show all") : null,
    ),
  );
}

function render(data) {
  state.point = Math.min(state.point, data.points.length - 1);
  const open = [...document.querySelectorAll("details[open] > summary")].map(
    (s) => s.parentElement.closest("section")?.id + s.parentElement.className,
  );
  const focus = document.activeElement?.dataset?.control,
    y = window.scrollY;
  const redraw = () => render(data);
  const app = document.getElementById("app");
  app.replaceChildren(
    ...[
      header(data, redraw),
      data.live ? livePanel(data) : null,
      legend(data, redraw),
      curves(data, state, redraw),
      comparison(data, state, redraw),
      target(data, state, redraw),
      parts(data, state),
      traffic(data, state),
      participation(data, state),
      cohort(data, state),
      agreement(data, state),
      settings(data, state),
      everyRun(data),
    ]
      .flat()
      .filter(Boolean),
  );
  if (app.dataset.drawn)
    for (const d of document.querySelectorAll("details"))
      if (open.includes(d.closest("section")?.id + d.className)) d.open = true;
  app.dataset.drawn = "yes";
  if (focus) document.querySelector(`[data-control="${focus}"]`)?.focus();
  window.scrollTo(0, y);
}

const data = JSON.parse(document.getElementById("data").textContent);
if (data.points.some((p) => p.paper.length)) state.y = "best"; // as the paper counts
render(data);
if (data.live) follow(data);
