"""What an engine is asked for the rows of a draw."""

import pandas as pd

from ares.step.requests import engine_calls, requested_rows
from tests.ares.builders import config

PROBLEMS = pd.DataFrame({"id": ["a", "b"], "prompt_token_ids": [[1], [2, 2]]})


def test_a_request_has_the_stop_strings_of_its_problem() -> None:
    rows = requested_rows(PROBLEMS.assign(stops=[["\nclass "], []]), 0, 2, False, (7, "validation", "held-out"))
    ((_, requests, settings),) = engine_calls(rows, 1.0, config().rollout)
    assert [request.stops for request in requests] == [("\nclass ",), ("\nclass ",), (), ()]
    assert settings.temperature == 1.0
    without = requested_rows(PROBLEMS, 0, 2, False, (7, "validation", "held-out"))
    ((_, requests, _),) = engine_calls(without, 1.0, config().rollout)
    assert {request.stops for request in requests} == {()}
