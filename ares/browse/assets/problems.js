"use strict";
// A run's problems, and one of them through training, in one run or beside another; samples that were judged again.
const MOST = 500; // rows of a table

const showProblem = (id, set) => show({ tab: "problem", problem: id, set });

function Problems() {
  const found = useAnswer("problems", { run: shown.run });
  const [wanted, want] = useState("");
  const [order, sort] = useState({ name: "times", sign: -1 });
  if (!found.id) return html`<p aria-busy=${!found.error}>${found.error ? ""
    : "reading which problems each step met …"}</p><${Trouble} of=${found.error} />`;
  const rows = found.id.map((_, at) => at).filter((at) => found.id[at].includes(wanted));
  const gain = (at) => ([found.accuracy_first[at], found.accuracy_last[at]].includes(null) ? null
    : found.accuracy_last[at] - found.accuracy_first[at]);
  const value = (at) => (order.name === "gain" ? gain(at) : found[order.name][at]) ?? -Infinity;
  rows.sort((a, b) => order.sign * (value(a) < value(b) ? -1 : value(a) > value(b) ? 1 : 0));
  const Head = (name, title) => html`<th><a href="#"
    onClick=${(event) => { event.preventDefault(); sort({ name, sign: order.name === name ? -order.sign
    : 1 }); }}>${title}</a></th>`;
  return html`<label>problem <input type="search" value=${wanted}
    onInput=${(event) => want(event.target.value)} /></label>
    <p><small>${rows.length} problems${rows.length > MOST ? `, the first ${MOST} are listed` : ""}</small></p>
    <table class="problems"><thead>
      <tr>${Head("id", "problem")}${Head("set", "set")}${Head("times", "steps")}${Head("first", "first")}
      ${Head("last", "last")}
      ${Head("accuracy_first", "accuracy then")}${Head("accuracy_last", "now")}${Head("gain", "gain")}</tr></thead>
    <tbody>${rows.slice(0, MOST).map((at) => html`<tr key=${at}
      onClick=${() => showProblem(found.id[at], found.set[at])}>
      <td>${found.id[at]}</td><td>${found.set[at] === "samples" ? "trained on" : "held out"}</td>
        <td>${found.times[at]}</td><td>${found.first[at]}</td><td>${found.last[at]}</td>
      <td>${number(found.accuracy_first[at], 2)}</td><td>${number(found.accuracy_last[at], 2)}</td>
        <td>${number(gain(at), 2)}</td></tr>`)}</tbody></table>`;
}

function Problem() {
  return html`<h5>${shown.problem}${shown.set === "evaluation" ? ", held out" : ""}</h5>${[shown.run, shown.other]
    .filter((name) => name).map((run) => html`<${Through} key=${run} run=${run} />`)}`;
}

function Through({ run }) {
  const { id: ids, set, error } = useAnswer(inFolder ? "problems" : null, { run }); // the folder has files by place
  const place = ids ? ids.findIndex((id, at) => id === shown.problem && set[at] === shown.set) : -1;
  const found = useAnswer(inFolder && place < 0 ? null : "problem", inFolder ? { run, place }
    : { run, part: shown.set, name: shown.problem });
  if (ids && place < 0) return html`<p class="trouble">${run} has not met this problem</p>`;
  return html`<section class="through" data-run=${run}><h6>${run}</h6><${Trouble} of=${error ?? found.error} />
    ${found.moments && html`${run === shown.run && html`<pre class="prompt">${found.prompt}</pre>`}
    ${run === shown.run && found.answer !== null && html`<p class="facts">answer key <code
      class="key">${found.answer}</code></p>`}
    <div class="moments">${found.moments.map((moment) => html`<div class="moment" key=${moment.step + moment.table}>
      <a href="#" onClick=${(event) => { event.preventDefault(); openAt(run, moment); }}>step ${moment.step}</a>
      ${moment.columns.sample.map((sample, at) => html`<div class="answer ${verdict(moment.columns.accuracy[at])}">
        <small><${Mark} accuracy=${moment.columns.accuracy[at]} /> k ${sample}
        ${moment.columns.tokens ? `, ${moment.columns.tokens[at]} tokens` : ""}
        ${" "}${moment.columns.ended[at]}
        ${moment.columns.reward && moment.columns.reward[at] !== null ? ` reward ${signed(moment.columns.reward[at])}`
          : ""}</small>
        <pre>${moment.columns.response[at]}</pre></div>`)}</div>`)}</div>`}</section>`;
}

async function openAt(run, { step, table, group }) {
  const { columns } = await ask("samples", { run, step: String(step), table });
  const row = columns ? String(columns.group.indexOf(group)) : ""; // the step says why it cannot be shown
  show({ run, tab: "steps", step: String(step), table, row, ...FILTERS });
}

const COUNTS = { samples: "samples", changed: "other verdict", raised: "raised", lowered: "lowered", lost: "lost",
  ranks: "ranks", revived: "groups kept now", dropped: "groups dropped now", signs: "advantages of another sign" };

function Rescores({ rescores }) {
  const chosen = rescores.find((each) => each.name === shown.rescore) ?? rescores[0];
  const differing = chosen.steps.filter((each) => each.differs && each.step > 0).map((each) => each.step);
  const step = shown.judged || String(chosen.steps.find((each) => each.changed)?.step ?? chosen.steps[0]?.step ?? "");
  const found = useAnswer(step ? "verdicts" : null, { run: shown.run, name: chosen.name, step });
  return html`<label>judged again by <select aria-label="judged again by"
    onChange=${(event) => show({ rescore: event.target.value, judged: "" })}>
      ${rescores.map((each) => html`<option value=${each.name} selected=${each === chosen}>${each.overrides.join(" ")
        || "the same settings, files as they are now"}</option>`)}</select></label>
    <p>${differing.length ? `Training would have gone another way from step ${Math.min(...differing)} on.`
      : "The batches of these steps would have been the same."}</p>
    <div class="scroll"><table class="judged"><thead><tr><th>step</th>${Object.values(COUNTS).map((title) => html`
      <th>${title}</th>`)}</tr></thead>
    <tbody>${chosen.steps.map((each) => html`<tr key=${each.step} class=${String(each.step) === step ? "chosen" : ""}
      onClick=${() => show({ judged: String(each.step) })}>
      <td>${each.step}</td>${Object.keys(COUNTS).map((name) => html`
        <td>${each[name]}</td>`)}</tr>`)}</tbody></table></div>
    <h6>step ${step}: verdicts that changed${found.id?.length > MOST ? `, the first ${MOST}` : ""}</h6>
      <${Trouble} of=${found.error} />
    ${found.id && html`<table class="verdicts"><thead><tr><th>problem</th><th>k</th><th>verdict</th><th>reward</th>
      <th>answer key</th><th>prompt</th><th>response</th></tr></thead>
      <tbody>${found.id.slice(0, MOST).map((id, at) => html`<tr><td>${id}</td><td>${found.sample[at]}</td>
        <td><${Mark} accuracy=${found.accuracy_before[at]} /> → <${Mark} accuracy=${found.accuracy[at]} /></td>
        <td>${number(found.reward_before[at], 2)} → ${number(found.reward[at], 2)}</td>
          <td><code>${found.answer?.[at] ?? "–"}</code></td>
        <td class="whole">${found.prompt?.[at] ?? "–"}</td><td
          class="whole">${found.response[at]}</td></tr>`)}</tbody></table>`}`;
}
