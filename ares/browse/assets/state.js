"use strict";
// What is shown (it is the address, so a view can be sent), and the answers that views are made of.
// Text of samples reaches the page only as text nodes: preact escapes what html`` is given.
const { h, render } = preact;
const { useState, useEffect, useRef, useMemo } = preactHooks;
const html = htm.bind(h);

const FILTERS = { verdict: "", bucket: "", ended: "", part: "", sign: "", shortest: "", longest: "", text: "" };
const START = {
  run: "", other: "", tab: "steps", step: "", table: "samples", row: "", problem: "", set: "samples", rescore: "",
  judged: "", colour: "entropy", view: "tokens", curves: "", ...FILTERS,
};
const readAddress = () => ({ ...START, ...Object.fromEntries(new URLSearchParams(location.hash.slice(1))) });
let shown = readAddress();

function show(changes) {
  shown = { ...shown, ...changes };
  const told = Object.entries(shown).filter(([name, value]) => value !== START[name]);
  history.replaceState(null, "", "#" + new URLSearchParams(told));
  draw();
}

// Answers: of a server as JSON; in a folder, data/NAME.js calls answered(). Each is asked for once.
const inFolder = document.documentElement.dataset.folder !== undefined;
const answers = new Map();
const waiting = {};
function answered(key, answer) { waiting[key]?.(answer); }

function ask(of, values = {}) {
  const key = [of, ...Object.values(values)].join("/");
  if (!answers.has(key)) answers.set(key, inFolder ? load(key) : fetched(of, values));
  return answers.get(key);
}

async function fetched(of, values) {
  try {
    return await (await fetch("answer?" + new URLSearchParams({ of, ...values }))).json();
  } catch {
    return { error: "no answer: ares browse has ended, or its terminal says what went wrong" };
  }
}

function load(key) {
  return new Promise((resolve) => {
    const script = document.createElement("script");
    waiting[key] = resolve;
    script.onerror = () => resolve({ error: `data/${key}.js is not in this folder` });
    script.src = `data/${key}.js`;
    document.head.append(script);
  });
}

// The answer, or {} while it is on its way; `of` null asks nothing.
function useAnswer(of, values = {}) {
  const key = of && [of, ...Object.values(values)].join("/");
  const [found, setFound] = useState({ key: null, answer: {} });
  useEffect(() => {
    let isWanted = true;
    if (of) ask(of, values).then((answer) => isWanted && setFound({ key, answer }));
    return () => { isWanted = false; };
  }, [key]);
  return of && found.key === key ? found.answer : {};
}

const number = (value, digits = 4) =>
  value === null || value === undefined ? "–" : Number.isInteger(value) ? String(value) : value.toFixed(digits);
const signed = (value) => (value >= 0 ? "+" : "−") + Math.abs(value).toFixed(4);
const verdict = (accuracy) =>
  accuracy === null || accuracy === undefined ? "unscored" : accuracy >= 1 ? "right" : accuracy <= 0 ? "wrong"
    : "partly";
const MARKS = { right: "✓", wrong: "✗", partly: "◐", unscored: "?" };
const Mark = ({ accuracy }) =>
  html`<b class="mark ${verdict(accuracy)}" title=${verdict(accuracy)}>${MARKS[verdict(accuracy)]}</b>`;
const Trouble = ({ of }) => of && html`<p class="trouble" role="alert">${of}</p>`;
const Choice = ({ name, label, options }) => html`<label>${label}
  <select name=${name} value=${shown[name]} onChange=${(event) => show({ [name]: event.target.value, row: "" })}>
    ${options.map(([value, title]) => html`<option value=${value} selected=${shown[name] === value}>${title}</option>`)}
  </select></label>`;
