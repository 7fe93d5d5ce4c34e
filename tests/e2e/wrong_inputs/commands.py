"""Runs that are damaged or not there, evaluations, ablations and the other commands."""

from tests.e2e.wrong_inputs.row import FOLDER, GOOD, MODEL, ROW, ROWS, SOUND, Wrong, run_json

OLD = {"runs/old/run.json": SOUND}
ALONE = [
    *((command, "nowhere") for command in (
        "status nowhere", "inspect nowhere --step 1", "resume nowhere", "export nowhere --out o", "diff nowhere there",
        "fork nowhere --at 1", "eval nowhere", "verify nowhere",
    )),
    ("ablate nowhere", "There is no ablation 'nowhere'"),
    ("report nowhere", "runs holds no ablation 'nowhere'"),
    ("settings learnr", "no setting begins with 'learnr'"),
    ("new mine --from nowhere", "There is no profile 'nowhere'"),
    ("new mine --from base", "model is missing"),
    ("new ../mine --from tiny-math", "cannot be the name of a profile"),
    ("doctor nowhere", "There is no profile 'nowhere'"),
    ("train tiny-math rollot.n=1 --dry-run", "rollot is unknown"),
    ("up --prefect-port 4999 --mlflow-port 4999", "Prefect and MLflow need a port each"),
    ("up --notify hooks.example/x", "--notify hooks.example/x: an address begins with"),
    ("down", "ares up"),
    ("export old --pairs --step 3 --out p.jsonl", "--pairs writes those of all steps"),
    (f"eval {MODEL}", "Name the problems with --data"),
    ("eval ../x", "neither a run"),
]  # fmt: skip
"""Commands that need no files, and what is said."""
OF_A_RUN = [
    ("inspect old --step -1", "no committed step -1"),
    ("inspect old --step 3", "no committed step 3"),
    ("fork old --at 3 --run new", "old"),
    ("fork old --at 1 --phase magic --run new", "--phase magic"),
    ("eval old --k x", "--k"),
    ("eval old --n 2 --k 4", "k"),
    ("gc --older-than -1", "--older-than must be 0 or more (got -1)"),
    ("gc --max-size nan", "--max-size must be 0 or more (got nan)"),
]
"""Commands on a run without a step, and what is said."""
COMMANDS: dict[str, Wrong] = {
    **{command: Wrong(command, told) for command, told in ALONE},
    **{command: Wrong(command, told, OLD) for command, told in OF_A_RUN},
    "a run that is a file": Wrong("status old", "There is no run 'old' in runs", {"runs/old": "hello"}),
    **{
        f"status, run.json is {content!r:.20}": run_json("run.json", "status old", content)
        for content in ("[]", "{}", "", "null", '{"config": 7}', b"\xff\xfe", FOLDER)
    },
    **{
        f"{command}, of a damaged run": run_json("run.json", command, "{")
        for command in ("resume old", "export old --out o", "train good.yaml --run old", "verify old",
                        "diff old old", "fork old --at 1", "eval old")
    },
    "settings of another version": run_json(
        "rollout.magic is unknown", "resume old", SOUND | {"config": SOUND["config"] | {"rollout": {"magic": 1}}}
    ),
    "no samples": Wrong("eval old --n 0", "--n", OLD, lines=9),
    **{
        f"{command}, of which there are none": Wrong(command, option, OLD, lines=9)
        for command, option in (("bisect old --drop 0:1 --n 0", "--n"), ("serve old --step -1", "--step"),
                                ("fork old --at -1 --run new", "--at"))
    },
    "an evaluation of no name": Wrong(["eval", ""], "neither a run"),
    "a step of a model": Wrong(f"eval {MODEL} --step 3 --data r.jsonl", "only a run has steps", {"r.jsonl": [ROW]}),
    "an ablation that is a directory": Wrong("ablate a.yaml", "a.yaml", {"a.yaml": FOLDER}),
    "an ablation that is a list": Wrong("ablate a.yaml", "a.yaml: an ablation is a mapping", {"a.yaml": "[]"}),
    **{
        f"an ablation whose {what}": Wrong(
            "ablate a.yaml --dry-run", told,
            {"a.yaml": f"name: a\nprofile: {name}\nvariants: {{x: [], {other}}}\n{seeds}"},
        )
        for what, told, name, other, seeds in (
            ("override is a number", "a.yaml: ", "tiny-math", "y: [7]", "seeds: [1]"),
            ("profile is a number", "profile", "7", "y: [learner.lr=1]", "seeds: [1]"),
            ("seed has no end", "seeds", "tiny-math", "y: [learner.lr=1]", "seeds: [.inf]"),
        )
    },
    **{
        f"a new profile that is {content!r}": Wrong(
            "new mine --from tiny-math", "mine.yaml is there already", {"mine.yaml": content}
        )
        for content in ("", FOLDER)
    },
    "services on a port that cannot be": Wrong("up --prefect-port 99999", "65535", lines=9),
    "services whose runs are a file": Wrong(
        "up --data f", "f: no folder can be made there: File exists", {"f": "hello"}
    ),
    **{
        f"eval {' '.join(given)}, {list(files)}": Wrong(
            ["eval", str(MODEL), "--profile", "good.yaml", "--data", "rows.jsonl", *given], told, GOOD | files
        )
        for told, given, files in (
            ("k", ("--k", "-1"), {}),
            ("temperature", ("--temperature", "nan"), {}),
            ("--max-problems 0", ("--max-problems", "0"), {}),
            ("does not read rollout.n: give it --n", ("rollout.n=4",), {}),
            ("does not read data.limit: give it --max-problems", ("data.limit=4",), {}),
            ("no*.jsonl: there is no such file", ("--data", "no*.jsonl"), {}),
            ("aime: neither a file", ("--data", "aime"), {}),
            ("column 'q' is missing", ("--data", "own", "data.validation={own: {source: held.jsonl, prompt_key: q}}"),
             {"held.jsonl": ROWS}),
        )
    },
    "an evaluation of an empty folder": Wrong(
        "eval m --data rows.jsonl --profile good.yaml", "m", GOOD | {"m": FOLDER}
    ),
}  # fmt: skip
