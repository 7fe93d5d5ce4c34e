"""A run killed while it samples, with an engine whose responses do not depend on each other: it asks for the rest."""

import signal
from pathlib import Path

import pytest

from tests.short_runs import assert_same, train

ENGINE = """
from pathlib import Path

from ares.engines import TransformersEngine


class OneByOne(TransformersEngine):
    families = ("causal",)
    independent = True

    def stream(self, requests, settings):
        with Path(__file__).with_suffix(".asked").open("a") as asked:
            asked.write(f"{len(requests)}\\n")
        for index, request in enumerate(requests):
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
    asked.unlink()
    assert train(tmp_path, "killed", *settings, kill_at="2:rollout:0.3") == -signal.SIGKILL
    (journal,) = (tmp_path / "killed" / "steps" / "000002").glob("*.journal")
    ended = len(journal.read_bytes().splitlines()) - 1  # the first line is the key
    asked.unlink()
    assert train(tmp_path, "killed", *settings) == 0
    assert 0 < ended < 16
    assert asked.read_text().splitlines()[0] == str(16 - ended)
    assert_same(tmp_path, "whole", "killed")
