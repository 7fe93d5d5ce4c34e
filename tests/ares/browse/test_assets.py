"""What the page's components show, called as functions in node: tests/e2e/test_browse.py has a browser."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from ares.browse.pages import ASSETS

pytestmark = pytest.mark.skipif(shutil.which("node") is None, reason="needs node")


def run(script: str) -> Any:
    """What a script ends with that is run behind the page's own."""
    command = ["node", str(Path(__file__).with_name("page_in_node.js")), str(ASSETS), script]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout)


FORK = '{ name: "second", step: 4, fork: { run: "first", at: 2 }, settings: { "learner.lr": 1 } }'


@pytest.mark.parametrize(
    ("parent", "shown"),
    [
        ('{ name: "first", step: 3, settings: { "learner.lr": 2 } }', "learner.lr 2 → 1"),
        ('{ name: "first", problem: "run.json has changed" }', "run.json has changed"),
    ],
)
def test_the_tree_shows_a_fork_also_of_a_run_that_is_damaged(parent: str, shown: str) -> None:
    """The page stayed blank: the settings of the damaged run were compared with the fork's."""
    told = " ".join(" ".join(run(f"texts(Tree({{ runs: [{parent}, {FORK}] }}))")).split())
    assert shown in told
    assert "fork of first at step 2" in told


def test_a_run_whose_last_commit_is_damaged_can_be_compared_with_another() -> None:
    shown = run(f"""
        useAnswer = () => ({{ steps: [], metrics: {{}}, tables: {{}}, missing: ["damaged"], rescores: [] }});
        Curves = () => "curves";
        shown = {{ ...shown, run: "first", other: "second" }};
        texts(Run({{ runs: [{{ name: "first", problem: "its commit has changed" }}, {FORK}] }}))
    """)
    assert {"damaged", "curves"} <= set(shown)


@pytest.mark.parametrize(("sign", "order"), [(-1, "a e c b d"), (1, "b d c e a")])
def test_problems_without_an_accuracy_come_after_all_gains_or_before_them(sign: int, order: str) -> None:
    """One among them left the others in no order."""
    ids = run(f"""
        const names = ["a", "b", "c", "d", "e"], zeros = [0, 0, 0, 0, 0];
        useAnswer = () => ({{ id: names, set: names, times: zeros, first: zeros, last: zeros,
          accuracy_first: [0, null, .5, .25, .25], accuracy_last: [1, null, .5, null, .5] }});
        hooks.useState = (first) => [first.name ? {{ name: "gain", sign: {sign} }} : first, () => {{}}];
        texts(Problems()).filter((text) => names.includes(text))
    """)
    assert ids == order.split()


def test_a_search_marks_the_responses_of_the_step_that_is_shown() -> None:
    """The answer about the step before, if it came later, chose among the rows of this one."""
    found = run("""
        const told = {}, matches = [];
        let end = () => {};
        ask = (of, { step }) => new Promise((resolve) => { told[step] = resolve; });
        setTimeout = (search) => search();
        hooks.useState = (first) => [first, (value) => matches.push(value)];
        hooks.useEffect = (effect) => { end(); end = effect(); };
        for (const step of ["1", "2"]) {
          shown = { ...shown, text: "x", step };
          Step({ curves: { tables: { samples: [1, 2] } } });
        }
        told["2"](["an X"]);
        told["1"](["x", "y"]);
        Promise.resolve().then(() => 0).then(() => matches.filter((value) => Array.isArray(value)))
    """)
    assert found == [[True]]
