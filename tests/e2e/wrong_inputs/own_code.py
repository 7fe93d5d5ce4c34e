"""Rewards and estimators of the user's own. Not covered: each way in which a file fails (test_extensions.py)."""

from tests.e2e.wrong_inputs.row import FOLDER, GOOD, Wrong, reward

OWN_CODE: dict[str, Wrong] = {
    "a reward that is not there": reward("there is no Python file nowhere.py in /", "", "nowhere.py:score"),
    "a reward that is a directory": reward("r.py", FOLDER),
    "a reward without the function": reward("score", "def other(completions): return []"),
    "a reward of bytes": reward("r.py", b"\xff\xfe\x00"),
    "a reward that raises when read": reward("r.py:2", "\nraise ValueError('nothing works')"),
    "a reward that ends the process": reward("r.py", "import sys\nsys.exit(0)"),
    "a reward that takes nothing": reward("(verl); its parameters: none", "def score(): return 1.0"),
    "a reward that is a number": reward("score", "score = 7"),
    "a reward on another scale": reward("reward.accuracy=", "def score(completions, **k): return [5.0, -1.0]"),
    "a reward that is no number": reward("r.py:score gave 'yes'", "def score(solution_str, **k): return 'yes'"),
    "a reward for too few": reward("returned 1 scores for 2", "def score(completions, **k): return [1.0]"),
    "rewards without an accuracy": reward("reward.accuracy", "def score(completions, **k): pass", "[math, r.py:score]"),
    **{
        f"an estimator's file that {what}": Wrong(
            ["train", "good.yaml", "algorithm.advantage.estimator=e.py:E", "--run", "new"],
            "e.py",
            GOOD | {"e.py": text},
        )
        for what, text in (
            ("is bytes", b"\xff\xfe"),
            ("calls itself", "def f(): f()\nf()"),
            ("is a directory", FOLDER),
        )
    },
}
