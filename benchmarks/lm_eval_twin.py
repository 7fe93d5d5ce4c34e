"""A finished greedy evaluation asked again of lm-evaluation-harness: are responses and accuracy the same?

    ares eval examples/smollm2/checkpoint --profile smollm2 --greedy       # says which folder it wrote
    pip install lm-eval && python -m benchmarks.lm_eval_twin FOLDER examples/smollm2/checkpoint

lm-eval's hf backend is given the prompts as the policy saw them, float32 and the same limit. Not covered: tasks of
lm-eval's own.
"""

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import pandas as pd
from lm_eval import simple_evaluate
from transformers import AutoTokenizer

TASK = "ares"


def task_of(rows: pd.DataFrame, folder: Path, end: str, tokens: int) -> dict[str, Any]:
    """lm-eval's configuration of a local task with these prompts."""
    (folder / "test.jsonl").write_text("".join(json.dumps({"prompt": prompt}) + "\n" for prompt in rows["prompt"]))
    return {
        "task": TASK,
        "dataset_path": "json",
        "dataset_kwargs": {"data_files": {"test": str(folder / "test.jsonl")}},
        "test_split": "test",
        "output_type": "generate_until",
        "doc_to_text": "{{prompt}}",
        "doc_to_target": "",
        "generation_kwargs": {"until": [end], "max_gen_toks": tokens, "do_sample": False},
        "metric_list": [{"metric": "exact_match"}],
    }


def main() -> None:
    evaluation, model = Path(sys.argv[1]), sys.argv[2]
    rows = pd.read_parquet(evaluation / "samples.parquet")
    tokens = int(rows["tokens"].max())
    end = str(AutoTokenizer.from_pretrained(model).eos_token)
    with tempfile.TemporaryDirectory() as folder:
        found = simple_evaluate(
            model="hf",
            model_args={"pretrained": model, "dtype": "float32", "device": "cpu"},
            tasks=[task_of(rows, Path(folder), end, tokens)],
            batch_size=16,
            log_samples=True,
        )
    samples = sorted(found["samples"][TASK], key=lambda sample: sample["doc_id"])
    theirs = pd.Series([sample["resps"][0][0] for sample in samples])
    ours = rows["response"].reset_index(drop=True)
    same = ours.str.strip() == theirs.str.strip()
    print(f"{int(same.sum())} of {len(same)} responses are the same; accuracy {rows['accuracy'].mean():.3f}")
    for place in same[~same].index[:3]:
        print(f"  {rows['id'].iloc[place]}: {ours[place]!r}, of lm-eval {theirs[place]!r}")


if __name__ == "__main__":
    main()
