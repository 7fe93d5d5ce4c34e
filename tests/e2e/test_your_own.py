"""docs/your-own.md: every command of the page, as it stands, on files of the formats that the page describes.

Training commands only get SMALLEST added, since the page's profile is made for GPUs. Not covered: that anything is
learned; weights are random.
"""

import csv
import re
import shlex
from pathlib import Path

import pandas as pd
import pytest
from transformers import AutoConfig, AutoModelForCausalLM

from tests.ares.builders import tokenizer
from tests.ares.data.code_rows import written
from tests.short_runs import REPOSITORY, ares, commits, told

PAGE = REPOSITORY / "docs" / "your-own.md"
SMALLEST = [
    "train.steps=1", "rollout.prompts=2", "rollout.n=2", "rollout.max_response_length=8",
    "learner.global_batch_prompts=2", "bootstrap.n=1", "validation.n=1", "algorithm.filter.enabled=false",
    "bootstrap.max_prompts=6", "validation.max_prompts=4",
]  # fmt: skip
SOLVED = [
    {
        "question": f"Tim has {n} clips and buys 4. How many does he have?",
        "answer": f"{n} + 4 = <<{n}+4={n + 4}>>\n#### {n + 4}",
    }
    for n in range(6)
]


def page_commands() -> dict[str, list[str]]:
    """The words of the page's commands, by run name or by what is checked."""
    blocks = re.findall(r"^```bash\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.M | re.S)
    lines = [line for block in blocks for line in block.replace("\\\n", " ").splitlines()]
    commands = [shlex.split(line)[1:] for line in lines if line.startswith("ares ")]
    return {"check" if words[0] == "data" else words[words.index("--run") + 1]: words for words in commands}


def page_rewards() -> dict[str, str]:
    """The reward files of the page, by name."""
    blocks = re.findall(r"^```python\n# (\w+\.py)\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.M | re.S)
    return dict(blocks)


def llama(folder: Path) -> None:
    """A Llama of two layers with random weights, and a tokenizer of characters."""
    tokens = tokenizer()
    config = AutoConfig.for_model(
        "llama", vocab_size=len(tokens), hidden_size=32, intermediate_size=64, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=8192, bos_token_id=None,
        eos_token_id=tokens.eos_token_id, pad_token_id=tokens.pad_token_id,
    )  # fmt: skip
    AutoModelForCausalLM.from_config(config).save_pretrained(folder)
    tokens.save_pretrained(folder)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the files and the model that the page mentions."""
    folder = tmp_path_factory.mktemp("your-own")
    llama(folder / "my-llama")
    for name, text in page_rewards().items():
        (folder / name).write_text(text)
    written(folder / "gsm8k.jsonl", *SOLVED)
    sums = [{"prompt": f"{n}+4=?", "answer": str(n + 4)} for n in range(6)]
    written(folder / "sums.jsonl", *sums[:4])
    written(folder / "held-out.jsonl", *sums[4:])
    written(folder / "problems" / "first.jsonl", *sums[:4])
    tests = [f"assert add(1, {n}) == {n + 1}" for n in range(4)]
    written(folder / "programs.jsonl", *({"prompt": "Write add(a, b).", "test_cases": [test]} for test in tests))
    for part in range(2):
        written(folder / "parts" / f"{part}.jsonl", *SOLVED[part::2])
    with (folder / "easy.csv").open("w", newline="") as handle:
        csv.writer(handle).writerows([("problem", "solution"), ("1+1=?", "2"), ("What, then,\nis 2+2?", "4")])
    for name in ("train", "test"):
        rows = [
            {
                "data_source": "openai/gsm8k",
                "prompt": [{"role": "user", "content": f"What is {n}+1?"}],
                "ability": "math",
                "reward_model": {"style": "rule", "ground_truth": str(n + 1)},
                "extra_info": {"split": name, "index": n},
            }
            for n in range(4)
        ]
        pd.DataFrame(rows).to_parquet(folder / f"{name}.parquet")
    return folder


def at(home: Path, words: list[str]) -> list[str]:
    """The words with the full path of every file of the page; the tests' commands run elsewhere."""
    names = sorted((path.name for path in home.iterdir()), key=len, reverse=True)
    file = re.compile(rf"(?<![\w/.-])({'|'.join(map(re.escape, names))})(?![\w.-])")
    return [file.sub(lambda match: str(home / match[1]), word) for word in words]


def test_what_would_be_trained_on_is_checked(home: Path) -> None:
    ended = told(home / "runs", *at(home, page_commands()["check"]))
    assert ended.returncode == 0, ended.stderr
    assert "Tim has 0 clips and buys 4. How many does he have?<|im_end|>" in ended.stdout
    assert "6 problems to train on" in ended.stdout


@pytest.mark.slow
@pytest.mark.parametrize("run", [name for name in page_commands() if name != "check"])
def test_every_command_of_the_page_trains(run: str, home: Path) -> None:
    ended = ares(home / "runs", *at(home, page_commands()[run]), *SMALLEST)
    assert ended.returncode == 0, f"{ended.stdout}\n{ended.stderr}"
    made = commits(home / "runs", run)
    assert [commit.step for commit in made] == [0, 1]
    if run == "llama":  # which has held-out sets with names
        for commit in made:
            assert {"val/accuracy", "val/easy/accuracy", "val/gsm8k/accuracy"} <= commit.metrics.keys()


def test_the_page_has_the_commands_that_are_tested() -> None:
    runs = {"gsm8k", "verl", "llama", "right", "right-and-brief", "verl-reward"}
    assert {"check"} | runs <= page_commands().keys()
    assert page_rewards().keys() == {"my_rewards.py", "verl_reward.py"}
