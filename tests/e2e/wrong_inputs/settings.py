"""Profiles, settings on the command line, and names of runs.

Not covered: each rule of the configuration (tests/ares/config) and each bad name (tests/ares/store/test_names.py),
which take the same way through the command.
"""

from tests.e2e.wrong_inputs.row import FOLDER, GOOD, Wrong, profile, train

TRIGGERS = "algorithm.entropy.trigger_tokens=t.txt"
NAMED = [
    "rollout.n=2.5", "rollout.m=4", "rollout.engine=magic", "learner.lr=.inf", "learner.lr=.nan", "train.steps=[true]",
    "train.steps=null", f"train.seed={'9' * 5000}", 'tracking.experiment=""', "reward.code.memory_mb=1e18",
    "model.path=\udcff", "model.path=a\0b", "model.lora=3",
]  # fmt: skip
"""What is said names the setting."""
SETTINGS: dict[str, Wrong] = {
    **{f"{setting[:40]!a}": train(setting.partition("=")[0], setting) for setting in NAMED},
    **{
        f"{setting!a}": train(told, setting)
        for setting, told in (
            ("rollout.max_mismatch.x=3", "rollout.max_mismatch"),
            ("model.path.x=3", "path is a value, not a section"),
            ("rollout.n", "'rollout.n' is not of the form section.field=value"),
            (".=3", "'.=3'"),
            ("rollout.n=[1", "'rollout.n=[1': the value is not YAML"),
            ("model.reference=examples/tiny/checkpoints/game", "tokens are others than the"),
            ("train.steps=true", "train.steps: true and false are no numbers"),
        )
    },
    "a profile that is almost there": Wrong("train tiny-mth", "did you mean tiny-math?"),
    "a shipped profile with its ending": Wrong("train tiny-math.yaml", "(did you mean tiny-math?)"),
    "a profile of one's own without its ending": Wrong("train mine", "did you mean mine.yaml", {"mine.yaml": ""}),
    "a file that is not there": Wrong("train nowhere.yaml", "There is no profile 'nowhere.yaml' in /"),
    "a profile with a long name": Wrong(["train", "a" * 5000], "There is no profile"),
    "a profile without a name": Wrong(["train", ""], "There is no profile"),
    "a directory for a profile": Wrong("train .", "There is no profile"),
    "extends a file that is not there": profile(
        "There is no profile 'sub/nowhere.yaml' in /", "extends: sub/q.yaml", sub__q_yaml="extends: nowhere.yaml"
    ),
    "extends a directory": profile("q.yaml", "extends: q.yaml", q_yaml=FOLDER),
    "extends itself by another path": profile("goes round in a circle", "extends: ./sub/../p.yaml", sub=FOLDER),
    "a circle of relative paths": profile(
        "goes round in a circle: p.yaml → sub/q.yaml → ", "extends: sub/q.yaml", sub__q_yaml="extends: ../p.yaml"
    ),
    **{
        f"a profile: {text!a:.40}": profile(told, text)
        for text, told in (
            (FOLDER, "p.yaml: "),
            (b"\x80\x81\xff\x00", "p.yaml: not YAML"),
            ("", "p.yaml without `extends: PROFILE`: model is missing"),
            ("- 1", "p.yaml: a profile is a mapping"),
            ("train:\n  steps: 1\n  steps: 2", "'steps' stands in line 2 and in line 3"),
            ("? [a, b]\n: 1", "p.yaml: "),
            ("extends: base\n7: 1", "7 is unknown"),
            ("a: !!python/object:os.system x", "p.yaml: not YAML"),
            ("model: &a {path: *a}", "p.yaml: "),
            ("extends: tiny-math\ntrain: {steps: 2026-01-01}", "train.steps"),
            ("extends: {a: 1}", "p.yaml: extends: "),
            ("extends: ../../etc/passwd", "There is no profile '../../etc/passwd'"),
            ('extends: "a\\0b.yaml"', "There is no profile"),
            ("extends: tiny-math\nmodel: 7", "model"),
        )
    },
    "triggers that are not there": train(f"{TRIGGERS}: No such file or directory in /", TRIGGERS),
    "triggers that are a directory": train(TRIGGERS, TRIGGERS, t_txt=FOLDER),
    "triggers of bytes": train(TRIGGERS, TRIGGERS, t_txt=b"\xff\xfe\x80"),
    **{
        f"a run called {name[:12]!a}": Wrong(
            ["train", "good.yaml", f"--run={name}"], "cannot be the name of a run", GOOD
        )
        for name in ("../evil", "a\nb", "a" * 300, "", "\udcff", "a\0b")
    },
    **{
        f"elsewhere: {command}": Wrong(command, "cannot be the name of a run")
        for command in ("resume ../evil", "inspect ../evil --step 1", "export ../evil --out o", "diff old ../evil")
    },
    "an ablation elsewhere": Wrong("ablate code-rewards --name ../evil", "name: it is made of letters"),
}  # fmt: skip
