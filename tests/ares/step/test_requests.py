"""The requests to an engine for the rows of a draw, and for responses drawn in parts."""

from pathlib import Path

import numpy as np
import pandas as pd

from ares.step.requests import asked_rows, begun_rows, continue_rows, engine_calls, requested_rows
from ares.step.rows import GREEDY
from tests.ares.builders import config

STOPPING = pd.DataFrame({"id": ["a", "b"], "prompt_token_ids": [[1], [2, 2]], "stops": [["\n\n"], []]})
SETTINGS = config("rollout.max_staleness=2", "rollout.parts=2").rollout


def answers(*tokens: list[int], reason: str) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "token_ids": [np.array(ids, np.int32) for ids in tokens],
            "log_probs": [-np.array(ids, np.float32) for ids in tokens],
            "finish_reason": reason,
        }
    )


def problems_of(rows: pd.DataFrame) -> pd.DataFrame:
    return STOPPING.set_index("id").loc[rows["id"]].reset_index()


def test_an_unfinished_response_is_continued_with_its_seed_and_stop_strings(tmp_path: Path) -> None:
    plain = requested_rows(STOPPING.drop(columns="stops"), 0, 2, False, (7, "validation", "held-out"))
    ((_, requests, _),) = engine_calls(plain, 1.0, config().rollout)
    assert {request.stops for request in requests} == {()}
    requested = requested_rows(STOPPING, 0, 2, True, (7, "rollout", 4))
    rows = begun_rows(requested)
    for part, begun, reason in ((1, 0, "stop"), (2, 4, "length"), (3, 8, "length")):
        asked = asked_rows(rows, problems_of(rows)).assign(begun=rows["token_ids"].map(len))
        calls = list(engine_calls(asked[asked["finish_reason"] != "stop"], 1.0, SETTINGS))
        assert [settings.temperature for _, _, settings in calls] == [0.0, 1.0]
        assert {settings.max_tokens for _, _, settings in calls} == {4}  # half of eight
        for asked, requests, _ in calls:
            expected = requested.loc[asked.index]
            assert [request.seed for request in requests] == expected["seed"].tolist()
            assert {request.begun for request in requests} == {begun}
            for request, row in zip(requests, expected.itertuples(), strict=True):
                own = [10 * each + row.Index for each in range(1, part) for _ in range(4)]
                assert request.prompt_token_ids == [*row.prompt_token_ids, *own]
                assert request.stops == (("\n\n",) if row.id == "a" else ())
            drawn = answers(*([10 * part + place] * 4 for place in asked.index), reason="length")
            drawn.loc[asked["sample"].to_numpy() == 1, "finish_reason"] = reason
            rows = continue_rows(rows, asked.index, drawn)
        assert set(rows.loc[rows["finish_reason"] == "stop", "sample"]) == {1}
        rows.to_parquet(tmp_path / "rows.parquet")
        rows = pd.read_parquet(tmp_path / "rows.parquet")
    assert rows["sample"].tolist() == [GREEDY, 0, 1] * 2
    assert rows["token_ids"].map(len).tolist() == [12, 12, 4] * 2
    assert [ids.dtype for ids in rows["token_ids"]] == [np.int32] * 6
    for row in rows.itertuples():
        np.testing.assert_array_equal(row.log_probs, -row.token_ids.astype(np.float32))
