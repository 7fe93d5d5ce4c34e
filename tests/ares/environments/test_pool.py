"""Environments in processes of their own: time limits, deaths, rebuilt episodes, independence of each other."""

import os
import random
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import date
from pathlib import Path

import numpy as np
import pytest

from ares.config import ConfigError, EnvironmentConfig
from ares.environments import Answer, EnvironmentPool, Episode, Reply

COUNTING = """
import os, random, sys, time
import numpy as np
from ares.environments import Reply

class Counting:
    def __init__(self, start: int = 0):
        self.count = start
    def reset(self, row, seed):
        return f"count from {self.count} {row.get('task', '')}".strip()
    def step(self, text):
        self.count += 1
        return eval(text) if text.startswith(("Reply", "[")) else Reply(f"{text} {self.count}", reward=self.count)
"""
Open = Callable[..., EnvironmentPool]


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Open]:
    """The pool of a class, the last one of a file with this text; closed after the test."""
    pools = []

    def pool(text: str = COUNTING, name: str = "Counting", **settings: object) -> EnvironmentPool:
        (tmp_path / "game.py").write_text(text)
        given = {"kind": f"{tmp_path}/game.py:{name}", "processes": 1, "timeout": 5.0} | settings
        pools.append(EnvironmentPool(EnvironmentConfig.model_validate(given)))
        return pools[-1]

    yield pool
    for each in pools:
        each.close()


def episodes(count: int, **columns: object) -> list[Episode]:
    return [Episode(f"episode {number}", {"id": f"row {number}"} | columns, number) for number in range(count)]


def digest(answer: Answer) -> str:
    assert answer.reply is not None, answer.error
    return answer.reply.digest()


def begin(pool: EnvironmentPool, some: list[Episode]) -> list[Episode]:
    """Episodes after their resets."""
    return [replace(each, heard=(digest(answer),)) for each, answer in zip(some, pool.reset(some), strict=True)]


def played(pool: EnvironmentPool, some: list[Episode], *texts: str) -> list[Episode]:
    """Episodes after these responses."""
    for text in texts:
        answers = pool.step(some, [text] * len(some))
        some = [
            replace(each, said=(*each.said, text), heard=(*each.heard, digest(answer)))
            for each, answer in zip(some, answers, strict=True)
        ]
    return some


def said(answers: list[Answer]) -> list[str | tuple[str, ...]]:
    return [answer.error or answer.reply.observation for answer in answers]


def test_episodes_are_answered_side_by_side_in_the_order_asked(opened: Open) -> None:
    pool = opened(processes=2, settings={"start": 10})
    some = episodes(5)
    assert pool.reset(some) == [Answer(Reply("count from 10"))] * 5
    assert said(pool.step(some, list("abcde"))) == ["a 11", "b 11", "c 11", "d 11", "e 11"]
    pool.end(each.key for each in some[:2])
    later = [replace(each, said=("x",)) for each in reversed(some)]
    assert said(pool.step(later, list("edcba"))) == ["e 12", "d 12", "c 12", "b 12", "a 12"]


FAILURES = {
    "[time.sleep(60)]": "took more than 0.5 s",
    "[os._exit(3)]": "its process died",
    "[sys.exit(3)]": "SystemExit: 3",
    "[(_ for _ in ()).throw(KeyboardInterrupt)]": "KeyboardInterrupt",
    "[1 / 0]": "ZeroDivisionError: division by zero",
    "[5]": "TypeError: step returned a value of type list, not a Reply (from ares.environments import Reply)",
    "Reply(None)": "TypeError: an observation is text, not a value of type NoneType",
    "Reply(('a', b'b'))": "TypeError: an observation is text, not a value of type bytes",
    "Reply('', reward=float('nan'))": "ValueError: the reward is nan, not a finite number",
    "Reply('', reward='1')": "TypeError: the reward is a number or None, not a value of type str",
    "Reply('', success=1.5)": "ValueError: success lies in [0, 1] (got 1.5)",
    "Reply('', metrics={'x': float('inf')})": "ValueError: the metric x is inf, not a finite number",
}  # fmt: skip


def test_what_fails_has_an_error_in_one_line_and_the_others_of_its_process_are_rebuilt(
    opened: Open, tmp_path: Path
) -> None:
    pool = opened(timeout=0.5)
    names = [*FAILURES, "fine"]
    some = played(pool, begin(pool, episodes(len(names))), "a")
    answers = pool.step(some, names)
    assert answers[-1].reply == Reply("fine 2", reward=2.0)
    for place, (answer, why) in enumerate(zip(answers, FAILURES.values(), strict=False)):
        start = f"environment {tmp_path}/game.py:Counting, row 'row {place}', turn 2: "
        assert answer.reply is None
        assert answer.error.startswith(start)
        assert answer.error.endswith(why)
        assert "\n" not in answer.error
    assert f"{tmp_path}/game.py:13 in step: KeyboardInterrupt" in answers[3].error


def test_a_forked_process_says_nothing_and_one_that_dies_between_calls_is_nobodys_error(opened: Open) -> None:
    pool = opened()
    some = begin(pool, episodes(2))
    assert said(pool.step(some, ["Reply(str(os.fork() and 1))", "a"])) == ["1", "a 1"]
    some = begin(pool, episodes(2))
    late = "[__import__('threading').Timer(0.1, os._exit, [1]).start()] and Reply('late')"
    assert said(pool.step(some, ["a", late])) == ["a 1", "late"]
    time.sleep(0.4)
    assert said(pool.step([replace(some[0], said=("a",))], ["b"])) == ["b 2"]


def test_an_episode_is_rebuilt_anywhere_from_what_was_said(opened: Open) -> None:
    pool = opened()
    some = played(pool, begin(pool, episodes(2)), "a", "b", "c")
    assert said(opened().step(some, ["d", "e"])) == ["d 4", "e 4"]
    turn_2 = [replace(each, said=each.said[:1], heard=each.heard[:2]) for each in some]
    assert said(pool.step(turn_2, ["d", "e"])) == ["d 2", "e 2"]  # the phase is run again
    assert said(pool.step(turn_2, ["d", "e"])) == ["d 2", "e 2"]


def test_one_that_answers_differently_is_not_reproducible_and_named_with_its_row_and_turn(opened: Open) -> None:
    changing = COUNTING.replace("reward=self.count", "reward=time.monotonic()")
    pool = opened(changing)
    some = played(pool, begin(pool, episodes(1)), "a")
    [answer] = opened(changing).step(some, ["b"])
    assert answer.error.endswith(
        "game.py:Counting, row 'row 0', turn 1: not reproducible: "
        "it answered differently to the same row, seed and responses"
    )
    [answer] = opened(changing.replace("count from", "from")).reset(some)
    assert "row 'row 0', reset: not reproducible" in answer.error


RANDOM = COUNTING.replace("self.count += 1", "self.count += random.random() + np.random.rand()").replace(
    "return f", "random.seed(seed); np.random.seed(seed); return f"
)


@pytest.mark.parametrize(
    "text", [RANDOM, RANDOM.replace("random.seed(seed); np.random.seed(seed); ", "")], ids=["seeds", "does not"]
)
def test_global_generators_are_each_episodes_own_whether_it_seeds_them_or_not(text: str, opened: Open) -> None:
    ours = random.getstate(), np.random.get_state()[1].tolist()
    pool = opened(text)
    together = played(pool, begin(pool, episodes(3)), "a", "b")
    for each in reversed(episodes(3)):
        alone = opened(text)
        assert played(alone, begin(alone, [each]), "a", "b") == [together[each.seed]]
    assert len({each.heard for each in together}) == 3
    assert (random.getstate(), np.random.get_state()[1].tolist()) == ours


def test_the_order_of_a_set_of_strings_is_the_same_in_every_process(opened: Open) -> None:
    hashes = [said(pool.step(episodes(1), ["Reply(str(hash('a')))"])) for pool in (opened(), opened())]
    assert hashes[0] == hashes[1]


def test_rows_cross_as_plain_values(opened: Open) -> None:
    task = {"array": np.arange(2), "day": date(2026, 1, 2), "bytes": b"\xff", "nested": [np.float32(0.5), None]}
    [answer] = opened().reset(episodes(1, task=task))
    plain = {"array": [0, 1], "day": "2026-01-02", "bytes": "/w==", "nested": [0.5, None]}
    assert answer.reply == Reply(f"count from 0 {plain}")


def test_a_rows_column_names_its_environment(opened: Open, tmp_path: Path) -> None:
    (tmp_path / "other.py").write_text("class Echo:\n    reset = step = lambda *_: None\n")
    some = episodes(2)
    some[0].row["environment"] = f"{tmp_path}/other.py:Echo"
    some[1].row["environment"] = float("nan")  # as pandas has an empty cell
    assert said(opened().reset(some)) == ["", "count from 0"]
    some[0].row["environment"] = "chess"
    assert opened().reset(some)[0].error.startswith("environment chess, row 'row 0', reset: 'chess' is not")


def test_what_it_prints_goes_where_the_runs_output_goes_and_there_is_no_input(
    opened: Open, capfd: pytest.CaptureFixture[str]
) -> None:
    pool = opened()
    assert said(pool.step(episodes(1), ["[print('seen')] and Reply('a')"])) == ["a"]
    assert said(pool.step(episodes(1), ["[os.write(1, b'too')] and Reply('a')"])) == ["a"]
    assert capfd.readouterr().out == "seen\ntoo"
    assert "EOFError" in said(pool.step(episodes(1), ["[input()]"]))[0]


def test_a_long_observation_is_cut_and_half_characters_are_spelled_out(opened: Open) -> None:
    pool = opened(max_observation_length=2)
    assert said(pool.step(episodes(1), ["Reply('x' * 10**8)"])) == ["x" * 128]
    assert said(pool.step(episodes(1), ["Reply(('\\ud800', 'é'))"])) == [("\\ud800", "é")]


def test_settings_and_classes_that_do_not_fit_are_refused_before_any_process_starts(opened: Open) -> None:
    wrong = {
        "Counting": ({"stat": 1}, r"environment.settings.stat is unknown \(.*game.py:Counting: did you mean start\?\)"),
        "Countin": ({}, r"game.py has no 'Countin' \(did you mean Counting\?\)"),
        "np": ({}, r"np is not an environment: it lacks reset, step"),
    }
    for name, (settings, why) in wrong.items():
        with pytest.raises(ConfigError, match=why):
            opened(name=name, settings=settings).describe()
    with pytest.raises(ConfigError, match=r"game.py:2: ModuleNotFoundError: No module named 'absent'"):
        opened("\nimport absent").describe()


def test_several_threads_may_ask_and_closing_kills_what_is_under_way(opened: Open) -> None:
    pool = opened(processes=2, timeout=60)
    answers: dict[int, list[object]] = {}

    def ask(number: int) -> None:
        mine = [replace(each, key=f"{number} {each.key}") for each in episodes(8)]
        answers[number] = said(pool.step(begin(pool, mine), [str(number)] * 8))

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == {number: [f"{number} 1"] * 8 for number in range(4)}

    pids = [int(each) for each in said(pool.step(episodes(2), ["Reply(str(os.getpid()))"] * 2))]
    closing = threading.Timer(0.3, pool.close)
    closing.start()
    with pytest.raises(RuntimeError, match="closed"):
        pool.step(episodes(2), ["[time.sleep(60)]"] * 2)
    closing.join()
    assert [os.path.exists(f"/proc/{pid}") for pid in pids] == [False, False]
