"use strict";
// A run's problems, and one of them through training, in one run or beside another.
async function showProblem(id) {
  const { id: ids = [] } = await ask("problems", { run: shown.run });
  show({ tab: "problem", problem: id, place: String(ids.indexOf(id)) });
}

function Problems() {
  const found = useAnswer("problems", { run: shown.run });
  const [wanted, want] = useState("");
  const [order, sort] = useState({ name: "", sign: 1 });
  if (!found.id) return html`<p aria-busy=${!found.error}>${found.error ? "" : "reading which problems each step met …"}</p><${Trouble} of=${found.error} />`;
  const rows = found.id.map((_, at) => at).filter((at) => found.id[at].includes(wanted));
  const gain = (at) => (found.accuracy_last[at] ?? NaN) - (found.accuracy_first[at] ?? NaN);
  const value = (at) => (order.name === "gain" ? gain(at) : found[order.name][at]);
  if (order.name) rows.sort((a, b) => order.sign * (value(a) < value(b) ? -1 : value(a) > value(b) ? 1 : 0));
  const Head = (name, title) => html`<th><a href="#" onClick=${(event) => { event.preventDefault(); sort({ name, sign: order.name === name ? -order.sign : 1 }); }}>${title}</a></th>`;
  return html`<label>problem <input type="search" value=${wanted} onInput=${(event) => want(event.target.value)} /></label>
    <p><small>${rows.length} problems${rows.length > 500 ? ", the first 500 are listed" : ""}</small></p>
    <table class="problems"><thead><tr>${Head("id", "problem")}${Head("table", "set")}${Head("times", "steps")}${Head("first", "first")}${Head("last", "last")}
      ${Head("accuracy_first", "accuracy then")}${Head("accuracy_last", "now")}${Head("gain", "gain")}</tr></thead>
    <tbody>${rows.slice(0, 500).map((at) => html`<tr key=${at} onClick=${() => show({ tab: "problem", problem: found.id[at] })}>
      <td>${found.id[at]}</td><td>${found.table[at] === "samples" ? "trained on" : "held out"}</td><td>${found.times[at]}</td><td>${found.first[at]}</td><td>${found.last[at]}</td>
      <td>${number(found.accuracy_first[at], 2)}</td><td>${number(found.accuracy_last[at], 2)}</td><td>${number(gain(at), 2)}</td></tr>`)}</tbody></table>`;
}

function Problem() {
  return html`<h5>${shown.problem}</h5>${[shown.run, shown.other].filter((name) => name).map((run) => html`<${Through} key=${run} run=${run} />`)}`;
}

function Through({ run }) {
  const { id: ids, error } = useAnswer("problems", { run });
  const place = ids ? ids.indexOf(shown.problem) : -1;
  const found = useAnswer(place < 0 ? null : "problem", { run, place });
  if (ids && place < 0) return html`<p class="trouble">${run} has not met this problem</p>`;
  return html`<section class="through" data-run=${run}><h6>${run}</h6><${Trouble} of=${error ?? found.error} />
    ${found.moments && html`<pre class="prompt">${found.prompt}</pre><p class="facts">answer key <code class="key">${found.answer ?? "–"}</code></p>
    <div class="moments">${found.moments.map((moment) => html`<div class="moment" key=${`${moment.step}${moment.table}`}>
      <a href="#" onClick=${(event) => { event.preventDefault(); openAt(run, moment); }}>step ${moment.step}${moment.table === "evaluation" ? ", held out" : ""}</a>
      ${moment.columns.sample.map((sample, at) => html`<div class="answer ${verdict(moment.columns.accuracy[at])}">
        <small><${Mark} accuracy=${moment.columns.accuracy[at]} /> k ${sample}${moment.columns.tokens ? `, ${moment.columns.tokens[at]} tokens` : ""} ${moment.columns.ended[at]}
        ${moment.columns.reward && moment.columns.reward[at] !== null ? ` reward ${signed(moment.columns.reward[at])}` : ""}</small>
        <pre>${moment.columns.response[at]}</pre></div>`)}</div>`)}</div>`}</section>`;
}

async function openAt(run, { step, table, group }) {
  const { columns } = await ask("samples", { run, step: String(step), table });
  show({ run, tab: "steps", step: String(step), table, row: String(columns.group.indexOf(group)), ...FILTERS });
}
