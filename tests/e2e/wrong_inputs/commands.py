"""Runs that are damaged or not there, evaluations, ablations and the other commands."""

from tests.e2e.wrong_inputs.row import FOLDER, GOOD, MODEL, ROW, ROWS, SOUND, Wrong, run_json

COMMANDS: dict[str, Wrong] = {
    **{
        f"a run that is not there: {command}": Wrong(command, "nowhere")
        for command in (
            "status nowhere",
            "inspect nowhere --step 1",
            "resume nowhere",
            "export nowhere --out o",
            "fork nowhere --at 1",
            "diff nowhere there",
            "gc nowhere",
            "eval nowhere",
        )
    },
    **{
        f"gc {option} {amount}": Wrong(
            f"gc {option} {amount}", f"{option} must be 0 or more (got {amount})", {"runs": FOLDER}
        )
        for option in ("--older-than", "--max-size")
        for amount in ("-1", "nan", "inf")
    },
    "a run that is a file": Wrong("status old", "There is no run 'old' in runs", {"runs/old": "hello"}),
    **{
        f"{command.split()[0]}, run.json is {content!r:.10}": run_json("run.json", command, content)
        for command in ("status old", "resume old", "export old --out o", "train good.yaml --run old")
        for content in ("[]", "{}", "{", "", "null", '{"config": 7}', b"\xff\xfe")
    },
    "run.json is a directory": run_json("run.json", "status old", FOLDER),
    "settings of another version": run_json(
        "rollout.magic is unknown", "resume old", SOUND | {"config": SOUND["config"] | {"rollout": {"magic": 1}}}
    ),
    "a step before the first": run_json("no committed step -1", "inspect old --step -1", SOUND),
    "a step that is not there": run_json("no committed step 3", "inspect old --step 3", SOUND),
    "a fork of a step that is not there": run_json("old", "fork old --at 3 --run new", SOUND),
    "a fork of no phase": run_json("--phase magic", "fork old --at 1 --phase magic --run new", SOUND),
    "an export into a file": Wrong(
        "export old --out o", "o cannot be written", {"runs/old/run.json": SOUND, "o": "hello"}
    ),
    "an export into a full folder": Wrong(
        "export old --out o", "o is not empty", {"runs/old/run.json": SOUND, "o/x": "hello"}
    ),
    "an export beneath a file": Wrong(
        "export old --out o/x", "o/x cannot be written", {"runs/old/run.json": SOUND, "o": "hello"}
    ),
    "no samples": Wrong("eval old --n 0", "--n", {"runs/old/run.json": SOUND}, lines=9),
    "k that is a word": Wrong(["eval", "old", "--k", "x"], "--k", {"runs/old/run.json": SOUND}),
    "k above n": Wrong("eval old --n 2 --k 4", "k", {"runs/old/run.json": SOUND}),
    "an evaluation of nothing": Wrong(f"eval {MODEL}", "Name the problems with --data"),
    "a step of a model": Wrong(f"eval {MODEL} --step 3 --data r.jsonl", "only a run has steps", {"r.jsonl": [ROW]}),
    "an ablation that is not there": Wrong("ablate nowhere", "There is no ablation 'nowhere'"),
    "an ablation that is a directory": Wrong("ablate a.yaml", "a.yaml", {"a.yaml": FOLDER}),
    "an ablation that is a list": Wrong("ablate a.yaml", "a.yaml: an ablation is a mapping", {"a.yaml": "[]"}),
    "an ablation of one variant": Wrong(
        "ablate a.yaml --dry-run", "variants", {"a.yaml": "name: a\nprofile: tiny-math\nvariants: {x: []}\nseeds: [1]"}
    ),
    "an ablation with an unknown key": Wrong(
        "ablate a.yaml --dry-run",
        "sedes is unknown (did you mean seeds?)",
        {"a.yaml": "name: a\nprofile: tiny-math\nvariants: {x: [], y: [learner.lr=1]}\nsedes: [1]\nseeds: [1]"},
    ),
    "a variant with an unknown setting": Wrong(
        "ablate a.yaml --dry-run",
        "variant 'y': ",
        {"a.yaml": "name: a\nprofile: tiny-math\nvariants: {x: [], y: [q.z=1]}\nseeds: [1]"},
    ),
    "a report of nothing": Wrong("report nowhere", "There are no metrics yet: no "),
    "a report into another kind of file": Wrong("report x --out x.pdf", "--out x.pdf: the report is an .html file"),
    "settings that are not there": Wrong("settings learnr", "no setting begins with 'learnr' (did you mean learner?)"),
    "settings of a profile that is not there": Wrong("settings --profile nowhere", "There is no profile 'nowhere'"),
    "settings of an extension that is not there": Wrong("settings reward.kind=no.py:f", "no Python file no.py"),
    "settings with one that is unknown": Wrong("settings learner learner.rl=1", "learner.rl is unknown"),
    "a new profile from nothing": Wrong("new mine --from nowhere", "There is no profile 'nowhere'"),
    "a new profile that is there": Wrong("new mine --from tiny-math", "mine.yaml is there already", {"mine.yaml": ""}),
    "a new profile that is a folder": Wrong(
        "new mine --from tiny-math", "mine.yaml is there already", {"mine.yaml": FOLDER}
    ),
    "a new profile from a part of one": Wrong("new mine --from base", "model is missing"),
    "a new profile elsewhere": Wrong("new ../mine --from tiny-math", "cannot be the name of a profile"),
    "a profile for the doctor that is not there": Wrong("doctor nowhere", "There is no profile 'nowhere'"),
    "a dry run with an unknown setting": Wrong("train tiny-math rollot.n=1 --dry-run", "rollot is unknown"),
    "services on a port that cannot be": Wrong("up --prefect-port 99999", "65535", lines=9),
    "services on one port": Wrong("up --prefect-port 4999 --mlflow-port 4999", "Prefect and MLflow need a port each"),
    "services that tell nobody": Wrong(
        "up --notify hooks.example/x", "--notify hooks.example/x: an address begins with"
    ),
    "services whose runs are a file": Wrong(
        "up --data f", "f: no folder can be made there: File exists", {"f": "hello"}
    ),
    "services that are not there": Wrong("down", "ares up"),
    **{
        f"eval {' '.join(given)}": Wrong(
            ["eval", str(MODEL), "--data", "rows.jsonl", "--profile", "good.yaml", *given], told, GOOD
        )
        for told, given in (
            ("k", ("--k", "-1")),
            ("temperature", ("--temperature", "inf")),
            ("temperature", ("--temperature", "nan")),
            ("max_problems", ("--max-problems", "0")),
            ("rollot is unknown", ("rollot.n=1",)),
            ("does not read rollout.n: give it --n", ("rollout.n=4",)),
        )
    },
    "an evaluation of no data": Wrong(f"eval {MODEL} --data no.jsonl --profile good.yaml", "no.jsonl", GOOD),
    **{
        f"an evaluation of {what}": Wrong(
            ["eval", str(MODEL), "--profile", "good.yaml", *given], told, GOOD | {"held.jsonl": ROWS}
        )
        for what, told, given in (
            ("a glob of nothing", "no*.jsonl: there is no such file", ("--data", "no*.jsonl")),
            ("a kind of file that is not read", "good.yaml: no kind of file that is read", ("--data", "good.yaml")),
            ("a held-out set that is not named", "aime: neither a file", ("--data", "aime")),
            (
                "a held-out set without its column",
                "column 'q' is missing",
                ("--data", "own", "data.validation={own: {source: held.jsonl, prompt_key: q}}"),
            ),
        )
    },
    "an evaluation of an empty folder": Wrong(
        "eval m --data rows.jsonl --profile good.yaml", "m", GOOD | {"m": FOLDER}
    ),
    "an evaluation of no name": Wrong(["eval", ""], "neither a run"),
    "an evaluation of a path": Wrong("eval ../x", "neither a run"),
    "an evaluation of a damaged run": run_json("run.json", "eval old", "[]"),
    **{
        f"an ablation whose {what}": Wrong(
            "ablate a.yaml --dry-run",
            told,
            {"a.yaml": f"name: a\nprofile: {name}\nvariants: {{{text}}}\nseeds: {seeds}"},
        )
        for what, told, name, text, seeds in (
            ("variant is a path", "a.yaml: ", "tiny-math", "a/b: [], y: [learner.lr=1]", "[1]"),
            ("variant is a number", "a.yaml: ", "tiny-math", "1: [], 2: [learner.lr=1]", "[1]"),
            ("override is a number", "a.yaml: ", "tiny-math", "x: [], y: [7]", "[1]"),
            ("variants are equal", "one and the same", "tiny-math", "x: [], y: []", "[1]"),
            ("profile is not there", "'nowhere'", "nowhere", "x: [], y: [learner.lr=1]", "[1]"),
            ("profile is a number", "profile", "7", "x: [], y: [learner.lr=1]", "[1]"),
            ("seed is negative", "seeds", "tiny-math", "x: [], y: [learner.lr=1]", "[-1]"),
            ("seed stands twice", "seeds", "tiny-math", "x: [], y: [learner.lr=1]", "[1, 1]"),
            ("seed has no end", "seeds", "tiny-math", "x: [], y: [learner.lr=1]", "[.inf]"),
        )
    },
    "what is whole of a run that is not there": Wrong("verify nowhere", "nowhere"),
    **{
        f"{command}, of a damaged run": run_json("run.json", f"{command} old", "[")
        for command in ("verify", "gc", "diff old", "fork --at 1")
    },
}
