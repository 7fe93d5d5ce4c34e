"""The same step with TRL's GRPOTrainer (pip install trl): one JSON line, for benchmarks/trl_step.py.

python -m benchmarks.trl_peer MODEL WORK STEPS THREADS
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

from benchmarks.trl_step import GROUP, WORK, peak_memory, questions


class Marks(TrainerCallback):
    """Seconds of the clock, CPU seconds, sampled tokens and the peak of memory at the end of each step."""

    def __init__(self) -> None:
        self.at: list[tuple[float, float, int, float]] = []
        self.tokens = 0

    def on_step_end(self, *arguments: Any, **named: Any) -> None:
        self.at.append((time.perf_counter(), time.process_time(), self.tokens, peak_memory()))


def main() -> None:
    model, work = Path(sys.argv[1]), WORK[sys.argv[2]]
    steps, threads = map(int, sys.argv[3:])
    torch.set_num_threads(threads)
    marks, micro_batches = Marks(), work.prompts * GROUP // work.micro

    def reward(completion_ids: list[list[int]], **columns: Any) -> list[float]:
        marks.tokens += sum(map(len, completion_ids))
        return [float(sum(ids) % 97) / 97 for ids in completion_ids]

    settings = GRPOConfig(
        output_dir=tempfile.mkdtemp(), use_cpu=True, bf16=False, per_device_train_batch_size=work.micro,
        gradient_accumulation_steps=micro_batches, steps_per_generation=micro_batches,
        num_generations=GROUP, max_completion_length=work.tokens, max_steps=steps, learning_rate=1e-5, beta=0.0,
        loss_type="grpo", temperature=1.0, top_k=0, num_iterations=1, logging_steps=1, save_strategy="no",
        report_to=[], gradient_checkpointing=False, disable_tqdm=True,
    )  # fmt: skip
    prompts = [{"prompt": [{"role": "user", "content": question}]} for question in questions(work, 2 * steps)]
    trainer = GRPOTrainer(
        model=AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32),
        processing_class=AutoTokenizer.from_pretrained(model),
        reward_funcs=reward, args=settings, train_dataset=Dataset.from_list(prompts), callbacks=[marks],
    )  # fmt: skip
    trainer.train()
    print(json.dumps(marks.at))


if __name__ == "__main__":
    main()
