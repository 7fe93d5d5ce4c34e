"""Data sources in settings: every form gives the same rows in the same order, and errors name file and row."""

import codecs
import csv
import gzip
import json
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import datasets
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ares.config import DataConfig, Source
from ares.data.problems import load_problems
from ares.data.sources import DataError, read_readable, read_rows
from tests.ares.builders import tokenizer
from tests.ares.data.code_rows import written

ROWS = [{"id": f"p{number}", "question": f"{number} + 1,\n=?", "answer": str(number + 1)} for number in range(4)]


def json_lines(path: Path, rows: list[Any] = ROWS) -> Path:
    return written(path, *rows)


def csv_file(path: Path) -> Path:
    with path.open("w", newline="") as handle:
        writer = csv.DictWriter(handle, list(ROWS[0]))
        writer.writeheader()
        writer.writerows(ROWS)
    return path


def array(path: Path) -> Path:
    path.write_text(json.dumps(ROWS, indent=1))
    return path


def zipped(path: Path, made: Path) -> Path:
    path.write_bytes(gzip.compress(made.read_bytes()))
    return path


def windows(path: Path, made: Path) -> Path:
    """With a byte order mark and CRLF."""
    path.write_bytes(codecs.BOM_UTF8 + made.read_bytes().replace(b"\n", b"\r\n"))
    return path


def arrow(path: Path) -> Path:
    """A stream, as the hub's TACO has it."""
    table = pa.Table.from_pylist(ROWS)
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, table.schema) as writer:
        writer.write_table(table)
    return path


def saved(path: Path) -> Path:
    datasets.Dataset.from_list(ROWS).save_to_disk(path)
    return path


def saved_splits(path: Path) -> Path:
    sets = {"train": datasets.Dataset.from_list(ROWS), "test": datasets.Dataset.from_list(ROWS[:1])}
    datasets.DatasetDict(sets).save_to_disk(path)
    return path


def folder_of_splits(path: Path) -> Path:
    """A folder as the hub has it, whose files are named after their splits."""
    for split, rows in (("train", ROWS), ("test", ROWS[:1])):
        written(path / "data" / f"{split}-00000-of-00001.parquet", *rows)
    return path


def configured(path: Path) -> Path:
    """A folder as the hub has it: two configurations, named in README.md."""
    for name, rows in (("main", ROWS), ("socratic", ROWS[:2])):
        written(path / name / "train.parquet", *rows)
    listed = "".join(
        f"- config_name: {name}\n  data_files:\n  - split: train\n    path: {name}/train.parquet\n"
        for name in ("main", "socratic")
    )
    (path / "README.md").write_text(f"---\nconfigs:\n{listed}---\n")
    return path


FORMS: dict[str, Callable[[Path], Source]] = {
    "JSON lines": lambda folder: str(json_lines(folder / "d.jsonl")),
    "JSON lines, gzip": lambda folder: str(zipped(folder / "d.jsonl.gz", json_lines(folder / "x"))),
    "JSON lines called .json": lambda folder: str(json_lines(folder / "d.json")),
    "a JSON array": lambda folder: str(array(folder / "d.json")),
    "a JSON array, gzip": lambda folder: str(zipped(folder / "d.json.gz", array(folder / "x"))),
    "JSON lines from Windows": lambda folder: str(windows(folder / "d.jsonl", json_lines(folder / "x"))),
    "a JSON array from Windows": lambda folder: str(windows(folder / "d.json", array(folder / "x"))),
    "a JSON array called .jsonl": lambda folder: str(array(folder / "d.jsonl")),
    "CSV": lambda folder: str(csv_file(folder / "d.csv")),
    "CSV, gzip": lambda folder: str(zipped(folder / "d.csv.gz", csv_file(folder / "x"))),
    "parquet": lambda folder: str(written(folder / "d.parquet", *ROWS)),
    "Arrow": lambda folder: str(arrow(folder / "d.arrow")),
    "save_to_disk": lambda folder: str(saved(folder / "saved")),
    "save_to_disk of splits": lambda folder: str(saved_splits(folder / "saved")),
    "a folder of splits": lambda folder: str(folder_of_splits(folder / "set")),
    "a configuration": lambda folder: f"{configured(folder / 'set')}:main",
    "a list of one, named twice": lambda folder: [str(json_lines(folder / "d.jsonl")), str(folder / "*.jsonl")],
    "a list": lambda folder: [
        str(json_lines(folder / "b.jsonl", ROWS[:1])), str(json_lines(folder / "a.json", ROWS[1:]))
    ],
    "a glob": lambda folder: (
        json_lines(folder / "a.jsonl", ROWS[:2]), json_lines(folder / "b.jsonl", ROWS[2:]), str(folder / "*.jsonl")
    )[-1],
    "a glob of folders": lambda folder: (
        json_lines(folder / "x" / "y" / "a.jsonl"), str(folder / "**/*.jsonl")
    )[-1],
}  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
def test_every_form_gives_the_same_rows(form: str, tmp_path: Path) -> None:
    source = FORMS[form](tmp_path)
    assert read_rows(source, "train").to_dict("records") == ROWS
    assert read_rows(source, "train", limit=3).to_dict("records") == ROWS[:3]
    settings = DataConfig(train=source, prompt_key="question")
    problems = load_problems(source, "train", settings, tokenizer(), limit=2)
    assert problems.frame["id"].tolist() == ["p0", "p1"]
    assert problems.frame["answer"].tolist() == ["1", "2"]


def test_a_configuration_and_a_split_are_chosen_by_name(tmp_path: Path) -> None:
    folder = configured(tmp_path / "set")
    assert len(read_rows(f"{folder}:socratic", "train")) == 2
    splits = str(saved_splits(tmp_path / "saved"))
    assert len(read_rows(splits, "test")) == len(read_rows(str(folder_of_splits(tmp_path / "set2")), "test")) == 1
    for source, split, told in (
        (f"{folder}:mian", "train", "'mian'"),
        (str(folder), "train", "config"),  # there are two
        (f"{folder}:main", "test", "a data set with a split 'test'"),
        (splits, "dev", "a data set with a split 'dev'"),
        (str(folder_of_splits(tmp_path / "plain")), "dev", "a data set with a split 'dev'"),
        (f"{folder}@abc", "train", "only a data set of the hub has revisions"),
    ):
        with pytest.raises(DataError, match=told) as caught:
            read_rows(source, split)
        assert "\n" not in str(caught.value)


@pytest.fixture
def cached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A data set of the hub that was loaded once, with the hub now out of reach; its revision."""
    revision = "e53f048856ff4f594e959d75785d2c2d37b678ee"
    monkeypatch.setattr("datasets.config.HF_HUB_OFFLINE", True)
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", str(tmp_path / "cache"))
    builder = datasets.load_dataset_builder(f"{configured(tmp_path / 'set')}", "main", cache_dir=str(tmp_path / "made"))
    builder.download_and_prepare()
    made = Path(builder.cache_dir)
    at_hub = tmp_path / "cache" / "openai___gsm8k" / "main" / "0.0.0" / revision
    at_hub.parent.mkdir(parents=True)
    made.rename(at_hub)
    for file in at_hub.glob("*.arrow"):
        file.rename(at_hub / file.name.replace(builder.dataset_name, "gsm8k"))
    about = at_hub / "dataset_info.json"
    about.write_text(json.dumps(json.loads(about.read_text()) | {"dataset_name": "gsm8k", "config_name": "main"}))
    return revision


def test_a_set_of_the_hub_is_read_from_the_cache_by_configuration_and_revision(cached: str) -> None:
    for source in ("openai/gsm8k", "openai/gsm8k:main", f"openai/gsm8k:main@{cached}", f"openai/gsm8k@{cached[:8]}"):
        assert read_rows(source, "train").to_dict("records") == ROWS
    for source, told in (
        ("openai/gsm8k:main@740312add88f", rf"what is cached here is revision {cached}"),
        ("openai/gsm8k:mian", "mian"),
        ("openai/gsm9k:main", "openai/gsm9k"),
    ):
        with pytest.raises(DataError, match=told) as caught:
            read_rows(source, "train")
        assert "\n" not in str(caught.value)


def test_rows_of_several_files_are_named_by_file_and_line(tmp_path: Path) -> None:
    files = [str(json_lines(tmp_path / "a.jsonl", ROWS[:2])), str(csv_file(tmp_path / "b.csv"))]
    with pytest.raises(DataError, match=r"b\.csv:1: id 'p0' is a duplicate of row .*a\.jsonl:1"):
        load_problems(files, "train", DataConfig(train=files, prompt_key="question"), tokenizer())
    json_lines(tmp_path / "a.jsonl", [*ROWS[:2], "", '{"id":'])
    with pytest.raises(DataError, match=r"^[^ ,]*a\.jsonl:4: not JSON"):
        read_rows(files, "train")
    rows, unreadable = read_readable(files, "train")
    assert (len(rows), list(unreadable)) == (6, [f"{files[0]}:4"])


def test_columns_that_only_some_files_have_are_none_in_the_others(tmp_path: Path) -> None:
    files = [
        str(json_lines(tmp_path / "a.jsonl", [{"id": 1, "level": 3}])),
        str(json_lines(tmp_path / "b.jsonl", [{"id": 2, "tags": ["x"]}])),
    ]
    assert read_rows(files, "train").to_dict("records") == [
        {"id": 1, "level": 3, "tags": None}, {"id": 2, "level": None, "tags": ["x"]}
    ]  # fmt: skip


def test_the_cells_of_a_csv_are_text(tmp_path: Path) -> None:
    """As numbers they would change: 007, 1.50."""
    path = tmp_path / "d.csv"
    path.write_text('\ufeffprompt,answer,note\n1+1=?,007,\n"a ""b"", c",1.50,NA\n', encoding="utf-8")
    assert read_rows(str(path), "train").to_dict("records") == [
        {"prompt": "1+1=?", "answer": "007", "note": None},
        {"prompt": 'a "b", c', "answer": "1.50", "note": "NA"},
    ]


WRONG: dict[str, tuple[str, bytes | None, str]] = {
    "no file": ("d.jsonl", None, "d.jsonl: cannot be read"),
    "no data set": ("d", None, r"neither a file \(.jsonl, .json, .csv, .parquet, .arrow\) nor a data set with a split"),
    "a parquet of bytes": ("d.parquet", b"\xff\xfe\x00", "d.parquet: not readable as parquet"),
    "a CSV with a row too long": ("d.csv", b"prompt,answer\na,b\nc,d,e\n", r"d\.csv:2: it has not as many cells"),
    "a CSV with a row too short": ("d.csv", b"prompt,answer\na\n", r"d\.csv:1: it has not as many cells"),
    "an empty CSV": ("d.csv", b"", "no rows"),
    "a CSV with an open quote": ("d.csv", b'prompt,answer\n"a,b\n', "not readable as csv: unexpected end"),
    "a CSV with text behind a quote": ("d.csv", b'prompt,answer\na,b\n"a" c,d\n', "not readable as csv: "),
    "a CSV with its header alone": ("d.csv", b"prompt,answer\n", "no rows"),
    "a CSV with two columns of a name": ("d.csv", b"answer,answer\na,b\n", "two columns are called 'answer'"),
    "a CSV of bytes": ("d.csv", b"prompt,answer\n\xff\xfe,b\n", "not UTF-8 text"),
    "a CSV that is no gzip": ("d.csv.gz", b"prompt,answer\na,b\n", "cannot be read"),
    "half a gzip": ("d.csv.gz", gzip.compress(b"prompt,answer\n" + b"a,b\n" * 9999)[:-20], "cannot be read"),
    "a gzip with damage inside": (
        "d.jsonl.gz", gzip.compress(b"x" * 99)[:10] + zlib.compress(b"y" * 99)[4:], "cannot be read"
    ),
    "JSON lines in another encoding": ("d.jsonl", '{"prompt": "café"}'.encode("cp1252"), "not UTF-8 text: "),
    "half an array": ("d.json", b'[{"prompt": "a"},\n', "not readable as json"),
    "an array of numbers": ("d.json", b"[1, 2]", "d.json:1: a row is a JSON object, this is int"),
    "an empty array": ("d.json", b"[]", "no rows"),
    "one object on many lines": ("d.json", b'{\n"prompt": "a"\n}', "d.json:1: not JSON"),
    "half a character in an array": ("d.json", b'[{"prompt": "\\ud800"}]', "d.json: not readable as json: .*surrog"),
    "half a character in a line": ("d.jsonl", b'{"prompt": "\\uD800"}', "d.jsonl:1: not JSON: .*surrogates"),
    "a kind that is not read": ("d.xlsx", b"PK", r"d\.xlsx: neither a file \(.jsonl, .json, .csv"),
    "a parquet in gzip": ("d.parquet.gz", gzip.compress(b"PAR1"), "neither a file"),
}  # fmt: skip


@pytest.mark.parametrize("what", WRONG)
def test_unreadable_data_is_reported_in_one_line(what: str, tmp_path: Path) -> None:
    name, content, told = WRONG[what]
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=told) as caught:
        read_rows(str(tmp_path / name), "train")
    assert "\n" not in str(caught.value)
    assert name in str(caught.value)


@pytest.mark.parametrize(
    "column",
    [pa.array([2**40]).cast(pa.timestamp("s")), pa.array([b"\xff"]).view(pa.string())],
    ids=["a date of the year 36812", "text that is not UTF-8"],
)
def test_values_that_python_does_not_know_are_refused(column: pa.Array, tmp_path: Path) -> None:
    pq.write_table(pa.table({"prompt": ["a"], "seen": column}), tmp_path / "d.parquet")
    with pytest.raises(DataError, match=r"d\.parquet: not "):
        read_rows(str(tmp_path / "d.parquet"), "train")


@pytest.mark.parametrize("kind", [pa.float16(), pa.float32(), pa.float64()])
def test_numbers_are_read_as_their_shortest_decimals(kind: pa.DataType, tmp_path: Path) -> None:
    """As the double next to it a narrow 0.1 is 0.10000000149011612, which no answer is."""
    cells = {
        kind: [0.1, None], pa.list_(kind): [[3.3, None], None], pa.large_list(kind): [[0.1], []],
        pa.list_(kind, 1): [[0.1], [3.3]], pa.struct({"answer": kind, "n": pa.int8()}): [{"answer": 3.3, "n": 1}, None],
    }  # fmt: skip
    table = pa.table({str(each): pa.array(values, each) for each, values in cells.items()})
    pq.write_table(table, tmp_path / "d.parquet")
    read = read_rows(str(tmp_path / "d.parquet"), "train")
    assert read.to_dict("list") == {str(each): values for each, values in cells.items()}


def test_a_source_without_files_is_refused_as_it_was_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    urls = ("s3://bucket/rows.jsonl", "https://host/rows.parquet", "hf://datasets/a/b")
    refused: list[tuple[Source, str]] = [(url, rf"^{url}: data is read from this machine") for url in urls]
    refused += [("data/*.jsonl", rf"data/\*\.jsonl: there is no such file in {tmp_path}"), ([], "is empty: name a f")]
    for source, told in refused:
        with pytest.raises(DataError, match=told):
            read_rows(source, "train")
