"""What a sandbox pool leaves behind after many programs: open files, mounts, cgroups, processes, memory.

    python -m benchmarks.sandbox_leaks [--programs 100000] [--workers 2]

The programs are of eight kinds: right, wrong, crashing, timing out, killed for memory, writing to /tmp, in process, a
script. Everything is counted after the first thousand, after every tenth of the rest, and at the end, in this process
and all below it; then the pool is closed and nothing may be left. The exit status is 1 if something grew. Ctrl-C
ends it early, with what was counted so far.
"""

import argparse
import contextlib
import os
import sys
import time
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(REPOSITORY))

from sandbox import Program, SandboxPool

TEST = ["assert f(1) == 2"]
KINDS = [
    Program(source="def f(x): return x + 1", tests=TEST),
    Program(source="def f(x): return [0] * 10**4", tests=TEST),
    Program(source="import os\nos._exit(3)", tests=TEST),
    Program(source="open('/tmp/x', 'w').write('x' * 10**4)\ndef f(x): return 2", tests=TEST),
    Program(source="class A:\n    def v(self): return 2", tests=["assert A().v() == 2"]),
    Program(source="print(input())", stdin_tests=[("6", "6")]),
    Program(source="def f(x): return list(range(10**9))", tests=TEST, memory_mb=32),
    Program(source="def f(x):\n    while True: pass", tests=TEST, cpu_seconds=0.02),
]
EXPECTED = ["accepted", "wrong_answer", "runtime_error", "accepted", "accepted", "accepted", "memory", "timeout"]
MAX_GROWTH = {"files": 40, "mounts": 0, "cgroups": 0, "processes": 8, "MiB": 64}


def below(pid: int) -> list[int]:
    """A process and all its descendants."""
    processes, todo = [], [pid]
    while todo:
        processes.append(todo.pop())
        try:
            todo += map(int, Path(f"/proc/{processes[-1]}/task/{processes[-1]}/children").read_text().split())
        except (FileNotFoundError, ProcessLookupError):
            processes.pop()
    return processes


def footprint() -> dict[str, int]:
    time.sleep(1)  # a candidate forked ahead still has its parent's files open for a moment
    count = {"files": 0, "mounts": 0, "cgroups": 0, "processes": 0, "MiB": 0}
    pages = 0
    for pid in below(os.getpid()):
        try:
            pages += int(Path(f"/proc/{pid}/statm").read_text().split()[1])
            count["files"] += len(os.listdir(f"/proc/{pid}/fd"))
            mounts = Path(f"/proc/{pid}/mountinfo").read_text().count("\n")
        except (FileNotFoundError, ProcessLookupError):
            continue
        count["processes"] += 1
        count["mounts"] = max(count["mounts"], mounts)
    count["MiB"] = pages * os.sysconf("SC_PAGESIZE") >> 20
    count["cgroups"] = sum(1 for _ in Path("/sys/fs/cgroup").rglob(f"ares-sandbox-{os.getpid()}-*"))
    return count


def row(title: str, count: dict[str, int]) -> None:
    print(f"| {title} |" + "".join(f" {number} |" for number in count.values()), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--programs", type=int, default=100_000)
    parser.add_argument("--workers", type=int, default=2)
    arguments = parser.parse_args()
    empty = footprint()
    with SandboxPool(arguments.workers) as pool:
        pool.run(KINDS * 125)
        last = first = footprint()
        print("| programs |" + "".join(f" {name} |" for name in empty) + "\n|---|" + "---|" * len(empty))
        row("none", empty)
        row("1000", first)
        judged, step = 1000, max(1000, arguments.programs // 10_000 * 1000)
        with contextlib.suppress(KeyboardInterrupt):
            while judged < arguments.programs:
                verdicts = pool.run(KINDS * 125)
                assert [verdict.error_type for verdict in verdicts] == EXPECTED * 125
                judged += len(verdicts)
                if judged % step == 0 or judged >= arguments.programs:
                    last = footprint()
                    row(str(judged), last)
    closed = footprint()
    row("closed", closed)
    print(f"after {judged} programs, load {os.getloadavg()[0]:.1f}")
    grown = [name for name, most in MAX_GROWTH.items() if last[name] - first[name] > most]
    left = [name for name in ("files", "mounts", "cgroups", "processes") if closed[name] > empty[name]]
    if grown or left:
        raise SystemExit(f"grew: {grown}; left after the end: {left}")


if __name__ == "__main__":
    main()
