"use strict";
// The whole page: the tree of runs, tabs, keys.
const keyboard = { kept: [], steps: [] };
const KEYS = [["← →", "step before, after"], ["j k", "next, previous sample"], ["p", "this problem through training"],
  ["c", "next colour of tokens"],
  ["/", "search responses"], ["s", "steps"], ["o", "problems"], ["d", "dark or light"], ["?", "keys"]];

function differing(one, other) {
  const names = [...new Set([...Object.keys(one), ...Object.keys(other)])].sort();
  // A setting may be newer than a run.
  const same = (name) => JSON.stringify(one[name] ?? null) === JSON.stringify(other[name] ?? null);
  return names.filter((name) => !same(name))
    .map((name) => [name, JSON.stringify(one[name]) ?? "–", JSON.stringify(other[name]) ?? "–"]);
}

const Differences = ({ from, to }) => {
  const lines = differing(from.settings, to.settings);
  return html`<ul class="differences">${lines.slice(0, 12)
    .map(([name, before, after]) => html`<li><code>${name}</code> ${before} → ${after}</li>`)}
    ${lines.length > 12 && html`<li>and ${lines.length - 12} more</li>`}</ul>`;
};

function Tree({ runs, parent = null }) {
  const names = runs.map((run) => run.name);
  const children = runs.filter((run) => (names.includes(run.fork?.run) ? run.fork.run : null) === parent);
  const from = runs.find((run) => run.name === parent);
  return children.length > 0 && html`<ul class="tree">${children.map((run) => html`<li key=${run.name}>
    ${run.problem ? html`<b>${run.name}</b><${Trouble} of=${run.problem} />` : html`
    <button class=${run.name === shown.run ? "" : "outline"} onClick=${() => openRun(run)}>${run.name}</button>
    <label title="show beside"><input type="checkbox" aria-label="compare ${run.name}"
      disabled=${run.name === shown.run} checked=${run.name === shown.other}
      onChange=${(event) => show({ other: event.target.checked ? run.name : "" })} /><i class="swatch"></i></label>
    <small>step ${run.step}${run.accuracy === null || run.accuracy === undefined ? ""
      : `, held out ${run.accuracy.toFixed(3)}`}
    ${run.fork && html`<br />fork of ${run.fork.run} at ${run.fork.phase ? `phase ${run.fork.phase} of `
      : ""}step ${run.fork.at}`}</small>
    ${from?.settings && html`<${Differences} from=${from} to=${run} />`}`}
    <${Tree} runs=${runs} parent=${run.name} /></li>`)}</ul>`;
}

function openRun(run) {
  show({ run: run.name, other: shown.other === run.name ? "" : shown.other, step: "", row: "", ...FILTERS });
}

function Run({ runs }) {
  const curves = useAnswer("curves", { run: shown.run });
  const other = useAnswer(shown.other ? "curves" : null, { run: shown.other });
  if (!curves.steps) return html`<p aria-busy=${!curves.error}></p><${Trouble} of=${curves.error} />`;
  const there = curves.tables[shown.table] ?? [];
  keyboard.steps = there;
  if (!there.map(String).includes(shown.step) && there.length) {
    queueMicrotask(() => show({ step: String(there.at(-1)), row: "" }));
  }
  const Tab = (name, title) => html`<button role="tab" aria-selected=${shown.tab === name}
    class=${shown.tab === name ? "" : "outline"}
    onClick=${() => show({ tab: name })}>${title}</button>`;
  const [one, two] = [shown.run, shown.other].map((name) => runs.find((run) => run.name === name));
  return html`${curves.missing.map((line) => html`<${Trouble} of=${line} />`)}
    <nav class="tabs" role="tablist">${Tab("steps", "steps")}${Tab("problems", "problems")}${curves.rescores.length > 0
      && Tab("rescores", "judged again")}
      ${shown.problem && Tab("problem", shown.problem)}</nav>
    ${one.settings && two?.settings && html`<details><summary>${one.name} and ${two.name}: what differs</summary>
      <${Differences} from=${one} to=${two} /></details>`}
    ${shown.tab === "problems" ? html`<${Problems} />` : shown.tab === "problem" ? html`<${Problem} />`
      : shown.tab === "rescores" && curves.rescores.length ? html`<${Rescores} rescores=${curves.rescores} />`
      : html`<${Curves} ...${{ curves, other }} />${there.length ? shown.step && html`<${Step} curves=${curves} />`
        : html`<p class="trouble">${shown.run} has no such samples: ${TableChoice()}</p>`}`}`;
}

function App() {
  const runs = useAnswer("runs");
  const [isHelping, help] = useState(false);
  keyboard.help = () => help(!isHelping);
  if (!Array.isArray(runs)) return html`<main aria-busy=${!runs.error}><${Trouble} of=${runs.error} /></main>`;
  if (shown.other && !runs.some((run) => run.name === shown.other)) {  // the address may hold anything
    queueMicrotask(() => show({ other: "" }));
    return null;
  }
  if (!runs.some((run) => run.name === shown.run)) {
    const first = runs.find((run) => !run.problem);
    if (first) queueMicrotask(() => show({ run: first.name }));
  }
  return html`<aside><header><strong>ares browse</strong>
      <button class="outline secondary" aria-label="dark or light" onClick=${turnTheme}>◐</button>
      <button class="outline secondary" aria-label="keys" onClick=${() => help(true)}>?</button></header>
    <${Tree} runs=${runs} /></aside>
    <main>${runs.some((run) => run.name === shown.run) && html`<${Run} key=${shown.run} runs=${runs} />`}
      ${runs.length === 0 && html`<p
        class="trouble">there are no runs here: ares train tiny-math --plain makes one</p>`}</main>
    <dialog open=${isHelping} onClick=${() => help(false)}><article><h5>keys</h5><table>${KEYS
      .map(([key, what]) => html`<tr><td><kbd>${key}</kbd></td><td>${what}</td></tr>`)}</table></article></dialog>`;
}

function turnTheme() {
  const look = document.documentElement.dataset;
  look.theme = look.theme === "dark" ? "light" : "dark";
  draw();
}

const stepBy = (list, value, by) => list[Math.min(list.length - 1, Math.max(0, list.indexOf(value) + by))];
const ON_KEY = {
  ArrowLeft: () => show({ step: String(stepBy(keyboard.steps, Number(shown.step), -1)), row: "" }),
  ArrowRight: () => show({ step: String(stepBy(keyboard.steps, Number(shown.step), 1)), row: "" }),
  j: () => keyboard.kept.length && show({ row: String(stepBy(keyboard.kept, shown.row === "" ? keyboard.kept[0]
    : Number(shown.row), 1)) }),
  k: () => keyboard.kept.length && show({ row: String(stepBy(keyboard.kept, Number(shown.row), -1)) }),
  p: () => document.querySelector(".sample .through")?.click(),
  c: () => {
    const names = Object.keys(COLOURS);
    show({ colour: names[(names.indexOf(shown.colour) + 1) % names.length] });
  },
  "/": () => document.querySelector("input[name=text]")?.focus(),
  s: () => show({ tab: "steps" }),
  o: () => show({ tab: "problems" }),
  d: turnTheme,
  "?": () => keyboard.help(),
  Escape: () => (document.querySelector("dialog[open]") ? keyboard.help() : document.activeElement.blur()),
};
addEventListener("keydown", (event) => {
  const isTyping = /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName) && event.key !== "Escape";
  if (isTyping || event.ctrlKey || event.metaKey || event.altKey || !ON_KEY[event.key]) return;
  event.preventDefault();
  ON_KEY[event.key]();
});
addEventListener("hashchange", () => {
  shown = readAddress();
  draw();
});

function draw() { render(html`<${App} at=${JSON.stringify(shown)} />`, document.getElementById("page")); }
document.documentElement.dataset.theme = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
draw();
