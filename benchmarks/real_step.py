"""A run's steps by phase: seconds, tokens a second, and the share of the machine's matrix products that they reach.

    python -m benchmarks.real_step runs/smollm2

Medians over all steps but the first. A token costs 2 FLOPs for each weight forward and 4 backward; the head counts for
response tokens alone, and prompts count once a group. Attention, which is small at these lengths, is left out. For a
model without adapters, on a CPU. Not covered: TRL beside it (benchmarks/trl_step.py).
"""

import statistics
import sys
import time
from pathlib import Path

import torch
from transformers import AutoConfig, AutoModelForCausalLM

from ares.store import RunStore, read_config


def sizes(path: str) -> tuple[int, int]:
    """Weights of the decoder, and of the head."""
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(path))
    embeddings = {id(model.get_input_embeddings().weight), id(model.get_output_embeddings().weight)}
    decoder = sum(weight.numel() for weight in model.parameters() if id(weight) not in embeddings)
    return decoder, model.get_output_embeddings().weight.numel()


def product_flops(threads: int, width: int = 1536) -> float:
    """FLOPs a second of a float32 matrix product [width, width] × [width, width], the best of ten."""
    torch.set_num_threads(threads)
    one, other = (torch.randn(width, width) for _ in range(2))
    seconds = []
    for _ in range(10):
        begun = time.perf_counter()
        one @ other
        seconds.append(time.perf_counter() - begun)
    return 2 * width**3 / min(seconds)


def main() -> None:
    store = RunStore(Path(sys.argv[1]))
    config = read_config(store)
    decoder, head = sizes(config.model.location)
    groups, rows = config.rollout.prompts, config.rollout.prompts * config.rollout.n
    commits = [store.read_commit(step) for step in store.committed_steps()[2:]]

    def median(of: str) -> float:
        return statistics.median((commit.metrics | commit.timings).get(of, 0.0) for commit in commits)

    prompt, response = median("prompt_length/mean"), median("response_length/mean")
    forward = 2 * (decoder * (groups * prompt + rows * response) + head * rows * response)
    passes = 2 if config.algorithm.kl.placement != "none" else 1  # the reference's, too
    peak = product_flops(config.learner.threads)
    print(f"{store.name}: {rows} responses of {response:.1f} tokens after prompts of {prompt:.1f}; a matrix product of "
          f"{config.learner.threads} thread(s): {peak / 1e9:.0f} GFLOP/s")  # fmt: skip
    flops = {"rollout": forward, "experience": passes * forward, "update": 3 * forward}
    for phase, spent in flops.items():
        seconds = median(f"timing_s/{phase}")
        print(
            f"  {phase:10s} {seconds:6.1f} s  {rows * response / seconds:6.0f} tokens/s  {spent / seconds / peak:5.1%}"
        )
    print(f"  {'step':10s} {median('timing_s/step'):6.1f} s")


if __name__ == "__main__":
    main()
