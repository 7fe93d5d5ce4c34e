"""A turn of a shard's episodes, with an engine and an environment that say what they are told to."""

import asyncio
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd

from ares.config import EnvironmentConfig
from ares.data import OPENING
from ares.environments import Answer, Reply
from ares.store import Ref
from tasks.episodes import turn
from tasks.sampling import Draw
from tests.ares.builders import config, tokenizer


def test_thoughts_that_a_template_opens_are_thoughts_in_every_turn() -> None:
    """Calls in them were made if the response was cut off."""
    opened, closed = (tokenizer()(text, add_special_tokens=False)["input_ids"] for text in ("?<think>\n", "?"))
    row = {"id": "p", "prompt_token_ids": opened, OPENING: '{"row": {}, "seed": 1, "heard": "?"}'}
    answer = {"response": "a", "token_ids": np.array([5]), "log_probs": np.zeros(1), "finish_reason": "length"}
    heard, tables = list[list[str]](), list[pd.DataFrame]()

    async def sample(*_: Any, averaged: bool) -> pd.DataFrame:
        return pd.DataFrame([answer])

    def reply(episodes: Any, said: pd.DataFrame) -> tuple[list[Answer], list[list[int]]]:
        heard.append([*episodes[0].said, *said["response"]])
        return [Answer(Reply("go on"))], [[opened, closed, []][len(heard) - 1]]

    def write(path: str, rows: pd.DataFrame) -> Ref:
        tables.append(rows)
        return Ref(path=path, sha256="", bytes=0)

    settings = EnvironmentConfig(kind="x.py:X", max_turns=3)
    environment = SimpleNamespace(answer=reply, settings=settings, pool=SimpleNamespace(end=list))
    store = SimpleNamespace(read_rows=lambda place: tables[place], write_rows=write)
    run = SimpleNamespace(
        store=store, environment=environment, tokenizer=tokenizer(), config=config(),
        workers=SimpleNamespace(sample=sample),
        problems=lambda _: SimpleNamespace(rows=lambda ids: pd.DataFrame([row])),
    )  # fmt: skip
    step: Any = SimpleNamespace(run=run, config=run.config, number=1, path=str)
    draw = Draw(version=0, purpose="rollout", shard=0, first_slot=0, ids=["p"], n=1, temperature=1.0)
    for played in range(3):
        asyncio.run(turn.function(step, draw, list(range(played))))
    assert heard == [["<think>a"], ["<think>a", "<think>a"], ["<think>a", "<think>a", "a"]]
