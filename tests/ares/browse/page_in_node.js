"use strict";
// The page's scripts without a browser, to call its components as functions: node page_in_node.js ASSETS SCRIPT.
// Hooks have their first values, effects do not run, useAnswer has no answer; SCRIPT may put others in their place.
// SCRIPT ends with what is printed as JSON.
const fs = require("fs");
const path = require("path");
const vm = require("vm");
const [assets, script] = process.argv.slice(2);

// The texts that elements show, component by component.
function texts(node) {
  if (node === null || node === undefined || typeof node === "boolean") return [];
  if (Array.isArray(node)) return node.flatMap(texts);
  if (typeof node !== "object") return [String(node)];
  const { type, props, children } = node;
  return texts(typeof type === "function" ? type({ ...props, children }) : children);
}

const hooks = {
  useState: (first) => [first, () => {}], useEffect: () => {}, useRef: () => ({}), useMemo: (make) => make(),
};
const page = vm.createContext({
  hooks, texts, setTimeout, clearTimeout, queueMicrotask, URLSearchParams,
  preact: { h: (type, props, ...children) => ({ type, props, children }), render: () => {} },
  preactHooks: Object.fromEntries(Object.keys(hooks).map((name) => [name, (...given) => hooks[name](...given)])),
  htm: require(path.join(assets, "vendor", "htm.js")),
  document: { documentElement: { dataset: {} }, getElementById: () => null },
  location: { hash: "" }, matchMedia: () => ({ matches: false }), addEventListener: () => {},
});
for (const name of ["state", "charts", "samples", "problems", "page"]) {
  vm.runInContext(fs.readFileSync(path.join(assets, `${name}.js`), "utf8"), page, { filename: `${name}.js` });
}
vm.runInContext("useAnswer = () => ({})", page);
Promise.resolve(vm.runInContext(script, page)).then((result) => console.log(JSON.stringify(result)));
