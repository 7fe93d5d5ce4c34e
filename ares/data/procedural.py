"""Problems that are made rather than read.

    reasoning_gym:chain_sum?size=2000&max_terms=3      questions of a procedural task of reasoning-gym
    episodes?size=2000                                 seeds alone: an environment makes a problem of each

Train sets start at question 0 and held-out sets at question 1,000,000, unless their source names a seed, so they share
no question. A row says which question it is (data_source, extra_info), so that its scorer can make it again. Not
covered: making and scoring questions (rewards/procedural.py); questions that only look the same (data.drop_shared).
"""

from typing import Any
from urllib.parse import parse_qsl, urlencode

import pandas as pd

from rewards.procedural import PREFIX, make_task

SIZE, FIRST_HELD_OUT = 500, 1_000_000
EPISODES = "episodes"


def is_procedural(source: str) -> bool:
    """Whether a source names a procedural task, or episodes."""
    return source.startswith(PREFIX) or source.partition("?")[0] == EPISODES


def read_procedural(source: str, limit: int | None, held_out: bool = False) -> pd.DataFrame:
    """The first `limit` questions of a source: prompt, answer, data_source, extra_info; of episodes id and seed.

    Raises ValueError.
    """
    name, _, query = source.partition("?")
    usual = {"size": SIZE, "seed": FIRST_HELD_OUT if held_out else 0}
    settings: dict[str, Any] = {**usual, **dict(parse_qsl(query, strict_parsing=bool(query)))}
    try:
        settings |= {name: int(settings[name]) for name in usual}
    except ValueError as error:
        raise ValueError(f"size and seed are whole numbers ({error})") from error
    if not 1 <= settings["size"] <= FIRST_HELD_OUT:  # a longer train set would hold the held-out questions
        raise ValueError(f"size is 1 to {FIRST_HELD_OUT}, not {settings['size']}")
    if name == EPISODES:
        return _episodes(settings, limit)
    opened = f"{name}?{urlencode(settings, safe=',')}"
    try:
        task = make_task(opened)
    except ImportError as error:
        raise ValueError(f"procedural tasks need reasoning-gym: pip install -e '.[real]' ({error})") from error
    count = len(task) if limit is None else min(limit, len(task))
    questions = [task[index] for index in range(count)]
    if unanswered := [index for index, question in enumerate(questions) if question["answer"] is None]:
        raise ValueError(f"question {unanswered[0]} has no reference answer, so the task cannot be used")
    return pd.DataFrame(
        {
            "prompt": [question["question"] for question in questions],
            "answer": [str(question["answer"]) for question in questions],
            "data_source": opened,
            "extra_info": [{"index": index} for index in range(count)],
        },
        index=pd.RangeIndex(1, count + 1),
    )


def _episodes(settings: dict[str, Any], limit: int | None) -> pd.DataFrame:
    if unknown := settings.keys() - {"size", "seed"}:
        raise ValueError(f"episodes have size and seed, no {min(unknown)!r}")
    size, first = settings["size"], settings["seed"]
    seeds = range(first, first + (size if limit is None else min(size, limit)))
    return pd.DataFrame({"id": list(map(str, seeds)), "seed": list(seeds)}, index=pd.RangeIndex(1, len(seeds) + 1))
