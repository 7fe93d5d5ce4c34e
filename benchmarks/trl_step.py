"""A training step against TRL's GRPOTrainer: same model, prompts, group size, lengths and update count, in float32.

Ours is the flow as users run it: Prefect, run directory, MLflow, Ray actors (vLLM, learner). TRL's is its trainer with
transformers' generation. Both write their CPU seconds (ours: of every process it has started) and seconds of the clock
after each step; the first half of the steps is left out. Lengths are fixed, after prompts of about 25 tokens or about
125, or geometric (one token in 40 ends the response). `story` and `sums` are answers of SmolLM2 (`make real` fetches
it) of 64 tokens, or as long as it likes up to 512, on one thread each. Peak memory of ours: learner's plus engine's.

    pip install trl && nice -n -5 python -m benchmarks.trl_step [STEPS] [fixed|fixed_long_prompts|skewed …]
    python -m benchmarks.trl_step 5 story sums
"""

import importlib.util
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

GROUP = 8
SMOLLM2 = "examples/smollm2/checkpoint"


@dataclass
class Work:
    """What is sampled: the most tokens, the end token's logit (None: SmolLM2's own), what each question begins with,
    prompts a step, and the size of a micro-batch: rows of TRL's, tokens of ours."""

    tokens: int
    end_logit: float | None
    preamble: str = ""
    prompts: int = 16
    micro: int = 32
    micro_tokens: int = 4096


WORK = {
    "fixed": Work(128, -30.0),
    "fixed_long_prompts": Work(128, -30.0, "Add the numbers one after the other. " * 3),
    "skewed": Work(256, 2.05),
    "story": Work(64, None, "Write a long story in which a child asks: ", prompts=4, micro=8, micro_tokens=512),
    "sums": Work(512, None, prompts=4, micro=8, micro_tokens=512),
}
TWO = ["rollout.engines=2", "learner.ranks=2"]  # two cores: processes of one thread each
LEAN = "algorithm.policy.old_log_probs=engine"  # TRL makes no pass before the update either
SAME = "TRL, 2, our allocator"  # what flows/environment.py sets for our processes, set for TRL's
WAYS = {
    "ares, transformers": [*TWO, "rollout.engine=transformers", LEAN],
    "ares, vLLM": [*TWO, "rollout.engine=vllm", LEAN],
    "ares, vLLM, exact entropies": [*TWO, "rollout.engine=vllm"],
}
REWARD = """
def reward(completions, **columns):
    return [float(sum(map(ord, text)) % 97) / 97 for text in completions]
"""
SETTINGS = [
    "data.validation=null", "data.max_prompt_length=160", "bootstrap.max_prompts=16", "bootstrap.n=1",
    "validation.every=1000", "train.checkpoint_every=1000", "algorithm.filter.enabled=false",
    "algorithm.aepo.enabled=false", "algorithm.kl.placement=none",
    f"rollout.n={GROUP}", "learner.lr=1e-5", "learner.warmup_steps=0",
]  # fmt: skip


def questions(work: Work, steps: int) -> list[str]:
    return [f"{work.preamble}What is {i % 97}+{(i * 7) % 89}?" for i in range(work.prompts * steps)]


def peak_memory(process: int | str = "self") -> float:
    """The most memory that a process has had, in GB."""
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1e6


def ours(model: Path, work: Work, steps: int, settings: list[str]) -> None:
    """Run the flow; one JSON line with seconds, CPU seconds of the process tree, tokens, and the peak memory of learner
    and engine after each commit."""
    import flows.environment  # noqa: F401 (first: libraries read their settings at import)

    home = Path(tempfile.mkdtemp(prefix="ares-benchmark-"))
    os.environ["ARES_RUNS"], os.environ["PREFECT_HOME"] = str(home), str(home / "prefect")
    (home / "reward.py").write_text(REWARD)
    rows = [{"id": str(i), "prompt": text, "answer": "0"} for i, text in enumerate(questions(work, 2 * steps))]
    (home / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))

    import asyncio

    import psutil

    from ares.cluster import Cluster
    from ares.store import Commit, RunStore
    from flows.run_log import run_in_flow
    from flows.servers.local_server import local_api
    from flows.start import conduct, open_run

    marks: list[tuple[float, float, int, float]] = []
    write = RunStore.write_commit

    def marked(self: RunStore, commit: Commit) -> None:
        write(self, commit)
        me = psutil.Process()
        processes = [me, *me.children(recursive=True)]
        cpu = sum(sum(process.cpu_times()[:2]) for process in processes)
        memory = sum(peak_memory(process.pid) for process in processes if "Actor" in process.name())
        marks.append((time.perf_counter(), cpu, commit.state["counters"]["tokens"], memory))

    RunStore.write_commit = marked  # type: ignore[method-assign]
    prompts = [f"rollout.prompts={work.prompts}", f"learner.global_batch_prompts={work.prompts}"]
    overrides = [*SETTINGS, *prompts, *settings, f"model.path={model}", f"data.train={home / 'train.jsonl'}",
                 f"reward.kind={home / 'reward.py'}:reward", f"train.steps={steps}",
                 f"rollout.max_response_length={work.tokens}",
                 f"learner.micro_batch_tokens={work.micro_tokens}"]  # fmt: skip
    with local_api() as server:
        assert server is not None
        with server.connected():
            run = open_run("tiny-math", overrides, "run", Cluster)
            asyncio.run(run_in_flow("ares-train", "run", lambda: conduct(run)))
    print(json.dumps(marks))


def measured(command: list[str], settings: dict[str, str]) -> tuple[float, float, float, float]:
    """Medians over the later half of the steps: seconds, tokens a second, tokens a CPU second; and GB of memory."""
    environment = os.environ | {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "TRL_EXPERIMENTAL_SILENCE": "1"}
    environment |= settings
    ended = subprocess.run([sys.executable, "-m", *command], env=environment, capture_output=True, text=True)
    if ended.returncode:
        sys.exit(f"{' '.join(command)} failed:\n{ended.stderr[-3000:]}")
    marks = json.loads(ended.stdout.strip().splitlines()[-1])
    # In its first steps a process gets its memory from the kernel, which takes as long as several steps.
    marks = marks[len(marks) // 2 :]
    steps = [[after - before for before, after in zip(*pair, strict=True)] for pair in pairwise(marks)]
    return (
        statistics.median(seconds for seconds, _, _, _ in steps),
        statistics.median(tokens / seconds for seconds, _, tokens, _ in steps),
        statistics.median(tokens / cpu for _, cpu, tokens, _ in steps),
        marks[-1][-1],
    )


def main() -> None:
    if sys.argv[1:2] == ["ours"]:
        model, name, count, *settings = sys.argv[2:]
        ours(Path(model), WORK[name], int(count), settings)
        return
    if importlib.util.find_spec("trl") is None:
        print("skipped: TRL is not installed (pip install trl)")
        return
    from benchmarks.models import random_qwen
    from flows.environment import DEFAULTS

    os.environ.pop("GLIBC_TUNABLES")  # imported, they are set for every process that this one starts
    allocator = {"GLIBC_TUNABLES": DEFAULTS["GLIBC_TUNABLES"]}
    steps = int(sys.argv[1]) if len(sys.argv) > 1 else 8
    for lengths in sys.argv[2:] or ["fixed", "skewed"]:
        with tempfile.TemporaryDirectory() as folder:
            end = WORK[lengths].end_logit
            model = SMOLLM2 if end is None else str(random_qwen(Path(folder) / "model", end_logit=end))
            run = [model, lengths, str(steps)]
            peer = ["benchmarks.trl_peer", *run]
            own = ["benchmarks.trl_step", "ours", *run, "model.dtype=float32"]
            commands = {"TRL, 1 thread(s)": [*peer, "1"]}
            if end is None:
                commands["ares, transformers"] = [*own, LEAN]
            else:
                commands |= {name: [*peer, "2"] for name in ("TRL, 2 thread(s)", SAME)}
                commands |= {name: [*own, *way] for name, way in WAYS.items()}
            results = {}
            for name, command in commands.items():
                results[name] = measured(command, allocator if name == SAME else {})
                print(lengths, name, results[name], file=sys.stderr, flush=True)
        best = [max(values[column] for name, values in results.items() if "TRL" in name) for column in (1, 2)]
        print(f"{lengths}: at most {WORK[lengths].tokens} tokens; × is against the best TRL")
        for name, (seconds, rate, cpu_rate, memory) in results.items():
            print(f"  {name:26s} {seconds:6.2f} s a step  {rate:7.0f} tokens/s {rate / best[0]:5.2f}×  "
                  f"{cpu_rate:7.0f} tokens/cpu-s {cpu_rate / best[1]:5.2f}×  "
                  f"{memory:4.1f} GB", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
