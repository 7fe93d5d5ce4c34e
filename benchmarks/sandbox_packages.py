"""What packages cost the sandbox: candidates with and without numpy, against `python -c` that imports it per test.

    ares sandbox packages add numpy pandas
    python -m benchmarks.sandbox_packages [--rounds 5] [--programs 200] [--workers 2] [--packages numpy pandas]

Every round runs all designs one after the other, so that a busy machine slows all alike; ratios are medians over
rounds. Programs without numpy are judged by both kinds of pool, which shows the extra cost of a candidate's start;
programs with numpy by the pool that has it, and by an interpreter for each test. Besides wall time the CPU time of the
candidate, from its fork to its end, which other work on the machine disturbs less.
"""

import argparse
import os
import statistics
import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(REPOSITORY))

from benchmarks.sandbox_throughput import interpreter_per_test, threaded, workers_of
from sandbox import Program, SandboxPool

BARE = Program(
    source="def f(values):\n    return sorted(set(values))\n",
    tests=[f"assert f([3, 1, {n}]) == sorted({{1, 3, {n}}})" for n in range(3)],
)
WITH_NUMPY = Program(
    source="import numpy as np\ndef f(values):\n    return np.cumsum(np.asarray(values, float))\n",
    tests=[f"import numpy as np\nassert np.allclose(f([3, 1, {n}]), [3, 4, {n} + 4])" for n in range(3)],
)
Times = tuple[float, float]
"""Wall seconds, and CPU seconds of the candidates, of one program."""


def judged(pool: SandboxPool, program: Program, count: int) -> Times:
    verdicts = pool.run([program] * count)
    assert all(verdict.error_type == "accepted" for verdict in verdicts), verdicts[0]
    return sum(v.wall_time for v in verdicts) / count, statistics.median(v.exec_time for v in verdicts)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--programs", type=int, default=200)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--interpreters", type=int, default=6, help="programs per round for `python -c`")
    parser.add_argument("--packages", nargs="+", default=["numpy", "pandas"], help="each makes a pool of its own")
    arguments = parser.parse_args()
    workers, count = arguments.workers, arguments.programs
    pools = {"bare": SandboxPool(workers)}
    pools |= {name: SandboxPool(workers, packages=[name]) for name in arguments.packages}
    times: dict[str, list[Times]] = {}
    for _ in range(arguments.rounds):
        for name, pool in pools.items():
            times.setdefault(f"{name} pool, programs without numpy", []).append(judged(pool, BARE, count))
            if name != "bare":
                times.setdefault(f"{name} pool, programs with numpy", []).append(judged(pool, WITH_NUMPY, count))
        few = [WITH_NUMPY] * arguments.interpreters
        seconds, _, accepted = threaded([interpreter_per_test(sys.executable)] * workers, few)
        assert accepted == len(few)
        times.setdefault("python -c per test, numpy imported", []).append((seconds * workers / len(few), 0.0))
    base, plain = times["bare pool, programs without numpy"], times["python -c per test, numpy imported"]
    print(f"{count} programs × 3 tests, {workers} workers, {arguments.rounds} rounds, load {os.getloadavg()[0]:.1f}")
    print(
        "| design | ms a program | CPU ms of the candidate | × bare, wall / CPU | × python -c |\n|---|---|---|---|---|"
    )
    for name, pairs in times.items():
        wall, cpu = (1000 * statistics.median(each[kind] for each in pairs) for kind in (0, 1))
        slower = [statistics.median(a[k] / b[k] for a, b in zip(pairs, base, strict=True)) for k in (0, 1)]
        faster = statistics.median(b[0] / a[0] for a, b in zip(pairs, plain, strict=True))
        print(f"| {name} | {wall:.2f} | {cpu:.2f} | {slower[0]:.2f} / {slower[1]:.2f} | {faster:.1f} |")
    for name, pool in pools.items():
        started = workers_of(pool)
        start, memory = 1000 * min(each.start_seconds for each in started), started[0].report["package_bytes"]
        print(f"{name}: worker start {start:.0f} ms; packages resident {memory >> 20} MiB")
        pool.close()


if __name__ == "__main__":
    main()
