"""Programs per second of the sandbox, layer by layer, against a Python process for each unit test.

    python -m benchmarks.sandbox_throughput [--rounds 5] [--programs 200] [--workers 2]

Every round runs all designs one after the other on the same programs, so that a busy machine slows all alike; ratios
are medians over rounds. CPU time, which a busy machine changes less, includes the start of the workers. Programs: MBPP
with its three asserts, or a stand-in of the same shape where ARES_TEST_DATA (tests/README.md) names no folder with it.
"""

import argparse
import dataclasses
import json
import logging
import os
import resource
import statistics
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import NamedTuple

from sandbox import Program, SandboxPool, isolation

MBPP = Path(os.environ.get("ARES_TEST_DATA", "absent"), "mbpp", "mbpp.jsonl")
SYSTEM = "/usr/bin/python3" if os.path.exists("/usr/bin/python3") else sys.executable  # bare: without packages
SLOW = 0.05
"""Seconds: programs that take longer by themselves measure MBPP, not the sandbox."""
LAYERS = {
    "split, no isolation": (),
    "+ rlimits, seccomp": ("rlimits", "seccomp"),
    "+ Landlock": ("rlimits", "seccomp", "landlock"),
    "+ namespaces": ("rlimits", "seccomp", "landlock", "namespaces"),
    "+ own root": ("rlimits", "seccomp", "landlock", "namespaces", "root"),
    "+ uid: all layers (standard)": ("rlimits", "seccomp", "landlock", "namespaces", "root", "uid"),
}


class Judged(NamedTuple):
    """What a design took for the programs."""

    rate: float
    """Programs a second."""
    seconds: list[float]
    """Of each program."""
    cpu: float
    """CPU seconds a program, of this process and all it started."""


def cpu_seconds() -> float:
    """Of this process and the children that have ended."""
    return sum(sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))


def judge_with_interpreters(python: str, workers: int, programs: list[Program]) -> Judged:
    """`python -c` with the program and a test, for every test of every program."""

    def judge(program: Program) -> float:
        started = time.perf_counter()
        for test in program.tests:
            subprocess.run([python, "-c", f"{program.source}\n{test}"], check=True, capture_output=True)
        return time.perf_counter() - started

    started, cpu = time.perf_counter(), cpu_seconds()
    with ThreadPoolExecutor(workers) as threads:
        seconds = list(threads.map(judge, programs))
    return Judged(len(programs) / (time.perf_counter() - started), seconds, (cpu_seconds() - cpu) / len(programs))


def judge_with_pool(workers: int, layers: tuple[str, ...], programs: list[Program]) -> Judged:
    """The sandbox, which must accept every program."""
    cpu = cpu_seconds()
    with SandboxPool(workers, "none", layers=layers) as pool:
        pool.run(programs[: 2 * workers])  # starts all workers
        started = time.perf_counter()
        verdicts = pool.run(programs)
        rate = len(programs) / (time.perf_counter() - started)
    assert all(verdict.error_type == "accepted" for verdict in verdicts)
    return Judged(rate, [verdict.wall_time for verdict in verdicts], (cpu_seconds() - cpu) / len(programs))


def load_programs(count: int) -> list[Program]:
    """Quick programs of MBPP, each with three tests, or stand-ins."""
    if not MBPP.exists():
        source = "def f(values):\n    return sorted(set(values))\n"
        tests = [f"assert f([3, 1, {n}]) == sorted({{1, 3, {n}}})" for n in range(3)]
        return [Program(source=source, tests=tests)] * count
    rows = [json.loads(line) for line in MBPP.read_text().splitlines()]
    rows = [row for row in rows if len(row["test_list"]) == 3 and not row["test_setup_code"]]
    programs = [Program(source=row["code"], tests=row["test_list"]) for row in rows]
    with SandboxPool() as pool:
        verdicts = pool.run(programs)
    judged = zip(programs, verdicts, strict=True)
    return [program for program, seen in judged if seen.error_type == "accepted" and seen.wall_time < SLOW][:count]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--programs", type=int, default=200)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--slow-programs", type=int, default=30, help="programs per round for `python -c`")
    asked = parser.parse_args()
    logging.disable()  # each pool warns that it has no isolation
    programs = load_programs(asked.programs)
    plain, bare = "python -c per test", f"{SYSTEM} -c"
    given = asked.workers, programs[: asked.slow_programs]
    designs = {plain: partial(judge_with_interpreters, sys.executable, *given)}
    designs |= {bare: partial(judge_with_interpreters, SYSTEM, *given)}
    designs |= {name: partial(judge_with_pool, asked.workers, layers, programs) for name, layers in LAYERS.items()}
    fresh = [dataclasses.replace(program, fresh_per_test=True) for program in programs]
    designs["all layers, a candidate per test"] = partial(judge_with_pool, asked.workers, isolation.LAYERS, fresh)
    judged: dict[str, list[Judged]] = {name: [] for name in designs}
    for _ in range(asked.rounds):
        for name, judge in designs.items():
            judged[name].append(judge())
    per_test = statistics.median(each.cpu for each in judged[plain]) * 1000 / 3
    print(f"{len(programs)} {'MBPP' if MBPP.exists() else 'stand-in'} programs × 3 asserts, {asked.workers} workers, "
          f"{asked.rounds} rounds, load {os.getloadavg()[0]:.1f}; {plain}: {per_test:.1f} ms of CPU time, by what its "
          "environment imports")  # fmt: skip
    print(f"| design | programs/s | p50 ms | p95 ms | × {plain} | × {bare} | CPU ms a program |\n|{'---|' * 7}")
    for name, rounds in judged.items():
        seconds = [each for judged_once in rounds for each in judged_once.seconds]
        p50, p95 = (1000 * statistics.quantiles(seconds, n=100)[at] for at in (49, 94))
        rate, cpu = (statistics.median(getattr(each, of) for each in rounds) for of in ("rate", "cpu"))
        pairs = [zip(rounds, judged[theirs], strict=True) for theirs in (plain, bare)]
        faster = [statistics.median(ours.rate / theirs.rate for ours, theirs in each) for each in pairs]
        print(f"| {name} | {rate:.1f} | {p50:.1f} | {p95:.1f} | {faster[0]:.1f} | {faster[1]:.1f} | {1000 * cpu:.1f} |")


if __name__ == "__main__":
    main()
