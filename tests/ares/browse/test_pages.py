"""The server and the folder: who is answered, with what, and that a folder holds what the server would say."""

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from queue import Queue

import httpx
import pandas as pd
import pytest

from ares.browse import samples, serve, write_folder
from ares.browse.pages import ASSETS, _answer, _answers_about
from ares.store import RunStore, StoreError
from tests.ares.store_builders import commit


@pytest.fixture(scope="module")
def store(runs: Path) -> RunStore:
    return RunStore(runs / "uninterrupted")


@pytest.fixture(scope="module")
def client(store: RunStore) -> Iterator[httpx.Client]:
    address: Queue[str] = Queue()
    threading.Thread(target=serve, args=([store], 0, address.put), daemon=True).start()
    with httpx.Client(base_url=address.get(timeout=60)) as client:
        yield client


def test_the_page_and_its_libraries_come_from_this_machine_alone(client: httpx.Client) -> None:
    page = client.get("/")
    assert "content=\"default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'" in page.text
    files = [part.split('"')[0] for mark in ('src="', 'href="') for part in page.text.split(mark)[1:]]
    assert all(client.get(file).status_code == 200 for file in files if not file.startswith("data:"))
    assert client.get("vendor/LICENSES.md").status_code == 200


@pytest.mark.parametrize("path", ["../pages.py", "..%2fpages.py", "/etc/passwd", "vendor/../../pages.py", "nothing.js"])
def test_no_other_file_is_served(client: httpx.Client, path: str) -> None:
    assert client.get(path).status_code == 404


def test_opening_a_run_reads_the_tables_of_one_step_alone(
    client: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[Path] = []
    whole = samples.pq.read_table
    monkeypatch.setattr(samples.pq, "read_table", lambda path, **how: (read.append(path), whole(path, **how))[1])
    samples._read.cache_clear()
    where = {"run": "uninterrupted", "step": "3", "table": "samples"}
    for asked in ({"of": "runs"}, {"of": "curves", "run": "uninterrupted"}, {"of": "samples"} | where):
        assert client.get("answer", params=asked).status_code == 200
    assert "samples" in client.get("answer", params={"of": "group", "number": "0"} | where).json()
    assert {path.parent.name for path in read} == {"000003"}


def test_another_sites_page_is_not_answered(client: httpx.Client) -> None:
    """A name that leads here makes a browser think this is that site (DNS rebinding)."""
    asked = {"of": "runs"}
    assert client.get("answer", params=asked).json()[0]["name"] == "uninterrupted"
    assert client.get("answer", params=asked, headers={"Host": "evil.example:80"}).status_code == 400


@pytest.mark.parametrize(
    ("asked", "status", "says"),
    [
        ({"of": "samples", "run": "uninterrupted", "step": "99", "table": "samples"}, 200, "000099"),
        ({"of": "samples", "run": "uninterrupted", "step": "1", "table": "evaluation"}, 200, "has no evaluation"),
        ({"of": "samples", "run": "../other", "step": "1", "table": "samples"}, 400, "no such question"),
        ({"of": "serve", "run": "uninterrupted"}, 400, "no such question"),
        ({"of": "samples", "run": "uninterrupted", "step": "one", "table": "samples"}, 400, "'one'"),
        ({"of": "curves", "run": "uninterrupted", "more": "1"}, 400, "more"),
    ],
)
def test_what_cannot_be_answered_is_told(client: httpx.Client, asked: dict[str, str], status: int, says: str) -> None:
    reply = client.get("answer", params=asked)
    assert (reply.status_code, says in reply.json()["error"]) == (status, True)


def test_a_folder_holds_every_answer_to_the_page(client: httpx.Client, store: RunStore, tmp_path: Path) -> None:
    told: list[str] = []
    write_folder([store], tmp_path / "page", told.append)
    assert told == ["uninterrupted …"]
    index = (tmp_path / "page" / "index.html").read_text()
    assert "data-folder" in index
    assert "script-src 'self' file:; style-src 'self' file:;" in index
    of_samples = {"of": "samples", "run": "uninterrupted", "step": "2", "table": "samples"}
    rows = client.get("answer", params=of_samples).json()
    number = str(rows["columns"]["group"][0])
    first = client.get("answer", params={"of": "problems", "run": "uninterrupted"}).json()["id"][0]
    questions = [
        ("runs", {"of": "runs"}),
        ("curves/uninterrupted", {"of": "curves", "run": "uninterrupted"}),
        ("samples/uninterrupted/2/samples", of_samples),
        (f"group/uninterrupted/2/samples/{number}",
         {"of": "group", "run": "uninterrupted", "step": "2", "table": "samples", "number": number}),
        ("problem/uninterrupted/0", {"of": "problem", "run": "uninterrupted", "part": "samples", "name": first}),
    ]  # fmt: skip
    for key, asked in questions:
        script = (tmp_path / "page" / "data" / f"{key}.js").read_text()
        assert json.loads(f"[{script.removeprefix('answered(').removesuffix(');' + chr(10))}]") == [
            key,
            client.get("answer", params=asked).json(),
        ]
    assert (tmp_path / "page" / "vendor" / "uplot.js").read_bytes() == (ASSETS / "vendor" / "uplot.js").read_bytes()
    with pytest.raises(StoreError, match="not an empty folder"):
        write_folder([store], tmp_path / "page", told.append)


def row_of(name: str) -> pd.DataFrame:
    return pd.DataFrame({"id": [name], "slot": [0], "sample": [0], "prompt": [name], "response": ["so"],
                         "accuracy": [1.0]})  # fmt: skip


def begun(folder: Path) -> RunStore:
    """A run whose bootstrap met the problem `train` and the held-out problem `held/out`."""
    store = RunStore(folder / "begun")
    store.write_run({"config": {"model": {"path": "nowhere"}}})
    tables = {"samples": row_of("train"), "evaluation": row_of("held/out")}
    artifacts = {name: store.write_rows(f"bootstrap/{name}.parquet", rows) for name, rows in tables.items()}
    store.write_commit(commit(0, None, artifacts=artifacts))
    return store


def test_a_problem_stays_the_one_that_was_asked_for_while_the_run_trains(tmp_path: Path) -> None:
    """It was asked for by its place, and train problems that a step met for the first time came before held-out ones:
    the page, and a folder that was being written, showed another one's samples."""
    store, asked = begun(tmp_path), {"of": "problem", "run": "begun", "part": "evaluation", "name": "held/out"}
    answers = _answers_about(store)
    written = {}
    for key, answer in answers:
        written[key] = answer
        if key == "problems/begun":
            break
    new = store.write_rows("steps/000001/samples.parquet", row_of("new"))
    store.write_commit(commit(1, store.last_commit(), artifacts={"samples": new}))
    written |= dict(answers)
    assert written["problems/begun"]["id"] == ["train", "held/out"]
    assert [written[f"problem/begun/{place}"]["id"] for place in (0, 1)] == ["train", "held/out"]
    assert _answer({"begun": store}, asked)["prompt"] == "held/out"


def test_a_damaged_table_is_named_and_the_rest_of_a_folder_is_written(tmp_path: Path) -> None:
    store, told = begun(tmp_path), list[str]()
    (store.directory / "bootstrap" / "samples.parquet").write_bytes(b"not parquet")
    write_folder([store], tmp_path / "page", told.append)
    assert [line.partition(": ")[0] for line in told] == ["begun …", str(store.directory / "bootstrap/samples.parquet")]
    data = tmp_path / "page" / "data"
    assert "cannot be read" in (data / "samples/begun/0/samples.js").read_text()
    assert (data / "texts/begun/0/evaluation.js").exists()
    assert "held/out" in (data / "problem/begun/0.js").read_text()
