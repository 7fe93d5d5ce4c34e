"""Bits flipped, files cut short, emptied and deleted anywhere in a run directory: noticed, or without consequence.

A run that was interrupted in its last step is damaged in one file and resumed. Either it is refused in one message, or
it ends bit-identical to the run that nobody damaged. `python -m tests.resume.test_damage 1000` damages as many, and
prints a table. Learner and engine are in this process (tests/in_process.py). Not covered: processes that die
(test_kill_anywhere.py), several damages at a time.
"""

import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ares.errors import UserError
from ares.runs import fork
from ares.store import MEMO_FILE
from tests.in_process import run_in_this_process, train_here
from tests.shared_run import SMALL
from tests.short_runs import commits, told

SETTINGS = [*SMALL, "train.checkpoint_every=2", "rollout.prompts=2", "bootstrap.max_prompts=3",
            "validation.max_prompts=3"]  # fmt: skip
LAST = 4


def flipped(file: Path, draws: random.Random) -> None:
    content = bytearray(file.read_bytes())
    if content:
        content[draws.randrange(len(content))] ^= 1 << draws.randrange(8)
    file.write_bytes(content)


def cut_short(file: Path, draws: random.Random) -> None:
    content = file.read_bytes()
    file.write_bytes(content[: draws.randrange(len(content))] if content else b"")


def emptied(file: Path, draws: random.Random) -> None:
    file.write_bytes(b"")


def deleted(file: Path, draws: random.Random) -> None:
    file.unlink()


DAMAGES: list[Callable[[Path, random.Random], None]] = [flipped, flipped, flipped, cut_short, emptied, deleted]


def digests(runs: Path, name: str) -> list[str]:
    return [commit.digest() for commit in commits(runs, name)]


def interrupt(runs: Path) -> Path:
    """Train a run, and a copy whose last step has all its kept results and no commit; the copy."""
    train_here("tiny-math", SETTINGS, "whole")
    shutil.copytree(runs / "whole", runs / "interrupted")
    (runs / f"interrupted/steps/{LAST:06d}/COMMIT.json").unlink()
    return runs / "interrupted"


def kind(file: Path) -> str:
    """What a file of the run directory belongs to, for the table: `COMMIT`, `rollout`, `phases`, …"""
    if file.parts[0] in ("steps", "bootstrap"):
        return file.parts[2 if file.parts[0] == "steps" else 1].partition(".")[0].partition("-")[0]
    return file.parts[0].partition(".")[0]


def outcome(runs: Path, source: Path, number: int, chosen: str | None = None) -> tuple[str, str]:
    """Damage a file (of a kind) in the number-th copy and resume it: what was damaged, and what came of it."""
    draws = random.Random(f"damage {number}")
    shutil.copytree(source, runs / "damaged")
    try:
        files = sorted(path for path in (runs / "damaged").rglob("*") if path.is_file() and path.name != "lock")
        # A kind first: else nearly all would be results of the bootstrap.
        kinds = sorted({kind(file.relative_to(runs / "damaged")) for file in files})
        chosen = chosen or draws.choice(kinds)
        file = draws.choice([file for file in files if kind(file.relative_to(runs / "damaged")) == chosen])
        damage = draws.choice(DAMAGES)
        damage(file, draws)
        where = f"{number}: {file.relative_to(runs / 'damaged')} {damage.__name__}"
        try:
            train_here("tiny-math", SETTINGS, "damaged")
        except UserError as error:
            if len(str(error).splitlines()) > 8:
                raise AssertionError(f"{where}: {error}") from error
            return chosen, "refused"
        except Exception as error:
            raise AssertionError(f"{where}: {type(error).__name__}: {error}") from error
        assert digests(runs, "damaged") == digests(runs, "whole"), f"{where}: other bits"
        return chosen, "bit-identical"
    finally:
        shutil.rmtree(runs / "damaged")


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A directory with the runs `whole` and `interrupted`."""
    directory = tmp_path_factory.mktemp("damage")
    with pytest.MonkeyPatch.context() as patch:
        run_in_this_process(directory, patch)
        interrupt(directory)
        yield directory


@pytest.fixture
def copy(directory: Path) -> Iterator[Path]:
    """A copy of `interrupted`, to damage."""
    yield shutil.copytree(directory / "interrupted", directory / "copy")
    shutil.rmtree(directory / "copy")


FAST = ("rollout", "phases", "COMMIT", "checkpoints")
SLOW = ("score", "experience", "batch", "samples", "evaluation")


@pytest.mark.parametrize("chosen", [*FAST, *(pytest.param(each, marks=pytest.mark.slow) for each in SLOW)])
def test_damage_of_any_kind_of_file_is_noticed_and_repaired(directory: Path, chosen: str) -> None:
    number = [*FAST, *SLOW].index(chosen)
    assert outcome(directory, directory / "interrupted", number, chosen) == (chosen, "bit-identical")


def test_verify_names_what_is_damaged_and_where_a_resume_begins(directory: Path, copy: Path) -> None:
    assert told(directory, "verify", "whole").returncode == 0
    ended = told(directory, "verify", "copy")
    assert (ended.returncode, "0 damaged; resumes after step 3" in ended.stdout) == (0, True)

    draws = random.Random(0)
    flipped(copy / f"steps/{LAST - 1:06d}/batch.safetensors", draws)
    cut_short(copy / f"steps/{LAST:06d}" / MEMO_FILE, draws)
    deleted(copy / "steps/000001/samples.parquet", draws)
    flipped(copy / "steps/000001" / MEMO_FILE, draws)
    flipped(copy / "steps/000002/rollout-rollout-0000.parquet", draws)
    ended = told(directory, "verify", "copy")
    assert ended.returncode == 1
    samples, batch, lines, rollout, result, summary = ended.stdout.splitlines()
    assert samples == "steps/000001/samples.parquet is missing"
    assert batch == "steps/000003/batch.safetensors has changed since it was written"
    assert lines == f"steps/000001/{MEMO_FILE} is damaged"
    assert rollout == "steps/000002/rollout-rollout-0000.parquet has changed since it was written"
    assert result == f"steps/{LAST:06d}/{MEMO_FILE} is damaged"
    assert summary.endswith("5 damaged; resumes after step 2")

    flipped(copy / "steps/000002/COMMIT.json", draws)
    ended = told(directory, "verify", "copy")
    for step in (2, 3):
        assert f"steps/{step:06d}/COMMIT.json is damaged, or does not follow from" in ended.stdout
    assert "resumes after step 1" in ended.stdout
    flipped(copy / "run.json", draws)
    ended = told(directory, "verify", "copy")
    assert (ended.returncode, "run.json" in ended.stderr) == (2, True)


def test_what_a_fork_shares_is_not_done_again_with_its_settings(directory: Path) -> None:
    """A fork whose shared past was damaged went on from before it, with other settings than that was made with."""
    fork("whole", 3, None, ["learner.lr=0.0001"], "fork", directory)
    shared = directory / "fork/steps/000003/COMMIT.json"
    shared.unlink()
    with pytest.raises(UserError, match="'fork': step 3, which it shares with 'whole', is damaged; fork 'whole' again"):
        train_here("tiny-math", [*SETTINGS, "learner.lr=0.0001"], "fork")
    shutil.copy2(directory / "whole/steps/000003/COMMIT.json", shared)
    train_here("tiny-math", [*SETTINGS, "learner.lr=0.0001"], "fork")
    assert digests(directory, "fork")[:4] == digests(directory, "whole")[:4]


@pytest.mark.slow
def test_a_step_that_ends_differently_takes_nothing_from_the_steps_that_followed_it(directory: Path) -> None:
    """As on a GPU, or where a program meets its time limit. The steps after it took the kept rollouts, held-out
    accuracies and checkpoints of the policy that it had replaced."""
    (directory / "right").write_text("0")
    reward = directory / "reward.py"
    reward.write_text(
        "from pathlib import Path\n\n\n"
        "def compute_score(data_source, solution_str, ground_truth, extra_info):\n"
        f"    return float(len(solution_str) % 2 == int(Path({str(directory / 'right')!r}).read_text()))\n"
    )
    settings = [*SETTINGS, f"reward.kind={reward}:compute_score", "algorithm.filter.enabled=false", "train.steps=3"]
    train_here("tiny-math", settings, "redone")
    for scores in (directory / "redone/steps/000002").glob("score-rollout-*"):
        scores.unlink()
    (directory / "redone/steps/000002/batch.safetensors").unlink()
    shutil.rmtree(directory / "redone/checkpoints")
    shutil.copytree(directory / "redone", directory / "fresh")
    for step in (2, 3):
        (directory / f"fresh/steps/{step:06d}/phases.jsonl").unlink()
    (directory / "right").write_text("1")
    before = digests(directory, "redone")
    train_here("tiny-math", settings, "redone")
    train_here("tiny-math", settings, "fresh")
    assert digests(directory, "redone")[2] != before[2]
    assert digests(directory, "redone") == digests(directory, "fresh")


def main(first: int, count: int) -> None:
    """Damage so many copies and print how often which came of it."""
    counted: Counter[tuple[str, str]] = Counter()
    failed, started = [], time.monotonic()
    with tempfile.TemporaryDirectory() as directory, pytest.MonkeyPatch.context() as patch:
        runs = Path(directory)
        run_in_this_process(runs, patch)
        source = interrupt(runs)
        for number in range(first, first + count):
            try:
                what, came = outcome(runs, source, number)
                counted[what, came] += 1
            except AssertionError as error:
                failed.append(str(error))
                sys.stdout.write(f"FAILED {error}\n")
    for what in sorted({what for what, _ in counted}):
        sys.stdout.write(f"| {what} | {counted[what, 'bit-identical']} | {counted[what, 'refused']} |\n")
    sys.stdout.write(f"{count} damages, {len(failed)} failed, {time.monotonic() - started:.0f} s\n")


if __name__ == "__main__":
    main(int(sys.argv[2]) if len(sys.argv) > 2 else 0, int(sys.argv[1]))
