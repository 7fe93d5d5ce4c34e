"""The alarms of a run whose KL runs away, whose filter keeps nothing, or whose steps stall."""

import time
from typing import Any

import pytest

from ares.store import Commit
from flows import alarms
from flows.alarms import EVENT, FEWEST, Alarms
from tests.ares.store_builders import commit

CALM = {"critic/kl": 0.02, "filter/kept_share": 0.75}


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the server was told."""
    texts: list[str] = []

    def emit(event: str, resource: dict[str, str], payload: dict[str, str]) -> None:
        assert (event, resource["prefect.resource.id"]) == (EVENT, "ares.run.first")
        texts.append(payload["text"])

    monkeypatch.setattr(alarms, "emit_event", emit)
    monkeypatch.setenv("PREFECT_API_URL", "http://127.0.0.1:9/api")
    return texts


def step(number: int, **metrics: float) -> Commit:
    return commit(number, None, metrics=CALM | {name.replace("__", "/"): value for name, value in metrics.items()})


@pytest.mark.parametrize(
    ("metrics", "text"),
    [
        ({"critic__kl": 0.5}, "step 6: KL 0.5, the median of the steps before it 0.02"),
        ({"filter__kept_share": 0.05}, "step 6: the filter kept 5% of the groups drawn"),
    ],
)
def test_an_alarm_is_sent_once_until_it_clears(
    metrics: dict[str, float], text: str, told: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    of_run = Alarms("first")
    for number in range(1, FEWEST + 1):
        of_run.committed(step(number))
    for number in (6, 7):
        of_run.committed(step(number, **metrics))
    of_run.committed(step(8))
    of_run.committed(step(9, **metrics))
    assert told == [text, text.replace("step 6", "step 9")]
    assert [record.getMessage() for record in caplog.records] == [f"first: {each}" for each in told]


def test_a_calm_run_says_nothing(told: list[str]) -> None:
    of_run = Alarms("first")
    for number in range(1, 40):
        of_run.committed(step(number, critic__kl=0.002 * number))
    of_run.committed(commit(40, None, metrics={}))  # an algorithm without KL or filter
    of_run.look()
    assert told == []


def test_a_stall_is_reported_once(told: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(alarms, "STILL_LEAST", 0.1)
    of_run = Alarms("first")
    for number in range(1, FEWEST + 1):
        of_run.committed(step(number))
    time.sleep(0.2)
    for _ in range(3):
        of_run.look()
    of_run.committed(step(6))
    assert "standstill" not in of_run.raised
    (text,) = told
    assert text.startswith("no step for 0 s, where one took 0 s")


def test_a_run_without_a_server_says_it_in_its_log(
    told: list[str], monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    monkeypatch.delenv("PREFECT_API_URL")

    Alarms("first").committed(step(1, filter__kept_share=0.0))
    assert (told, caplog.messages) == ([], ["first: step 1: the filter kept 0% of the groups drawn"])
