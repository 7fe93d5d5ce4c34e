"""Training and held-out data, and what `ares data check` is given.

Not covered: each kind of damaged file or wrong row (tests/ares/data), which takes the same way through the command.
"""

from tests.e2e.wrong_inputs.row import FOLDER, GOOD, PROFILE, ROW, ROWS, VISION, Wrong, profile, rows, train

DATA: dict[str, Wrong] = {
    "data that is a directory": train("d.jsonl: cannot be read", "data.train=d.jsonl", d_jsonl=FOLDER),
    "a parquet that is a directory": train("d.parquet", "data.train=d.parquet", d_parquet=FOLDER),
    "data that is a blank": train("rows.jsonl: no rows", rows_jsonl="\n \n"),
    "data nested too deep": train("rows.jsonl: not readable as json", rows_jsonl="[" * 100_000),
    "data with a long path": train("cannot be read", f"data.train={'a' * 5000}.jsonl"),
    "data by nothing": train("data.train", 'data.train=""'),
    "data by number": profile("data.train", "extends: good.yaml\ndata: {train: 7}", good_yaml=PROFILE),
    "data by a list of numbers": train("data.train", "data.train=[7]"),
    **{
        what: Wrong(
            ["train", "good.yaml", "data.train=d", "--run", "new"], "d: neither a file",
            GOOD | {f"d/{name}": content for name, content in held.items()},
        )
        for what, held in (
            ("a saved set without its files", {"state.json": "{}", "dataset_info.json": "{}"}),
            ("a saved set whose state is a list", {"state.json": "[]", "dataset_info.json": "{}"}),
            ("saved splits of bytes", {"dataset_dict.json": b"\xff\xfe"}),
            ("saved splits without their folders", {"dataset_dict.json": {"splits": ["train"]}}),
            ("a folder of parquet that is none", {"a.parquet": "{"}),
        )
    },
    "a held-out set that is not there": train(
        "no.jsonl: cannot be read in /", "data.validation={a: rows.jsonl, b: no.jsonl}"
    ),
    "rows that cannot be read": rows("not JSON", "{"),
    "a set that nobody has": Wrong("data check no/such-set", "no/such-set"),
    "an unknown setting of the check": Wrong(
        "data check r.jsonl data.promt_key=x", "data.promt_key is unknown", {"r.jsonl": [ROW]}
    ),
    "a tokenizer for the check that is not there": Wrong(
        "data check r.jsonl --model nowhere", "nowhere", {"r.jsonl": [ROW]}
    ),
    **{
        f"images: {images!r:.20}": Wrong(
            ["train", "good.yaml", f"model.path={VISION}", "model.family=vision_language", "--run", "new"],
            "rows.jsonl:1: ",
            GOOD
            | {"rows.jsonl": [row | {"prompt": "<image> What?", "images": images} for row in ROWS]}
            | {"folder.png": FOLDER},
        )
        for images in (["no.png"], ["folder.png"], 7, [{"bytes": "zz"}], ["a\0b"], ["a" * 5000], [])
    },
    "a check of a long path": Wrong(["data", "check", "a" * 5000], "aaa"),
    "a check of nothing": Wrong(["data", "check", ""], "is empty"),
    "a check against nothing": Wrong("data check r.jsonl --profile nowhere", "'nowhere'", {"r.jsonl": [ROW]}),
    "a check of demonstrations": rows(
        "algorithm.policy.loss=sft: only problems are checked here", ROW, settings=("--model=m", "algorithm=sft")
    ),
    "held-out data of a check": Wrong("data check r.jsonl data.validation=h.jsonl", "h.jsonl", {"r.jsonl": [ROW]}),
}  # fmt: skip
