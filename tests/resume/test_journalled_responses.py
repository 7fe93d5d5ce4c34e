"""A run killed while it samples, with an engine whose responses do not depend on each other: it asks for the rest."""

import signal
from pathlib import Path

import pytest

from tests.short_runs import assert_same, train

ENGINE = """
import time
from pathlib import Path

from ares.engines import TransformersEngine


class OneByOne(TransformersEngine):
    families = ("causal",)
    independent = True

    def stream(self, requests, settings):
        asked = Path(__file__).with_suffix(".asked")
        with asked.open("a") as file:
            file.write(f"{len(requests)}\\n")
        stalls = asked.with_suffix(".stalls").exists() and asked.read_text().splitlines().count("16") == 2
        for index, request in enumerate(requests):
            if stalls and index == 5:
                time.sleep(600)
            for some in super().stream([request], settings):
                yield [(index, completion) for _, completion in some]
"""


@pytest.mark.slow
def test_a_kill_amid_a_shard_that_is_the_whole_batch_loses_the_unfinished_responses_alone(tmp_path: Path) -> None:
    (tmp_path / "one_by_one.py").write_text(ENGINE)
    settings = [f"rollout.engine={tmp_path / 'one_by_one.py'}:OneByOne", "rollout.shard_prompts=4", "train.steps=2",
                "validation.every=4", "algorithm.filter.enabled=false"]  # fmt: skip
    asked = tmp_path / "one_by_one.asked"
    assert train(tmp_path, "whole", *settings) == 0
    assert asked.read_text().splitlines().count("16") == 2  # of steps 1 and 2: in the second it stalls
    asked.unlink()
    stalls = asked.with_suffix(".stalls")
    stalls.touch()
    assert train(tmp_path, "killed", *settings, kill_at="2:rollout:5") == -signal.SIGKILL
    stalls.unlink()
    (journal,) = (tmp_path / "killed" / "steps" / "000002").glob("*.journal")
    ended = len(journal.read_bytes().splitlines()) - 1  # the first line is the key
    asked.unlink()
    assert train(tmp_path, "killed", *settings) == 0
    assert ended == 5
    assert asked.read_text().splitlines()[0] == "11"
    assert_same(tmp_path, "whole", "killed")
