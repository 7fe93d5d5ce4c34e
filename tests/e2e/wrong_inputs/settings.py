"""Profiles, settings on the command line, and names of runs."""

from tests.e2e.wrong_inputs.row import FOLDER, GOOD, Wrong, profile, train

TRIGGERS = "algorithm.entropy.trigger_tokens=t.txt"
SETTINGS: dict[str, Wrong] = {
    "a profile that is not there": Wrong("train nowhere", "There is no profile 'nowhere'"),
    "a profile that is almost there": Wrong("train tiny-mth", "did you mean tiny-math?"),
    "a file that is not there": Wrong("train nowhere.yaml", "There is no profile 'nowhere.yaml' in /"),
    "extends a file that is not there": profile(
        "There is no profile 'sub/nowhere.yaml' in /", "extends: sub/q.yaml", sub__q_yaml="extends: nowhere.yaml"
    ),
    "a directory as profile": profile("p.yaml: ", FOLDER),
    "a profile of bytes": profile("p.yaml: not YAML", b"\x80\x81\xff\x00"),
    "a profile with a control character": profile("p.yaml: not YAML", "a: b\x07"),
    "an empty profile": profile("model is missing", ""),
    "a profile that is a list": profile("p.yaml: a profile is a mapping", "- 1"),
    "tabs": profile("p.yaml: not YAML", "model:\n\tpath: x"),
    "a key twice": profile("'steps' stands in line 2 and in line 3", "train:\n  steps: 1\n  steps: 2"),
    "a key that is a list": profile("p.yaml: ", "? [a, b]\n: 1"),
    "a key that is a number": profile("7 is unknown", "extends: base\n7: 1"),
    "a YAML tag": profile("p.yaml: not YAML", "a: !!python/object:os.system x"),
    "a YAML that holds itself": profile("p.yaml: ", "model: &a {path: *a}"),
    "a date": profile("train.steps", "extends: tiny-math\ntrain: {steps: 2026-01-01}"),
    "extends itself": profile("`extends` goes round in a circle", "extends: p.yaml"),
    "extends itself by another path": profile("goes round in a circle", "extends: ./sub/../p.yaml", sub=FOLDER),
    "a circle of relative paths": profile(
        "goes round in a circle: p.yaml → sub/q.yaml → ", "extends: sub/q.yaml", sub__q_yaml="extends: ../p.yaml"
    ),
    "extends nothing there": profile("There is no profile 'nowhere'", "extends: nowhere"),
    "extends a directory": profile("q.yaml", "extends: q.yaml", q_yaml=FOLDER),
    "extends a number": profile("extends", "extends: 7"),
    "extends two": profile("extends", "extends: [base, tiny-math]"),
    "extends a path up": profile("There is no profile '../../etc/passwd'", "extends: ../../etc/passwd"),
    "a section that is a value": profile("model", "extends: tiny-math\nmodel: 7"),
    "a section that is null": profile("model", "extends: tiny-math\nmodel: null"),
    "a section that is a list": profile("rollout", "extends: tiny-math\nrollout: [1]"),
    "a profile without a model": profile("model is missing", "data: {train: x.jsonl}"),
    "an unknown section": train("rollot is unknown (did you mean rollout?)", "rollot.n=4"),
    "an unknown setting": train("rollout.m is unknown", "rollout.m=4"),
    "an unknown setting of an optional section": train("lora.rnk is unknown (did you mean rank?)", "model.lora.rnk=4"),
    "an unknown setting of a union": train("algorithm.entropy.nothing", "algorithm.entropy.nothing=4"),
    "an unknown setting deep in a value": train("model.path.x", "model.path.x=3"),
    "a setting below an optional number": train("rollout.max_mismatch", "rollout.max_mismatch.x=3"),
    "an optional section that is a value": train("model.lora", "model.lora=3"),
    "a value out of bounds in an optional section": train("model.lora.rank", "model.lora.rank=0"),
    "no value": train("'rollout.n' is not of the form section.field=value", "rollout.n"),
    "no field": train("'=3' is not of the form", "=3"),
    "a dot": train("'.=3'", ".=3"),
    "two dots": train("'rollout..n=3'", "rollout..n=3"),
    "no YAML": train("'rollout.n=[1': the value is not YAML", "rollout.n=[1"),
    "too few": train("rollout.n", "rollout.n=1"),
    "a fraction": train("rollout.n", "rollout.n=2.5"),
    "a word for a number": train("learner.lr", "learner.lr=fast"),
    "a list for a number": train("train.steps", "train.steps=[true]"),
    "a boolean for a number": train("train.steps: true and false are no numbers", "train.steps=true"),
    "a boolean for a number or one a bucket": train("kl.coef: true and false are no numbers", "algorithm.kl.coef=no"),
    "null for a number": train("train.steps", "train.steps=null"),
    "infinity": train("learner.lr", "learner.lr=.inf"),
    "not a number": train("learner.lr", "learner.lr=.nan"),
    "a coefficient without end": train("algorithm.kl.coef", "algorithm.kl.coef=.inf"),
    "a negative": train("train.steps", "train.steps=-1"),
    "a seed of more than 63 bits": train("train.seed", f"train.seed={2**63}"),
    "a learning rate of another magnitude": train("learner.lr", "learner.lr=4"),
    "a temperature that divides by nothing": train("rollout.temperature", "rollout.temperature=1e-30"),
    "a temperature that levels everything": train("validation.temperature", "validation.temperature=1e9"),
    "more steps than folders": train("train.steps", "train.steps=1000000"),
    "more threads than any machine has": train("learner.threads", "learner.threads=100000"),
    "a response of all tokens": train("rollout.max_response_length", "rollout.max_response_length=1e12"),
    "more samples than can be counted": train("rollout.n", "rollout.n=10000000000"),
    "a time limit without end": train("reward.timeout", "reward.timeout=1e300"),
    "more memory than there is": train("reward.code.memory_mb", "reward.code.memory_mb=1e18"),
    "an experiment without a name": train("tracking.experiment", 'tracking.experiment=""'),
    "a number of a thousand digits": train("train.seed", f"train.seed={'9' * 5000}"),
    "half a character": train("model.path", "model.path=\udcff"),
    "a null byte": train("model.path", "model.path=a\0b"),
    "an unknown engine": train("rollout.engine", "rollout.engine=magic"),
    "an unknown estimator": train("algorithm.advantage.estimator", "algorithm.advantage.estimator=magic"),
    "an unknown reward": train("reward.kind", "reward.kind=magic"),
    "settings that nobody takes": train("algorithm.advantage.settings", "algorithm.advantage.settings.x=1"),
    "triggers that are not there": train(TRIGGERS, TRIGGERS),
    "triggers that are a directory": train(TRIGGERS, TRIGGERS, t_txt=FOLDER),
    "triggers of bytes": train(TRIGGERS, TRIGGERS, t_txt=b"\xff\xfe\x80"),
    "more prompts than problems": train(
        "20 problems are fewer than rollout.prompts=21", "rollout.prompts=21", "learner.global_batch_prompts=21"
    ),
    **{
        f"a run called {name[:12]!a}": Wrong(
            ["train", "good.yaml", f"--run={name}"], "cannot be the name of a run", GOOD
        )
        for name in ("../evil", "/tmp/abs", ".", "..", "a/b", "a\nb", "-dash", "a" * 300, "", "a b", "\udcff", "a\0b")
    },
    **{
        f"elsewhere: {command}": Wrong(command, "cannot be the name of a run")
        for command in (
            "resume ../evil",
            "status ../evil",
            "inspect ../evil --step 1",
            "export ../evil --out o",
            "fork old --at 1 --run ../evil",
            "fork ../evil --at 1",
            "diff old ../evil",
            "gc ../evil",
        )
    },
    "an ablation elsewhere": Wrong("ablate code-rewards --name ../evil", "name: it is made of letters"),
    "a profile with a long name": Wrong(["train", "a" * 5000], "There is no profile"),
    "a profile without a name": Wrong(["train", ""], "There is no profile"),
    "a directory for a profile": Wrong("train .", "There is no profile"),
    "extends a null byte": profile("There is no profile", 'extends: "a\\0b.yaml"'),
    "extends a mapping": profile("p.yaml: extends: ", "extends: {a: 1}"),
}
