"""What a model says of how it is computed reaches the user, once."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from ares.workers.workers import Workers


class Learner:
    async def call(self, method: str) -> list[str]:
        assert method == "notes"
        return ["LlamaModel: rows are padded instead of packed"]


def test_a_note_is_a_warning_the_first_time(caplog: pytest.LogCaptureFixture) -> None:
    workers: Any = SimpleNamespace(_said=set())
    learner: Any = Learner()
    for _ in range(2):
        asyncio.run(Workers._say_notes(workers, learner))
    assert [record.levelname + " " + record.getMessage() for record in caplog.records] == [
        "WARNING LlamaModel: rows are padded instead of packed"
    ]
