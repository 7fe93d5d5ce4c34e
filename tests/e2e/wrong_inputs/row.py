"""What a row of the tables of wrong inputs is: a command, the files around it, and what it must say."""

import json
from dataclasses import dataclass, field
from typing import Any

from ares.config.profiles import load
from tests.ares.builders import MODEL

Content = str | bytes | dict[str, Any] | list[Any] | None
"""A file's text, bytes, JSON, or rows of JSON; None is a directory."""
FOLDER = None
ROWS = [{"id": f"p{number}", "prompt": f"{number}+1=?", "answer": str(number + 1)} for number in range(20)]
PROFILE = f"""
extends: tiny-math
model: {{path: {MODEL}}}
data: {{train: rows.jsonl, validation: null}}
reward: {{kind: math}}
"""
GOOD: dict[str, Content] = {"good.yaml": PROFILE, "rows.jsonl": ROWS}


@dataclass(frozen=True)
class Wrong:
    """A command, the files around it, and what it must say."""

    command: str | list[str]
    told: str
    files: dict[str, Content] = field(default_factory=dict)
    lines: int = 1
    """How many lines it may take: one, but for lists of what differs."""


def train(told: str, *settings: str, **files: Content) -> Wrong:
    """`ares train` of a good profile on good rows, but for these settings and files (`rows_jsonl` is rows.jsonl)."""
    named = {name.replace("__", "/").replace("_", "."): content for name, content in files.items()}
    return Wrong(["train", "good.yaml", *settings, "--run", "new"], told, GOOD | named)


def profile(told: str, text: Content, **files: Content) -> Wrong:
    """`ares train` of a profile with this text."""
    named = {name.replace("__", "/").replace("_", "."): content for name, content in files.items()}
    return Wrong("train p.yaml --run new", told, {"p.yaml": text} | named)


def rows(told: str, *given: Any, settings: tuple[str, ...] = ()) -> Wrong:
    """`ares data check` of these rows."""
    return Wrong(["data", "check", "r.jsonl", *settings], told, {"r.jsonl": list(given)})


def model(told: str, change: dict[str, Content], *settings: str) -> Wrong:
    """`ares train` from a copy of the tiny model in which these files are others."""
    files: dict[str, Content] = {
        f"m/{file.name}": file.read_bytes() for file in MODEL.iterdir() if file.suffix != ".jsonl"
    }
    files |= {f"m/{name}": content for name, content in change.items()}
    return Wrong(["train", "good.yaml", "model.path=m", *settings, "--run", "new"], told, GOOD | files)


def reward(told: str, text: Content, kind: str = "r.py:score") -> Wrong:
    """`ares train` with a reward of one's own."""
    return Wrong(
        ["train", "good.yaml", f"reward.kind={kind}", "--run", "new"],
        told,
        {"good.yaml": PROFILE, "rows.jsonl": ROWS, "r.py": text},
    )


def run_json(told: str, command: str, content: Content) -> Wrong:
    """A command on a run whose run.json is this."""
    return Wrong(command, told, GOOD | {"runs/old/run.json": content})


VISION = MODEL.parent / "vision"
ROW = {"id": "a", "prompt": "1+1=?", "answer": "2"}
CONFIG_JSON = json.loads((MODEL / "config.json").read_text())
SOUND = {"config": load("tiny-math").model_dump(mode="json"), "digests": {"model": "none"}, "run": "old"}
