"""The table of wrong inputs: commands, the files around them, and what they must say (test_wrong_inputs.py)."""

import gzip
import json
from dataclasses import dataclass, field
from typing import Any

from ares.config.profiles import load
from tests.ares.builders import MODEL

Content = str | bytes | dict[str, Any] | list[Any] | None
"""A file's text, bytes, JSON, or rows of JSON; None is a directory."""
FOLDER = None
ROWS = [{"id": f"p{number}", "prompt": f"{number}+1=?", "answer": str(number + 1)} for number in range(20)]
PROFILE = f"""
extends: tiny-math
model: {{path: {MODEL}}}
data: {{train: rows.jsonl, validation: null}}
reward: {{kind: math}}
"""
GOOD: dict[str, Content] = {"good.yaml": PROFILE, "rows.jsonl": ROWS}


@dataclass(frozen=True)
class Wrong:
    """A command, the files around it, and what it must say."""

    command: str | list[str]
    told: str
    files: dict[str, Content] = field(default_factory=dict)
    lines: int = 1
    """How many lines it may take: one, but for lists of what differs."""


def train(told: str, *settings: str, **files: Content) -> Wrong:
    """`ares train` of a good profile on good rows, but for these settings and files (`rows_jsonl` is rows.jsonl)."""
    named = {name.replace("__", "/").replace("_", "."): content for name, content in files.items()}
    return Wrong(["train", "good.yaml", *settings, "--run", "new"], told, GOOD | named)


def profile(told: str, text: Content, **files: Content) -> Wrong:
    """`ares train` of a profile with this text."""
    named = {name.replace("__", "/").replace("_", "."): content for name, content in files.items()}
    return Wrong("train p.yaml --run new", told, {"p.yaml": text} | named)


def rows(told: str, *given: Any, settings: tuple[str, ...] = ()) -> Wrong:
    """`ares data check` of these rows."""
    return Wrong(["data", "check", "r.jsonl", *settings], told, {"r.jsonl": list(given)})


def model(told: str, change: dict[str, Content], *settings: str) -> Wrong:
    """`ares train` from a copy of the tiny model in which these files are others."""
    files: dict[str, Content] = {
        f"m/{file.name}": file.read_bytes() for file in MODEL.iterdir() if file.suffix != ".jsonl"
    }
    files |= {f"m/{name}": content for name, content in change.items()}
    return Wrong(["train", "good.yaml", "model.path=m", *settings, "--run", "new"], told, GOOD | files)


def reward(told: str, text: Content, kind: str = "r.py:score") -> Wrong:
    """`ares train` with a reward of one's own."""
    return Wrong(
        ["train", "good.yaml", f"reward.kind={kind}", "--run", "new"],
        told,
        {"good.yaml": PROFILE, "rows.jsonl": ROWS, "r.py": text},
    )


def run_json(told: str, command: str, content: Content) -> Wrong:
    """A command on a run whose run.json is this."""
    return Wrong(command, told, GOOD | {"runs/old/run.json": content})


VISION = MODEL.parent / "vision"
ROW = {"id": "a", "prompt": "1+1=?", "answer": "2"}
CONFIG_JSON = json.loads((MODEL / "config.json").read_text())
SOUND = {"config": load("tiny-math").model_dump(mode="json"), "digests": {"model": "none"}, "run": "old"}

WRONG: dict[str, Wrong] = {
    # ---- profiles
    "a profile that is not there": Wrong("train nowhere", "There is no profile 'nowhere'"),
    "a profile that is almost there": Wrong("train tiny-mth", "Did you mean tiny-math?"),
    "a file that is not there": Wrong("train nowhere.yaml", "nowhere.yaml"),
    "a directory as profile": profile("p.yaml: ", FOLDER),
    "a profile of bytes": profile("p.yaml: not YAML", b"\x80\x81\xff\x00"),
    "a profile with a control character": profile("p.yaml: not YAML", "a: b\x07"),
    "an empty profile": profile("model is missing", ""),
    "a profile that is a list": profile("p.yaml: a profile is a mapping", "- 1"),
    "a profile that is a number": profile("p.yaml: a profile is a mapping", "7"),
    "tabs": profile("p.yaml: not YAML", "model:\n\tpath: x"),
    "a key twice": profile("'steps' stands in line 2 and in line 3", "train:\n  steps: 1\n  steps: 2"),
    "a key that is a list": profile("p.yaml: ", "? [a, b]\n: 1"),
    "a key that is a number": profile("7 is unknown", "extends: base\n7: 1"),
    "a YAML tag": profile("p.yaml: not YAML", "a: !!python/object:os.system x"),
    "a YAML that holds itself": profile("p.yaml: ", "model: &a {path: *a}"),
    "a list that holds itself": profile("learner.lr", "extends: tiny-math\nlearner: {lr: &a [*a]}"),
    "a date": profile("train.steps", "extends: tiny-math\ntrain: {steps: 2026-01-01}"),
    "extends itself": profile("`extends` goes round in a circle", "extends: p.yaml"),
    "extends itself by another path": profile(
        "`extends` goes round in a circle", "extends: ./sub/../p.yaml", sub=FOLDER
    ),
    "a circle of relative paths": profile(
        "`extends` goes round in a circle", "extends: sub/q.yaml", sub__q_yaml="extends: ../p.yaml"
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
    # ---- settings
    "an unknown section": train("rollot is unknown (did you mean rollout?)", "rollot.n=4"),
    "an unknown setting": train("rollout.m is unknown", "rollout.m=4"),
    "an unknown setting of an optional section": train(
        "model.lora.rnk is unknown (did you mean rank?)", "model.lora.rnk=4"
    ),
    "an unknown setting of a union": train("algorithm.entropy.nothing", "algorithm.entropy.nothing=4"),
    "an unknown setting deep in a value": train("model.path.x", "model.path.x=3"),
    "an unknown setting of a setting": train("rollout.n", "rollout.n.x.y=3"),
    "a setting below an optional number": train("rollout.max_mismatch", "rollout.max_mismatch.x=3"),
    "an optional section that is a value": train("model.lora", "model.lora=3"),
    "a value out of bounds in an optional section": train("model.lora.rank", "model.lora.rank=0"),
    "no value": train("'rollout.n' is not of the form section.field=value", "rollout.n"),
    "no field": train("'=3' is not of the form", "=3"),
    "a dot": train("'.=3'", ".=3"),
    "two dots": train("'rollout..n=3'", "rollout..n=3"),
    "a dot at the end": train("'rollout.=3'", "rollout.=3"),
    "no YAML": train("'rollout.n=[1': the value is not YAML", "rollout.n=[1"),
    "a section as a whole": train("rollout", "rollout=3"),
    "too few": train("rollout.n", "rollout.n=1"),
    "a fraction": train("rollout.n", "rollout.n=2.5"),
    "a word for a number": train("learner.lr", "learner.lr=fast"),
    "a boolean for a number": train("train.steps", "train.steps=[true]"),
    "null for a number": train("train.steps", "train.steps=null"),
    "infinity": train("learner.lr", "learner.lr=.inf"),
    "infinity by size": train("learner.lr", "learner.lr=1e999"),
    "not a number": train("learner.lr", "learner.lr=.nan"),
    "infinity for a whole number": train("train.steps", "train.steps=.inf"),
    "a temperature without end": train("rollout.temperature", "rollout.temperature=.inf"),
    "a coefficient without end": train("algorithm.kl.coef", "algorithm.kl.coef=.inf"),
    "a LoRA alpha without end": train("model.lora.alpha", "model.lora.alpha=.inf"),
    "an importance cap without end": train("algorithm.policy.importance_cap", "algorithm.policy.importance_cap=.inf"),
    "a negative": train("train.steps", "train.steps=-1"),
    "a negative seed": train("train.seed", "train.seed=-1"),
    "a seed of more than 63 bits": train("train.seed", f"train.seed={2**63}"),
    "a learning rate of another magnitude": train("learner.lr", "learner.lr=4"),
    "a temperature that divides by nothing": train("rollout.temperature", "rollout.temperature=1e-30"),
    "a temperature that levels everything": train("validation.temperature", "validation.temperature=1e9"),
    "more steps than folders": train("train.steps", "train.steps=1000000"),
    "more threads than any machine has": train("learner.threads", "learner.threads=100000"),
    "more ranks than any cluster has": train("learner.ranks", "learner.ranks=100000"),
    "a response of all tokens": train("rollout.max_response_length", "rollout.max_response_length=1e12"),
    "more samples than can be counted": train("rollout.n", "rollout.n=10000000000"),
    "a time limit without end": train("reward.timeout", "reward.timeout=1e300"),
    "more memory than there is": train("reward.code.memory_mb", "reward.code.memory_mb=1e18"),
    "an experiment without a name": train("tracking.experiment", 'tracking.experiment=""'),
    "a number of a thousand digits": train("train.seed", f"train.seed={'9' * 5000}"),
    "half a character": train("model.path", "model.path=\udcff"),
    "half a character in a data path": train("data.train", "data.train=\udcff.jsonl"),
    "a null byte": train("model.path", "model.path=a\0b"),
    "a null byte in a data path": train("data.train", 'data.train="a\\0b.jsonl"'),
    "an unknown engine": train("rollout.engine", "rollout.engine=magic"),
    "an unknown estimator": train("algorithm.advantage.estimator", "algorithm.advantage.estimator=magic"),
    "an unknown reward": train("reward.kind", "reward.kind=magic"),
    "settings that nobody takes": train("algorithm.advantage.settings", "algorithm.advantage.settings.x=1"),
    "triggers that are not there": train(
        "algorithm.entropy.trigger_tokens=t.txt", "algorithm.entropy.trigger_tokens=t.txt"
    ),
    "triggers that are a directory": train(
        "algorithm.entropy.trigger_tokens=t.txt", "algorithm.entropy.trigger_tokens=t.txt", t_txt=FOLDER
    ),
    "triggers of bytes": train(
        "algorithm.entropy.trigger_tokens=t.txt", "algorithm.entropy.trigger_tokens=t.txt", t_txt=b"\xff\xfe\x80"
    ),
    "more prompts than problems": train(
        "20 problems are fewer than rollout.prompts=21", "rollout.prompts=21", "learner.global_batch_prompts=21"
    ),
    # ---- names
    **{
        f"a run called {name[:12]!a}": Wrong(
            ["train", "good.yaml", f"--run={name}"], "cannot be the name of a run", GOOD
        )
        for name in ("../evil", "/tmp/abs", ".", "..", "a/b", "a\nb", "-dash", "a" * 300, "", "a b", "\udcff", "a\0b")
    },
    "a run resumed from elsewhere": Wrong("resume ../evil", "cannot be the name of a run"),
    "the status of a run elsewhere": Wrong("status ../evil", "cannot be the name of a run"),
    "samples of a run elsewhere": Wrong("inspect ../evil --step 1", "cannot be the name of a run"),
    "weights of a run elsewhere": Wrong("export ../evil --out o", "cannot be the name of a run"),
    "a fork elsewhere": Wrong("fork old --at 1 --run ../evil", "cannot be the name of a run"),
    "a fork of elsewhere": Wrong("fork ../evil --at 1", "cannot be the name of a run"),
    "a difference with elsewhere": Wrong("diff old ../evil", "cannot be the name of a run"),
    "leftovers of elsewhere": Wrong("gc ../evil", "cannot be the name of a run"),
    "an ablation elsewhere": Wrong("ablate code-rewards --name ../evil", "name: it is made of letters"),
    # ---- models
    "a model that is not there": train("model.path=nowhere", "model.path=nowhere"),
    "a model that is a file": train("model.path=good.yaml", "model.path=good.yaml"),
    "a model that is empty": train("model.path=m", "model.path=m", m=FOLDER),
    "no config.json": model("model.path=m", {"config.json": FOLDER}),
    "config.json is a list": model("model.path=m", {"config.json": "[]"}),
    "config.json is no JSON": model("model.path=m", {"config.json": "{"}),
    "config.json is empty": model("model.path=m", {"config.json": ""}),
    "config.json of bytes": model("model.path=m", {"config.json": b"\xff\xfe\x00"}),
    "config.json names no architecture": model("model.path=m", {"config.json": "{}"}),
    "an unknown architecture": model("model.path=m", {"config.json": CONFIG_JSON | {"model_type": "magic"}}),
    "another size": model("of another shape", {"config.json": CONFIG_JSON | {"intermediate_size": 8}}),
    "more layers than weights": model(
        "tensors are missing: ", {"config.json": CONFIG_JSON | {"num_hidden_layers": 5, "layer_types": None}}
    ),
    "a size of the wrong type": model("model.path=m", {"config.json": CONFIG_JSON | {"hidden_size": "big"}}),
    "heads that do not divide": model(
        "no causal model can be made", {"config.json": CONFIG_JSON | {"num_attention_heads": 0}}
    ),
    "weights cut off": model(
        "model.safetensors: damaged", {"model.safetensors": (MODEL / "model.safetensors").read_bytes()[:-9]}
    ),
    "weights that are text": model("model.safetensors: damaged", {"model.safetensors": "hello"}),
    "weights that are a directory": model(
        "model.path=m: there is none of model.safetensors", {"model.safetensors": FOLDER}
    ),
    "no tokenizer": model("no tokenizer can be loaded", {"tokenizer.json": FOLDER}),
    "a tokenizer that is no JSON": model("no tokenizer can be loaded", {"tokenizer.json": "{"}),
    "a tokenizer that is something else": model("no tokenizer can be loaded", {"tokenizer.json": "{}"}),
    "a tokenizer that is a list": model("no tokenizer can be loaded", {"tokenizer.json": "[1]"}),
    "a tokenizer of bytes": model("no tokenizer can be loaded", {"tokenizer.json": b"\xff\xfe\x00"}),
    "tokenizer settings that are a list": model("no tokenizer can be loaded", {"tokenizer_config.json": "[1]"}),
    "end tokens that are a word": model(
        "the end token 'end' is none of", {"generation_config.json": {"eos_token_id": "end"}}
    ),
    "an end token beyond the vocabulary": model(
        "the end token 99999", {"generation_config.json": {"eos_token_id": 99999}}
    ),
    "generation settings that are no JSON": model("generation_config.json", {"generation_config.json": "{"}),
    "a template that raises": model(
        "rows.jsonl:1: the chat template of m raises TemplateError on messages of user: no such role",
        {"chat_template.jinja": "{{ raise_exception('no such\nrole') }}"},
    ),
    "a template that does not parse": model("raises TemplateSyntaxError", {"chat_template.jinja": "{% for %}"}),
    "a template of something undefined": model("raises UndefinedError", {"chat_template.jinja": "{{ nothing.there }}"}),
    "a template that ignores the question": model("leaves out what is asked", {"chat_template.jinja": "Hello."}),
    "a template of bytes": model("no tokenizer can be loaded", {"chat_template.jinja": b"\xff\xfe"}),
    "no layer to adapt": model("model.lora.targets=query", {}, "model.lora.targets=[query]"),
    # ---- data
    "data that is not there": train("nowhere.jsonl: cannot be read", "data.train=nowhere.jsonl"),
    "data that is a directory": train("d.jsonl: cannot be read", "data.train=d.jsonl", d_jsonl=FOLDER),
    "data without a row": train("rows.jsonl: no rows", rows_jsonl=""),
    "data that is a blank": train("rows.jsonl: no rows", rows_jsonl="\n \n"),
    "data of bytes": train("rows.jsonl: cannot be read", rows_jsonl=b"\xff\xfe\x00\x01"),
    "data that is an array of lists": train("rows.jsonl:1: a row is a JSON object", rows_jsonl="[[1], [2]]"),
    "data that is half an array": train("rows.jsonl: not JSON", rows_jsonl=json.dumps(ROWS)[:-9]),
    "data that ends within a row": train("rows.jsonl:2: not JSON", rows_jsonl=f'{json.dumps(ROW)}\n{{"id": '),
    "data that is no gzip": train("d.jsonl.gz: cannot be read", "data.train=d.jsonl.gz", d_jsonl_gz="hello"),
    "data that is half a gzip": train(
        "d.jsonl.gz: cannot be read", "data.train=d.jsonl.gz", d_jsonl_gz=gzip.compress(json.dumps(ROW).encode())[:-9]
    ),
    "data that is no parquet": train("d.parquet: not readable as parquet", "data.train=d.parquet", d_parquet="hello"),
    "a parquet that is a directory": train("d.parquet", "data.train=d.parquet", d_parquet=FOLDER),
    "data nested too deep": train("rows.jsonl: not JSON", rows_jsonl="[" * 100_000),
    "data by URL": train("s3://bucket/rows.jsonl: data is read from this machine", "data.train=s3://bucket/rows.jsonl"),
    "data by nothing": train("data.train", 'data.train=""'),
    "data by number": profile("data.train", "extends: good.yaml\ndata: {train: 7}", good_yaml=PROFILE),
    "a file by a number": train("7: neither a file", "data.train=7"),
    "data by a mapping": train("data.train", "data.train={a: b}"),
    "data by an empty list": train("is empty", "data.train=[]"),
    "data by a list of numbers": train("data.train", "data.train=[7]"),
    "a glob of nothing": train("data/*.jsonl: there is no such file in ", "data.train=data/*.jsonl"),
    "a glob in a list, of nothing": train("no*: there is no such file", "data.train=[rows.jsonl, no*]"),
    "a second file that is not there": train("no.jsonl: cannot be read", "data.train=[rows.jsonl, no.jsonl]"),
    "a second file with the same ids": train(
        "b.jsonl:1: id 'p0' is a duplicate of row rows.jsonl:1", "data.train=[rows.jsonl, b.jsonl]", b_jsonl=ROWS
    ),
    "a kind of file that is not read": train(
        "rows.xlsx: no kind of file that is read", "data.train=rows.xlsx", rows_xlsx="PK"
    ),
    "a CSV without a header": train(
        "column 'prompt' is missing (columns: 1+1=?, 2)", "data.train=d.csv", d_csv="1+1=?,2\n2+2=?,4\n"
    ),
    "a CSV with semicolons": train(
        "column 'prompt' is missing (columns: prompt;answer)", "data.train=d.csv", d_csv="prompt;answer\na;b\n"
    ),
    "a CSV with a row too long": train(
        "d.csv: not readable as CSV", "data.train=d.csv", d_csv="prompt,answer\na,b\nc,d,e\n"
    ),
    "a CSV that is empty": train("d.csv: not readable as CSV", "data.train=d.csv", d_csv=""),
    "a CSV without an answer": train(
        "d.csv:2: column 'answer' is missing or null", "data.train=d.csv", d_csv="prompt,answer\na,b\nc,\n"
    ),
    "a CSV of bytes": train("d.csv: not readable as CSV", "data.train=d.csv", d_csv=b"prompt,answer\n\xff\xfe,b\n"),
    "a CSV that is no gzip": train("d.csv.gz: cannot be read", "data.train=d.csv.gz", d_csv_gz="prompt,answer\na,b\n"),
    "a CSV that is half a gzip": train(
        "d.csv.gz: cannot be read", "data.train=d.csv.gz", d_csv_gz=gzip.compress(b"prompt,answer\na,b\n")[:-9]
    ),
    "a folder without data": train("d: neither a file", "data.train=d", d=FOLDER),
    **{
        what: Wrong(
            ["train", "good.yaml", "data.train=d", "--run", "new"], told, GOOD | {f"d/{n}": c for n, c in held.items()}
        )
        for what, told, held in (
            ("a saved set without its files", "d: neither a file", {"state.json": "{}", "dataset_info.json": "{}"}),
            ("a saved set whose state is a list", "d: neither a file", {"state.json": "[]", "dataset_info.json": "{}"}),
            ("saved splits of bytes", "d: neither a file", {"dataset_dict.json": b"\xff\xfe"}),
            ("saved splits without their folders", "d: neither a file", {"dataset_dict.json": {"splits": ["train"]}}),
            ("a folder of JSON that is none", "d: neither a file", {"a.json": "{"}),
            ("a folder of parquet that is none", "d: neither a file", {"a.parquet": "{"}),
        )
    },
    "a configuration that there is not": train(
        "'mian'",
        "data.train=hub:mian",
        **{"hub__README_md": "---\nconfigs:\n- config_name: main\n  data_files: a.jsonl\n---\n", "hub__a_jsonl": ROWS},
    ),
    "a split that there is not": train("split 'dev'", "data.train=hub", "data.train_split=dev", hub__train_jsonl=ROWS),
    "a revision of a folder": train("only a data set of the hub has revisions", "data.train=hub@v1", hub__a_jsonl=ROWS),
    "a set of the hub that is not at hand": train("openai/gsm8k:main@v1: neither", "data.train=openai/gsm8k:main@v1"),
    "a limit of none": train("data.limit", "data.limit=0"),
    "too few rows within a limit": train(
        "5 problems are fewer than rollout.prompts=16: set rollout.prompts=5 learner.global_batch_prompts=5",
        "data.limit=5",
    ),
    "a template without a place": train("there is no {prompt} in it", "data.format_prompt=Solve this."),
    "a template that is a mapping": profile(
        "put the template in quotes", "extends: good.yaml\ndata: {format_prompt: {prompt}}", good_yaml=PROFILE
    ),
    "a setting the chat template does not look at": train(
        "data.chat_template_kwargs.enable_thinking: the chat template of ",
        "data.chat_template_kwargs.enable_thinking=no",
    ),
    "settings of the chat template that are none": train("data.chat_template_kwargs", "data.chat_template_kwargs=7"),
    "a setting of the chat template that it cannot take": train(
        "raises TypeError", "data.chat_template_kwargs.messages=[]"
    ),
    "a system prompt that is a list": profile(
        "data.system_prompt", "extends: good.yaml\ndata: {system_prompt: [a]}", good_yaml=PROFILE
    ),
    "held-out sets without one": train("data.validation: no held-out set is named", "data.validation={}"),
    "a held-out set with an unknown setting": train(
        "aime.promt_key is unknown (did you mean prompt_key?)", "data.validation={aime: {source: a, promt_key: q}}"
    ),
    "a held-out set without a source": train("aime.source is missing", "data.validation={aime: {prompt_key: q}}"),
    "a held-out set that is a number": train("aime: a source, or a section of", "data.validation={aime: 7}"),
    "a held-out set with a name that is a path": train("'a/b' cannot name a held-out set", "data.validation={a/b: x}"),
    "a held-out set with a name too long": train(
        "cannot name a held-out set", f"data.validation={{{'a' * 99}: rows.jsonl}}"
    ),
    "a held-out set that is not there": train(
        "no.jsonl: cannot be read", "data.validation={a: rows.jsonl, b: no.jsonl}"
    ),
    "a held-out set without its column": train(
        "Name it with data.validation.aime.prompt_key=…",
        "data.validation={aime: {source: rows.jsonl, prompt_key: problem}}",
    ),
    "a held-out set that is a section of one that is a file": Wrong(
        ["train", "good.yaml", "data.validation=h.jsonl", "data.validation.a.source=b", "--run", "new"],
        "validation is a value, not a section",
        GOOD,
    ),
    "a column that is not there": train("column 'solution' is missing", "data.answer_key=solution"),
    "a prompt column that is not there": train("column 'question' is missing", "data.prompt_key=question"),
    "held-out data that is not there": train("held.jsonl: cannot be read", "data.validation=held.jsonl"),
    "all prompts too long": train("longer than data.max_prompt_length=2", "data.max_prompt_length=2"),
    "rows that cannot be read": rows("not JSON", "{"),
    "no prompt": rows("column 'prompt' is missing or null", {"id": "a", "answer": "2"}),
    "an empty prompt": rows("the prompt is empty", ROW | {"prompt": " "}),
    "a prompt that is a number": rows("a prompt is text or a list of messages", ROW | {"prompt": 7}),
    "a prompt of no messages": rows("a prompt is text or a list of messages", ROW | {"prompt": []}),
    "messages without a role": rows("a prompt is text or a list of messages", ROW | {"prompt": [{"content": "x"}]}),
    "an empty last message": rows("the prompt is empty", ROW | {"prompt": [{"role": "user", "content": ""}]}),
    "the answer in the prompt": rows(
        "the prompt ends with a message of the assistant",
        ROW | {"prompt": [{"role": "user", "content": "1+1=?"}, {"role": "assistant", "content": "2"}]},
    ),
    "an answer that is null": rows("column 'answer' is missing or null", ROW | {"answer": None}),
    "an id twice": rows("id 'a' is a duplicate of row 1", ROW, ROW),
    "half a character in a row": rows("half of a character", '{"id": "a", "prompt": "\\ud800", "answer": "2"}'),
    "a set that nobody has": Wrong("data check no/such-set", "no/such-set"),
    "a program's tests that do not parse": rows(
        "test 1 does not parse", {"id": "a", "prompt": "x", "test_cases": ["assert f("]}, settings=("--code",)
    ),
    "no tests": rows("test", {"id": "a", "prompt": "x"}, settings=("--code",)),
    "an unknown setting of the check": Wrong(
        "data check r.jsonl data.promt_key=x", "data.promt_key is unknown", {"r.jsonl": [ROW]}
    ),
    "a tokenizer for the check that is not there": Wrong(
        "data check r.jsonl --model nowhere", "nowhere", {"r.jsonl": [ROW]}
    ),
    # ---- rewards
    "a reward that is not there": reward("nowhere.py", "", "nowhere.py:score"),
    "a reward that is a directory": reward("r.py", FOLDER),
    "a reward without the function": reward("score", "def other(completions): return []"),
    "a reward that does not parse": reward("r.py", "def score(completions:\n"),
    "a reward of bytes": reward("r.py", b"\xff\xfe\x00"),
    "a reward whose import fails": reward("No module named 'no_such_module'", "import no_such_module"),
    "a reward that raises when read": reward("r.py:2", "\nraise ValueError('nothing works')"),
    "a reward that ends the process": reward("r.py", "import sys\nsys.exit(0)"),
    "a reward that is a number": reward("score", "score = 7"),
    "a reward that takes nothing": reward("score", "def score(): return []"),
    "a reward on another scale": reward("reward.accuracy=", "def score(completions, **k): return [5.0, -1.0]"),
    "a reward that is no number": reward("r.py:score gave 'yes'", "def score(solution_str, **k): return 'yes'"),
    "a reward for too few": reward("returned 1 scores for 2", "def score(completions, **k): return [1.0]"),
    "rewards without an accuracy": reward("reward.accuracy", "def score(completions, **k): pass", "[math, r.py:score]"),
    # ---- runs
    "a run that is not there": Wrong("status nowhere", "nowhere"),
    "samples of a run that is not there": Wrong("inspect nowhere --step 1", "nowhere"),
    "a run that is not there, resumed": Wrong("resume nowhere", "nowhere"),
    "a run that is not there, exported": Wrong("export nowhere --out o", "nowhere"),
    "a run that is not there, forked": Wrong("fork nowhere --at 1", "nowhere"),
    "runs that are not there, compared": Wrong("diff nowhere there", "nowhere"),
    "a run that is not there, cleaned": Wrong("gc nowhere", "nowhere"),
    "a run that is not there, evaluated": Wrong("eval nowhere", "nowhere"),
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
    "a step that is not there": run_json("no committed step 3", "inspect old --step 3", SOUND),
    "a step before the first": run_json("no committed step -1", "inspect old --step -1", SOUND),
    "a page of a step that is not there": run_json("no committed step 3", "inspect old --step 3 --html p.html", SOUND),
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
    # ---- evaluations, ablations and the rest
    "no samples": Wrong("eval old --n 0", "--n", {"runs/old/run.json": SOUND}, lines=9),
    "k that is a word": Wrong(["eval", "old", "--k", "x"], "--k", {"runs/old/run.json": SOUND}),
    "k above n": Wrong("eval old --n 2 --k 4", "k", {"runs/old/run.json": SOUND}),
    "an evaluation of nothing": Wrong(f"eval {MODEL}", "Name the problems with --data"),
    "a step of a model": Wrong(f"eval {MODEL} --step 3 --data r.jsonl", "only a run has steps", {"r.jsonl": [ROW]}),
    "an evaluation into a file": Wrong(
        f"eval {MODEL} --data r.jsonl --out o --profile good.yaml",
        "o holds something that is no evaluation",
        {"r.jsonl": ROWS, "o": "hello", "good.yaml": PROFILE},
    ),
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
    "a warm start that is not there": Wrong("warmstart magic", "There is no warm start 'magic'"),
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
    "a new profile elsewhere": Wrong("new ../mine --from tiny-math", "cannot be the name of a run"),
    "a profile for the doctor that is not there": Wrong("doctor nowhere", "There is no profile 'nowhere'"),
    "a dry run with an unknown setting": Wrong("train tiny-math rollot.n=1 --dry-run", "rollot is unknown"),
    "services that are not there": Wrong("down", "ares up"),
    # ---- one's own classes, pictures, and paths that there cannot be
    **{
        f"an estimator's file that {what}": Wrong(
            ["train", "good.yaml", f"algorithm.advantage.estimator=e.py:{name}", "--run", "new"],
            "e.py",
            GOOD | {"e.py": text},
        )
        for what, name, text in (
            ("lacks the class", "Other", "class E: ..."),
            ("has a class without methods", "E", "class E: ..."),
            ("raises", "E", "1 / 0"),
            ("does not parse", "E", "def"),
            ("is bytes", "E", b"\xff\xfe"),
            ("ends the process", "E", "raise SystemExit(0)"),
            ("calls itself", "E", "def f(): f()\nf()"),
            ("is a directory", "E", FOLDER),
        )
    },
    **{
        f"images: {images!r:.20}": Wrong(
            ["train", "good.yaml", f"model.path={VISION}", "model.family=vision_language", "--run", "new"],
            "rows.jsonl:1: ",
            GOOD
            | {"rows.jsonl": [row | {"prompt": "<image> What?", "images": images} for row in ROWS], "text.png": "hello"}
            | {"folder.png": FOLDER},
        )
        for images in (["no.png"], ["text.png"], ["folder.png"], 7, [7], [{"bytes": "zz"}], ["a\0b"], ["a" * 5000], [])
    },
    "images for a model that only reads": train(
        "shows something", rows_jsonl=[row | {"images": ["x"]} for row in ROWS]
    ),
    "a family that the model is not of": train("no vision_language model can be made", "model.family=vision_language"),
    "a profile with a long name": Wrong(["train", "a" * 5000], "There is no profile"),
    "a profile with a long path": Wrong(["train", f"{'a' * 5000}.yaml"], "There is no profile"),
    "a profile without a name": Wrong(["train", ""], "There is no profile"),
    "a directory for a profile": Wrong("train .", "There is no profile"),
    "extends a long name": profile("There is no profile", f"extends: {'a' * 5000}"),
    "extends a null byte": profile("There is no profile", 'extends: "a\\0b.yaml"'),
    "extends a mapping": profile("p.yaml: extends: ", "extends: {a: 1}"),
    "a model with a long path": train("model.path=aaa", f"model.path={'a' * 5000}"),
    "data with a long path": train("cannot be read", f"data.train={'a' * 5000}.jsonl"),
    "a check of a long path": Wrong(["data", "check", "a" * 5000], "aaa"),
    "a check of nothing": Wrong(["data", "check", ""], "is empty"),
    "a check against nothing": Wrong("data check r.jsonl --profile nowhere", "'nowhere'", {"r.jsonl": [ROW]}),
    "a glob of a check": Wrong(["data", "check", "no*.jsonl"], "no*.jsonl: there is no such file"),
    "wrong rows of a held-out set": Wrong(
        ["data", "check", "r.jsonl", "data.validation={own: h.jsonl}"],
        "h.jsonl:1",
        {"r.jsonl": [ROW], "h.jsonl": [ROW | {"answer": None}]},
    ),
    "a setting of the template of a check": Wrong(
        ["data", "check", "r.jsonl", "--model", str(MODEL), "data.chat_template_kwargs.thinking=true"],
        "does not look at it",
        {"r.jsonl": [ROW]},
    ),
    "held-out data of a check": Wrong("data check r.jsonl data.validation=h.jsonl", "h.jsonl", {"r.jsonl": [ROW]}),
    "a warm start beneath a file": Wrong("warmstart tiny-math --out f/x", "--out f/x: no folder", {"f": "hello"}),
    # ---- more of evaluations and ablations
    **{
        f"eval {' '.join(given)}": Wrong(
            ["eval", str(MODEL), "--data", "rows.jsonl", "--profile", "good.yaml", *given], told, GOOD | files
        )
        for told, given, files in (
            ("k", ("--k", "0"), {}),
            ("k", ("--k", "-1"), {}),
            ("temperature", ("--temperature", "inf"), {}),
            ("temperature", ("--temperature", "nan"), {}),
            ("temperature", ("--temperature", "-1"), {}),
            ("max_problems", ("--max-problems", "0"), {}),
            ("rollot is unknown", ("rollot.n=1",), {}),
            ("o holds something that is no evaluation", ("--out", "o"), {"o/x": "hello"}),
            ("evaluation.json: not readable", ("--out", "o"), {"o/evaluation.json": "["}),
        )
    },
    "an evaluation that is a list": Wrong(
        f"eval {MODEL} --data rows.jsonl --profile good.yaml --out o",
        "evaluation.json: not readable",
        GOOD | {"o/evaluation.json": "[1]"},
    ),
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
