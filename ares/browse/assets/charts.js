"use strict";
// Curves of one or two runs. A click on a point leads to the samples behind it.
const WHOLE = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000]; // between the ticks of steps
const USUAL = ["val/accuracy", "reward/accuracy", "entropy/mean", "response_length/mean"];

function Chart({ metric, steps, runs, step, choose }) {
  const place = useRef();
  const plot = useRef();
  const [told, tell] = useState("");
  const marked = useRef(step);
  marked.current = step;
  useEffect(() => {
    const look = getComputedStyle(document.documentElement);
    const colour = (name) => look.getPropertyValue(name).trim();
    const grid = { stroke: colour("--line"), width: 1 };
    const axis = { stroke: colour("--pico-muted-color"), grid, ticks: { show: false } };
    const made = new uPlot({
      width: place.current.clientWidth, height: 130, legend: { show: false }, padding: [8, 8, 0, 0],
      scales: { x: { time: false } }, cursor: { y: false, drag: { x: false, y: false } },
      axes: [{ ...axis, size: 26, incrs: WHOLE }, { ...axis, size: 48 }],
      series: [{}, ...runs.map((run, place) => ({
        label: run.name, stroke: colour(place ? "--second" : "--first"), width: 2, spanGaps: true, points: { size: 5 },
      }))],
      hooks: {
        draw: [(u) => {
          const x = u.valToPos(Number(marked.current), "x", true);
          u.ctx.fillStyle = colour("--pico-muted-color");
          u.ctx.fillRect(x, u.bbox.top, 1.5, u.bbox.height);
        }],
        setCursor: [(u) => {
          const at = u.cursor.idx;
          tell(at === null || at === undefined ? "" : `step ${steps[at]}: ` + u.data.slice(1)
            .map((each) => number(each[at])).join(" · "));
        }],
      },
    }, [steps, ...runs.map((run) => run.values)], place.current);
    made.over.addEventListener("click", () => made.cursor.idx !== null && choose(steps[made.cursor.idx], metric));
    const resized = new ResizeObserver(() => made.setSize({ width: place.current.clientWidth, height: 130 }));
    resized.observe(place.current);
    plot.current = made;
    return () => { resized.disconnect(); made.destroy(); };
  }, [metric, steps, runs, document.documentElement.dataset.theme]);
  useEffect(() => plot.current?.redraw(false), [step]);
  return html`<div><div ref=${place} class="plot" data-metric=${metric}></div><small
    class="told">${told}</small></div>`;
}

function Curves({ curves, other }) {
  const names = Object.keys(curves.metrics);
  const chosen = (shown.curves ? shown.curves.split(",") : USUAL).map((name) => (names.includes(name) ? name
    : names[0]));
  const every = () => [...new Set([...curves.steps, ...(other.steps ?? [])])].sort((a, b) => a - b);
  const steps = useMemo(every, [curves, other]);
  const choose = (step, metric) => {
    const table = metric.startsWith("val/") ? "evaluation" : "samples";
    const there = curves.tables[table];
    const nearest = there.reduce((best, each) => (Math.abs(each - step) < Math.abs(best - step) ? each
      : best), there[0]);
    show({ step: String(nearest ?? step), table, row: "" });
  };
  return html`<div class="curves">${chosen.map((metric, place) => html`<article key=${place}>
    <select aria-label="metric" onChange=${(event) => show({ curves: chosen
      .map((each, at) => (at === place ? event.target.value : each)).join(",") })}>
      ${names.map((name) => html`<option selected=${name === metric}>${name}</option>`)}
    </select>
    <${OfMetric} ...${{ metric, steps, curves, other, choose }} /></article>`)}</div>`;
}

function OfMetric({ metric, steps, curves, other, choose }) {
  const runs = useMemo(() => [[shown.run, curves], [shown.other, other]].filter(([name, each]) => name && each.metrics)
    .map(([name, each]) => {
    const at = new Map(each.steps.map((step, place) => [step, each.metrics[metric]?.[place] ?? null]));
    return { name, values: steps.map((step) => at.get(step) ?? null) };
  }), [metric, steps, curves, other]);
  return html`<${Chart} ...${{ metric, steps, runs, choose }} step=${shown.step} />`;
}
