"""Learner and engine in this process, and what a model says of how it is computed."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import pytest

from ares.workers.plain import InProcess
from ares.workers.workers import Workers


def test_an_error_of_whoever_is_told_of_finished_responses_is_raised() -> None:
    """It was printed, and a journal that could not be written was missed only after a kill."""
    told: list[int] = []

    def tell(part: int) -> None:
        told.append(part)
        if part == 1:
            raise OSError("no space left")

    with ThreadPoolExecutor(1) as turns:
        engine = InProcess(lambda: SimpleNamespace(generate=lambda: iter(range(3))), 1, turns)
        with pytest.raises(OSError, match="no space left"):
            asyncio.run(engine.stream(tell, "generate"))
        assert told == [0, 1, 2]
        assert asyncio.run(engine.stream(told.append, "generate")) == [0, 1, 2]


def test_a_note_is_a_warning_the_first_time(caplog: pytest.LogCaptureFixture) -> None:
    async def call(method: str) -> list[str]:
        assert method == "notes"
        return ["LlamaModel: rows are padded instead of packed"]

    workers: Any = SimpleNamespace(_said=set())
    for _ in range(2):
        asyncio.run(Workers._say_notes(workers, SimpleNamespace(call=call)))
    assert [record.levelname + " " + record.getMessage() for record in caplog.records] == [
        "WARNING LlamaModel: rows are padded instead of packed"
    ]
