"""Rewards and estimators of the user's own."""

from tests.e2e.wrong_inputs.row import FOLDER, GOOD, Wrong, reward

OWN_CODE: dict[str, Wrong] = {
    "a reward that is not there": reward("nowhere.py", "", "nowhere.py:score"),
    "a reward that is a directory": reward("r.py", FOLDER),
    "a reward without the function": reward("score", "def other(completions): return []"),
    "a reward that does not parse": reward("r.py", "def score(completions:\n"),
    "a reward of bytes": reward("r.py", b"\xff\xfe\x00"),
    "a reward whose import fails": reward("No module named 'no_such_module'", "import no_such_module"),
    "a reward that raises when read": reward("r.py:2", "\nraise ValueError('nothing works')"),
    "a reward that ends the process": reward("r.py", "import sys\nsys.exit(0)"),
    "a reward that is a number": reward("score", "score = 7"),
    "a reward that takes nothing": reward("score", "def score(): return []"),
    "a reward on another scale": reward("reward.accuracy=", "def score(completions, **k): return [5.0, -1.0]"),
    "a reward that is no number": reward("r.py:score gave 'yes'", "def score(solution_str, **k): return 'yes'"),
    "a reward for too few": reward("returned 1 scores for 2", "def score(completions, **k): return [1.0]"),
    "rewards without an accuracy": reward("reward.accuracy", "def score(completions, **k): pass", "[math, r.py:score]"),
    **{
        f"an estimator's file that {what}": Wrong(
            ["train", "good.yaml", f"algorithm.advantage.estimator=e.py:{name}", "--run", "new"],
            "e.py",
            GOOD | {"e.py": text},
        )
        for what, name, text in (
            ("lacks the class", "Other", "class E: ..."),
            ("has a class without methods", "E", "class E: ..."),
            ("raises", "E", "1 / 0"),
            ("does not parse", "E", "def"),
            ("is bytes", "E", b"\xff\xfe"),
            ("ends the process", "E", "raise SystemExit(0)"),
            ("calls itself", "E", "def f(): f()\nf()"),
            ("is a directory", "E", FOLDER),
        )
    },
}
