"""The same step with TRL's GRPOTrainer (pip install trl): one JSON line, for benchmarks/trl_step.py.

python -m benchmarks.trl_peer MODEL WORK STEPS THREADS [float32|autocast|bfloat16]

`autocast`: float32 weights and bfloat16 computation, as in ares; `bfloat16`: the weights are bfloat16 too.
"""

import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from transformers import AutoModelForCausalLM, AutoTokenizer, TrainerCallback
from trl import GRPOConfig, GRPOTrainer

from benchmarks.trl_step import GROUP, MICRO, PROMPTS, WORK, questions


class Marks(TrainerCallback):
    """Seconds of the clock, CPU seconds and sampled tokens at the end of each step."""

    def __init__(self) -> None:
        self.at: list[tuple[float, float, int]] = []
        self.tokens = 0

    def on_step_end(self, *arguments: Any, **named: Any) -> None:
        self.at.append((time.perf_counter(), time.process_time(), self.tokens))


def main() -> None:
    model, work, precision = Path(sys.argv[1]), WORK[sys.argv[2]], (*sys.argv[5:], "float32")[0]
    steps, threads = map(int, sys.argv[3:5])
    torch.set_num_threads(threads)
    autocast, pure = precision == "autocast", precision == "bfloat16"
    marks = Marks()

    def reward(completion_ids: list[list[int]], **columns: Any) -> list[float]:
        marks.tokens += sum(map(len, completion_ids))
        return [float(sum(ids) % 97) / 97 for ids in completion_ids]

    settings = GRPOConfig(
        output_dir=tempfile.mkdtemp(), use_cpu=True, bf16=autocast, per_device_train_batch_size=MICRO,
        gradient_accumulation_steps=PROMPTS * GROUP // MICRO, steps_per_generation=PROMPTS * GROUP // MICRO,
        num_generations=GROUP, max_completion_length=work.tokens, max_steps=steps, learning_rate=1e-5, beta=0.0,
        loss_type="grpo", temperature=1.0, top_k=0, num_iterations=1, logging_steps=1, save_strategy="no",
        report_to=[], gradient_checkpointing=False, disable_tqdm=True,
    )  # fmt: skip
    prompts = [{"prompt": [{"role": "user", "content": question}]} for question in questions(work, 2 * steps)]
    trainer = GRPOTrainer(
        model=AutoModelForCausalLM.from_pretrained(model, dtype=torch.bfloat16 if pure else torch.float32),
        processing_class=AutoTokenizer.from_pretrained(model),
        reward_funcs=reward, args=settings, train_dataset=Dataset.from_list(prompts), callbacks=[marks],
    )  # fmt: skip
    trainer.train()
    print(json.dumps(marks.at))


if __name__ == "__main__":
    main()
