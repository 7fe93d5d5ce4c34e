"use strict";
// A step's samples: filters, the list, and one sample with its tokens, reward and tests.
const ROWS = 50; // on a page of the list
const SIGNS = [["1", "above 0"], ["-1", "below 0"], ["0", "0"]];
const TABLES = [["samples", "trained on"], ["evaluation", "held out"]];
const TableChoice = () => Choice({ name: "table", label: "samples", options: TABLES });

function Filters({ columns, parts, count, all }) {
  const values = (name) => [...new Set(columns[name] ?? [])].filter((value) => value).sort();
  const some = (name) => [["", "all"], ...values(name).map((value) => [value, value])];
  const Box = (name, label, type) => html`<label>${label}
    <input name=${name} type=${type} value=${shown[name]}
      onInput=${(event) => show({ [name]: event.target.value, row: "" })} /></label>`;
  return html`<form class="filters" onSubmit=${(event) => event.preventDefault()}>
    ${Choice({ name: "verdict", label: "verdict", options: [["", "all"], ...Object.keys(MARKS)
      .map((each) => [each, each])] })}
    ${columns.difficulty && Choice({ name: "bucket", label: "bucket", options: some("difficulty") })}
    ${values("ended").length > 0 && Choice({ name: "ended", label: "ended", options: some("ended") })}
    ${parts.length > 0 && Choice({ name: "part", label: "reward part", options: [["", "any"], ...parts
      .map((part) => [part, part.replace("reward_", "")])] })}
    ${shown.part && Choice({ name: "sign", label: "is", options: [["", "any"], ...SIGNS] })}
    ${columns.tokens && Box("shortest", "tokens from", "number")}${columns.tokens && Box("longest", "to", "number")}
    ${Box("text", "text in the response", "search")}
    <output>${count} of ${all}</output>
    <button type="button" class="secondary outline" onClick=${() => show({ ...FILTERS, row: "" })}>clear</button>
  </form>`;
}

// Numbers of the rows that the filters keep. matches: which rows have the text, or null.
function keep(columns, matches) {
  const { verdict: wanted, bucket, ended, part, sign, shortest, longest } = shown;
  return columns.id.map((_, row) => row).filter((row) =>
    (!wanted || verdict(columns.accuracy[row]) === wanted) &&
    (!bucket || columns.difficulty?.[row] === bucket) &&
    (!ended || columns.ended[row] === ended) &&
    (!part || !sign || (columns[part]?.[row] !== null && Math.sign(columns[part]?.[row]) === Number(sign))) &&
    (!shortest || columns.tokens?.[row] >= Number(shortest)) &&
    (!longest || columns.tokens?.[row] <= Number(longest)) &&
    (!matches || matches[row]));
}

// A reward as its parts, stacked to the right of zero, and below zero to the left. scale: the longest bar of the step.
function Parts({ row, parts, scale }) {
  const piece = (part, place) => html`<i class="part part${place % 6}"
    style=${{ width: `${(100 * Math.abs(row[part])) / scale}%` }}
    title="${part.replace("reward_", "")} ${signed(row[part])}"></i>`;
  const side = (sign) => parts.map((part, place) => Math.sign(row[part]) === sign && piece(part, place));
  return html`<span class="parts"><span class="below">${side(-1)}</span><span class="above">${side(1)}</span></span>`;
}

function scaleOf(columns, parts) {
  const longest = columns.id.map((_, row) => Math.max(...[1, -1].map((sign) =>
    parts.reduce((sum, part) => sum + Math.max(0, sign * (columns[part][row] ?? 0)), 0))));
  return Math.max(1e-9, longest.reduce((most, each) => Math.max(most, each), 0));
}

const rowOf = (columns, row) => Object.fromEntries(Object.entries(columns)
  .map(([name, values]) => [name, values[row]]));

function List({ columns, parts, kept, scale }) {
  const at = Math.max(0, kept.indexOf(Number(shown.row)));
  const [first, turn] = useState(0);
  useEffect(() => turn(Math.floor(at / ROWS) * ROWS), [at, kept]);
  const rows = kept.slice(first, first + ROWS);
  const here = useRef();
  useEffect(() => here.current?.scrollIntoView({ block: "nearest" }), [shown.row, first]);
  return html`<div class="list"><div class="scroll"><table>
    <thead><tr><th></th><th>problem</th><th>k</th>${columns.difficulty && html`<th>bucket</th>`}${parts.length > 0
      && html`<th>reward</th>`}
      ${columns.tokens && html`<th>tokens</th>`}<th>ended</th><th>response …</th></tr></thead>
    <tbody>${rows.map((row, place) => {
      const each = rowOf(columns, row);
      const isSame = place > 0 && columns.group[rows[place - 1]] === each.group;
      return html`<tr key=${row} data-row=${row}
        class=${`${row === kept[at] ? "chosen" : ""} ${isSame ? "" : "begins"}`}
        ref=${row === kept[at] ? here : null} onClick=${() => show({ row: String(row) })}>
        <td><${Mark} accuracy=${each.accuracy} /></td><td>${isSame ? "" : each.id}</td><td>${each.sample}</td>
        ${columns.difficulty && html`<td>${each.difficulty}</td>`}
        ${parts.length > 0 && html`<td><${Parts} row=${each} ...${{ parts, scale }} /> ${number(each.reward, 2)}</td>`}
        ${columns.tokens && html`<td class="amount">${each.tokens}</td>`}<td>${each.ended}</td><td
          class="excerpt"><bdi dir="ltr">${each.excerpt}</bdi></td></tr>`;
    })}</tbody></table></div>
    <nav class="turn"><button class="secondary outline" disabled=${first === 0}
      onClick=${() => turn(first - ROWS)}>◀</button>
      <small>${kept.length ? first + 1 : 0}–${Math.min(first + ROWS, kept.length)} of ${kept.length}</small>
      <button class="secondary outline" disabled=${first + ROWS >= kept.length}
        onClick=${() => turn(first + ROWS)}>▶</button></nav></div>`;
}

const COLOURS = {
  entropy: (tokens, at) => ["warm", 1 - Math.exp(-tokens.entropy?.[at])],
  "log-prob": (tokens, at) => ["warm", 1 - Math.exp(tokens.log_prob?.[at] / 2)],
  KL: (tokens, at) => sided(tokens.log_prob?.[at] - tokens.reference?.[at]),
  advantage: (tokens, at) => sided(tokens.advantage?.[at] / 2),
  none: () => ["warm", 0],
};
const sided = (value) => [value < 0 ? "cold" : "warm", Math.abs(value)];
const HOVER = {
  "entropy (nats)": (tokens, at) => tokens.entropy?.[at],
  "log-prob": (tokens, at) => tokens.log_prob?.[at],
  "log-prob of the engine": (tokens, at) => tokens.engine?.[at],
  "KL: log-prob − reference's": (tokens, at) => tokens.reference && tokens.log_prob[at] - tokens.reference[at],
  "KL coefficient": (tokens, at) => tokens.kl_coef?.[at],
  advantage: (tokens, at) => tokens.advantage?.[at],
};

function Tokens({ sample }) {
  const tokens = sample.token_rows;
  const [over, point] = useState(null);
  if (!tokens) return html`<${Plain} sample=${sample} />`;
  const moved = (event) => {
    const at = event.target.dataset.at;
    point(at === undefined ? null : { at: Number(at), x: event.clientX, y: event.clientY });
  };
  return html`<div class="colours">colour <select aria-label="colour"
    onChange=${(event) => show({ colour: event.target.value })}>
      ${Object.keys(COLOURS).map((name) => html`<option selected=${name === shown.colour}>${name}</option>`)}</select>
      ${tokens.hwe && html`<small><u class="hwe">underlined</u>: a high-entropy window begins</small>`}</div>
    <pre class="response tokens" onMouseMove=${moved} onMouseLeave=${() => point(null)}>${tokens.pieces
      .map((piece, at) => {
      const [tone, strength] = COLOURS[shown.colour](tokens, at);
      const marks = [tokens.hwe?.[at] && "hwe", tokens.trained?.[at] === 0 && "masked"].filter((mark) => mark);
      const style = { "--strength": `${Math.round(85 * Math.min(1, strength || 0))}%` };
      return html`<span class=${["token", tone, ...marks].join(" ")} data-at=${at} style=${style}>${piece}</span>`;
    })}</pre>
    ${over && html`<div class="tip"
      style=${{ left: `${Math.min(over.x, innerWidth - 260)}px`, top: `${over.y + 18}px` }}>
      <b>token ${over.at + 1} ${JSON.stringify(tokens.pieces[over.at])}${tokens.hwe?.[over.at] ? " HWE" : ""}</b>
      <table>${Object.entries(HOVER).map(([name, of]) => of(tokens, over.at) !== undefined && html`<tr><td>${name}</td>
        <td>${number(of(tokens, over.at))}</td></tr>`)}</table></div>`}`;
}

const Plain = ({ sample }) => html`<pre class="response">${sample.response}</pre>`;

// An episode turn by turn: what the environment said, which is not learnt from, is dim.
const Turns = ({ sample }) => html`<pre class="response">${JSON.parse(sample.transcript).map((turn, at) => html`
  <span>${`${at + 1}▸ ${turn.said}\n`}</span>
  ${[].concat(turn.heard).filter((heard) => heard).map((heard) => html`<span class="masked">${`${heard}\n`}</span>`)}`)}</pre>`;

// Ways to show a response, by title.
const VIEWS = { tokens: Tokens, text: Plain, turns: Turns };
const viewsOf = (sample) => Object.keys(VIEWS).filter((name) => name !== "turns" || sample.transcript);

function Tests({ sample, where }) {
  const said = useAnswer(sample.test_outcomes ? "tests" : null, where);
  if (!sample.test_outcomes) return null;
  return html`<h6>tests</h6><${Trouble} of=${said.error} /><table class="tests">${sample.test_outcomes
    .map((outcome, place) => html`<tr>
    <td class="mark ${outcome === "accepted" ? "right" : "wrong"}">${outcome === "accepted" ? "✓" : "✗"} ${outcome}</td>
    <td><code>${said.tests?.[place] ?? `test ${place + 1}`}</code></td></tr>`)}</table>`;
}

const TOLD = ["prompt", "response", "ground_truth", "test_outcomes", "token_rows", "id", "sample", "group",
  "media_references", "transcript"];

function Sample({ columns, parts, row, scale }) {
  const where = { run: shown.run, step: shown.step, table: shown.table, number: columns.group[row] };
  const found = useAnswer("group", where);
  const sample = found.samples?.find((each) => each.sample === columns.sample[row]);
  if (!sample) return html`<article class="sample" aria-busy=${!found.error}>
    <${Trouble} of=${found.error} /></article>`;
  const View = viewsOf(sample).includes(shown.view) ? VIEWS[shown.view] : Tokens;
  const mine = columns.group.map((_, at) => at).filter((at) => columns.group[at] === where.number);
  return html`<article class="sample">
    <header><strong>${sample.id}</strong> step ${shown.step}
      <span class="siblings">${mine.map((at) => html`<button class=${at === row ? "" : "outline"}
        title="sample ${columns.sample[at]}"
        onClick=${() => show({ row: String(at) })}>
          <${Mark} accuracy=${columns.accuracy[at]} />${columns.sample[at]}</button>`)}</span>
      <button class="through secondary outline"
        onClick=${() => showProblem(sample.id, shown.table === "evaluation" ? "evaluation" : "samples")}>through training (p)</button></header>
    ${(sample.media_references ?? []).map((each) => html`<p><small>media: ${each}</small></p>`)}
    <pre class="prompt">${sample.prompt}</pre>
    <p class="facts">answer key <code class="key">${sample.ground_truth ?? "–"}</code>
      <${Mark} accuracy=${sample.accuracy} /> ${verdict(sample.accuracy)} ${sample.ended}</p>
    ${parts.length > 0 && html`<p class="facts"><${Parts} row=${sample} ...${{ parts, scale }} />
      ${sample.reward === null ? "no reward" : html`reward ${signed(sample.reward)} = ${parts
        .filter((part) => sample[part] !== null).map((part) =>
        html`<span class="legend"><i
          class="part part${parts.indexOf(part) % 6}"></i>${part.replace("reward_", "")}
          ${" "}${signed(sample[part])}</span>`)}`}</p>`}
    <div class="views" role="tablist">${viewsOf(sample).map((name) => html`<button role="tab"
      aria-selected=${name === shown.view}
      class=${name === shown.view ? "" : "outline"} onClick=${() => show({ view: name })}>${name}</button>`)}</div>
    <${View} sample=${sample} />
    <${Trouble} of=${found.missing} />
    <${Tests} ...${{ sample, where }} />
    <details><summary>all values</summary><table class="values">${Object.entries(sample)
      .filter(([name]) => !TOLD.includes(name)).map(([name, value]) =>
      html`<tr><td>${name}</td><td>${typeof value === "number" ? number(value)
        : String(value)}</td></tr>`)}</table></details></article>`;
}

function Step({ curves }) {
  const where = { run: shown.run, step: shown.step, table: shown.table };
  const { columns, parts, error } = useAnswer("samples", where);
  const [matches, setMatches] = useState(null);
  const [failure, setFailure] = useState();
  useEffect(() => {
    let isWanted = true;
    const text = shown.text;
    setMatches(null);
    setFailure();
    const search = async () => {
      if (!text) return;
      const found = await ask("texts", where);
      if (!isWanted) return;
      setFailure(found.error);
      if (!found.error) setMatches(found.map((each) => each.toLowerCase().includes(text.toLowerCase())));
    };
    const later = setTimeout(search, 200);
    return () => { isWanted = false; clearTimeout(later); };
  }, [shown.text, shown.run, shown.step, shown.table]);
  const filters = Object.keys(FILTERS).map((name) => shown[name]).join("/");
  const kept = useMemo(() => (columns ? keep(columns, shown.text ? matches : null) : []), [columns, matches, filters]);
  const scale = useMemo(() => (columns ? scaleOf(columns, parts) : 1), [columns]);
  keyboard.kept = kept;
  const row = kept.includes(Number(shown.row)) && shown.row !== "" ? Number(shown.row) : kept[0];
  return html`<div class="where"><label>step <select aria-label="step"
    onChange=${(event) => show({ step: event.target.value, row: "" })}>
      ${curves.tables[shown.table].map((step) => html`<option
        selected=${String(step) === shown.step}>${step}</option>`)}</select></label>
    ${TableChoice()}</div>
    <${Trouble} of=${error ?? failure} />
    ${columns && html`<${Filters} ...${{ columns, parts }} count=${kept.length} all=${columns.id.length} />
      <div class="halves"><${List} ...${{ columns, parts, kept, scale }} />${row !== undefined && html`
        <${Sample} ...${{ columns, parts, row, scale }} />`}</div>`}`;
}
