"""Procedural tasks of reasoning-gym: a question is made again from its name, its answer scored by the task's scorer.

    reasoning_gym:chain_sum?size=2000&seed=7&max_terms=3     the task, how many questions, the first one, its settings
    reasoning_gym:chain_sum?size=2000&seed=7&level=1         the settings of its curriculum's second level

A question is pure in (task, settings, seed + index). Not covered: data sets of questions
(ares/data/procedural.py), where the answer stands in a response (rewards/math.py).
"""

import dataclasses
import functools
from difflib import get_close_matches
from typing import Any
from urllib.parse import parse_qsl

PREFIX = "reasoning_gym:"
SCORER = __file__
REFUSED = {
    "composite": "name its tasks one by one, as a list of sources",
    "game_of_life_halting": "its scorer pays every answer that is not empty",
} | dict.fromkeys(
    (
        "binary_matrix", "countdown", "intermediate_integration", "n_queens", "polynomial_multiplication",
        "puzzle24", "simple_integration", "spiral_matrix", "string_insertion",
    ),
    "its scorer evaluates the response as a Python expression",
) | dict.fromkeys(
    ("isomorphic_strings", "knight_swap", "ransom_note", "word_ladder"),
    "each process makes other questions or answers of it, as Python's hash seed is",
)  # fmt: skip
"""Tasks that are not trained on, and why (reasoning-gym 0.1.25)."""


@functools.lru_cache(maxsize=64)
def make_task(source: str) -> Any:
    """The reasoning-gym data set of a source. Raises ImportError without the package, ValueError for anything wrong."""
    from reasoning_gym.factory import CURRICULA, DATASETS  # takes two seconds, and most runs have no such task

    name, _, query = source.removeprefix(PREFIX).partition("?")
    if name in REFUSED:
        raise ValueError(f"the task {name} cannot be used: {REFUSED[name]}")
    if name not in DATASETS:
        raise ValueError(
            f"reasoning-gym has no task {name!r} (near it: {', '.join(get_close_matches(name, DATASETS))})"
        )
    task, configuration = DATASETS[name]
    known = {field.name: field.default for field in dataclasses.fields(configuration)}
    settings = {key: _value(text) for key, text in parse_qsl(query, strict_parsing=bool(query))}
    if unknown := settings.keys() - {*known, "level"}:
        raise ValueError(f"the task {name} has no setting {min(unknown)!r} (it has level, {', '.join(known)})")
    for key, value in settings.items():  # a text for a truth value would be true, and others fail later
        if isinstance(value, str) and isinstance(known.get(key), int | float):
            raise ValueError(f"the task {name} refuses its settings: {key} is not {value!r}")
    try:
        if "level" in settings:
            level = settings.pop("level")
            curriculum = CURRICULA[name]()
            curriculum.set_global_level(level)
            return task(config=curriculum.generate_configuration(settings))
        return task(config=configuration(**settings))
    except KeyError as error:
        raise ValueError(f"the task {name} has no curriculum, and so no levels") from error
    except (AssertionError, TypeError, ValueError) as error:  # how its configurations refuse a value
        raise ValueError(f"the task {name} refuses its settings: {error}") from error


def _value(text: str) -> Any:
    """A setting's value: a number, true or false, a list as 1,2,3; else text."""
    if "," in text:
        return [_value(each) for each in text.split(",")]
    if text in ("true", "false"):
        return text == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


@functools.lru_cache(maxsize=1024)
def _question(source: str, index: int) -> dict[str, Any]:
    """A question, made once for all its samples."""
    question: dict[str, Any] = make_task(source)[index]
    return question


def reasoning_gym(
    data_source: str, solution_str: str, ground_truth: str, extra_info: dict[str, Any]
) -> float | dict[str, Any]:
    """The task's own score of an answer, in [0, 1] (verl's signature); where its scorer raises, no score and the error.

    data_source: the source of the question; extra_info: {"index": its place there}; solution_str: the answer alone.
    """
    entry = _question(data_source, extra_info["index"])
    if entry["answer"] != ground_truth:
        raise ValueError(f"{data_source}: question {extra_info['index']} is another one now: another reasoning-gym?")
    try:
        return float(make_task(data_source).score_answer(solution_str or None, entry))
    except Exception as error:  # noqa: BLE001 (scorers raise whatever an answer makes them raise)
        return {"score": None, "error": f"{type(error).__name__}: {error}"}
