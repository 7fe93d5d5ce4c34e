"""Programs per second of the sandbox against the usual ways to run a unit test, interleaved in one run.

    python benchmarks/sandbox_throughput.py [--rounds 5] [--programs 200] [--workers 2]

Designs: a1 `python -c source+test` per test with this environment's interpreter (which has a site directory), a2 the
same with a bare system interpreter, a warm zygote that forks once per program and runs the asserts in that fork, and
the sandbox with more and more of its layers. Every round runs all designs one after the other on the same programs, so
that a busy machine slows all alike; ratios are medians over rounds. Programs: MBPP with its three asserts, or a
stand-in of the same shape where ARES_TEST_DATA (tests/README.md) names no folder with it. Then what a forged answer of
32 MiB may cost: its time, and the memory of the process that decodes it.
"""

import argparse
import json
import os
import queue
import socket
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent import futures
from functools import partial
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(REPOSITORY))

from sandbox import Program, SandboxPool
from sandbox.worker import wire
from sandbox.worker_process import WorkerProcess

MBPP = Path(os.environ.get("ARES_TEST_DATA", "absent"), "mbpp", "mbpp.jsonl")
Judge = Callable[[Program], bool]

ZYGOTE = """
import sys, os, socket
sys.path.insert(0, sys.argv[1])
from worker import wire, zygote
for name in zygote._WARM: __import__(name)
import gc; gc.collect(); gc.freeze()
connection = socket.socket(fileno=int(sys.argv[2]))
frames = wire.Frames(connection)
while True:
    try: job = frames.message()
    except wire.Disconnected: break
    child = os.fork()
    if child == 0:
        passed, namespace = [], {"__name__": "solution"}
        exec(compile(job["source"], "s", "exec"), namespace)
        for test in job["tests"]:
            try: exec(compile(test, "t", "exec"), dict(namespace)); passed.append(True)
            except BaseException: passed.append(False)
        wire.send(connection, passed); os._exit(0)
    os.waitpid(child, 0)
"""


class BareZygote:
    """A warm interpreter without any isolation: one fork per program, asserts in the same process."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair()
        command = [sys.executable, "-I", "-S", "-c", ZYGOTE, str(REPOSITORY / "sandbox"), str(theirs.fileno())]
        self.process = subprocess.Popen(command, env={}, pass_fds=[theirs.fileno()])
        theirs.close()
        self.connection = ours
        self.frames = wire.Frames(ours)

    def judge(self, program: Program) -> bool:
        job = {"source": program.source, "tests": list(program.tests)}
        wire.send(self.connection, job)
        return all(self.frames.message())

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        self.connection.close()


def interpreter_per_test(python: str) -> Judge:
    def judge(program: Program) -> bool:
        texts = [f"{program.source}\n{program.setup}\n{test}" for test in program.tests]
        runs = [subprocess.run([python, "-c", text], capture_output=True, timeout=20) for text in texts]
        return all(run.returncode == 0 for run in runs)

    return judge


def threaded(judges: list[Judge], programs: list[Program]) -> tuple[float, list[float], int]:
    """(seconds, latencies, accepted) of judging programs on one thread per judge."""
    todo: queue.SimpleQueue[Program] = queue.SimpleQueue()
    for program in programs:
        todo.put(program)
    latencies: list[float] = []
    accepted: list[bool] = []

    def work(judge: Judge) -> None:
        while True:
            try:
                program = todo.get_nowait()
            except queue.Empty:
                return
            started = time.perf_counter()
            accepted.append(judge(program))
            latencies.append(time.perf_counter() - started)

    threads = [threading.Thread(target=work, args=(judge,)) for judge in judges]
    started = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return time.perf_counter() - started, latencies, sum(accepted)


def pooled(pool: SandboxPool, programs: list[Program]) -> tuple[float, list[float], int]:
    started = time.perf_counter()
    verdicts = pool.run(programs)
    elapsed = time.perf_counter() - started
    return elapsed, [v.wall_time for v in verdicts], sum(v.error_type == "accepted" for v in verdicts)


def counted(pool: SandboxPool, programs: list[Program]) -> tuple[int, tuple[float, list[float], int]]:
    return len(programs), pooled(pool, programs)


def workers_of(pool: SandboxPool) -> list[WorkerProcess]:
    return [worker for worker in pool._workers if isinstance(worker, WorkerProcess)]


def load_programs(count: int) -> list[Program]:
    if not MBPP.exists():
        source = "def f(values):\n    return sorted(set(values))\n"
        tests = [f"assert f([3, 1, {n}]) == sorted({{1, 3, {n}}})" for n in range(3)]
        return [Program(source=source, tests=tests)] * count
    rows = [json.loads(line) for line in MBPP.read_text().splitlines()]
    # Those that run for seconds by themselves measure MBPP, not the sandbox.
    rows = [row for row in rows if len(row["test_list"]) == 3 and not row["test_setup_code"]]
    programs = [Program(source=row["code"], tests=row["test_list"]) for row in rows]
    zygote = BareZygote()
    quick = []
    for program in programs:
        started = time.perf_counter()
        if zygote.judge(program) and time.perf_counter() - started < 0.05:
            quick.append(program)
        if len(quick) == count:
            break
    zygote.close()
    return quick


FRAME_BYTES = 32 << 20
# What fills the frame of a program that forges its answer, as (start, piece, times, end).
FRAMES = {
    "text": ('"', "x" * 1024, FRAME_BYTES >> 10, '"'),
    "floats": ('["l",[0', ",1.5" * 256, FRAME_BYTES >> 10, "]]"),
    "empty lists": ('["l",[0', ",[]" * 256, FRAME_BYTES // 768, "]]"),
    "deep lists": ('["l",[0', "," + "[" * 500 + "]" * 500, FRAME_BYTES // 1001, "]]"),
    "colliding hashes": ('["s",[0', "", FRAME_BYTES // 64, "]]"),
    "aliases": ('["l",[["l",[]]', ',["@",1]' * 128, FRAME_BYTES >> 10, "]]"),
}
FORGER = """
import os, struct, sys
Server = sys.modules["worker.server"].Server
start, piece, times, end = {parts!r}
def pieces(number):
    yield f'{{{{"id":{{number}},"value":{{start}}'
    for n in range(times): yield piece or f',["i","{{hex((n + 1) * (2**61 - 1)):>18s}}"]'.replace(" ", "")
    yield end + "}}"
def call(self, request):
    size = sum(len(text) for text in pieces(request["id"]))
    data = bytearray(struct.pack("<I", size))
    for text in pieces(request["id"]):
        data += text.encode()
        while len(data) > 1 << 16: del data[:os.write(3, data)]
    while data: del data[:os.write(3, data)]
    return {{"value": 0}}
Server._call = call
def f(x): return 0
"""


def most_memory(worker: int, stop: threading.Event) -> int:
    """MiB of the largest process below a worker, of all that lived until the event."""
    most = 0
    while not stop.wait(0.005):
        todo = [worker]
        for pid in todo:
            try:
                todo += map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())
                status = Path(f"/proc/{pid}/status").read_text()
            except (FileNotFoundError, ProcessLookupError):
                continue
            most = max([most, *(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM"))])
    return most >> 10


def bounded_decoding() -> None:
    """Print what an answer of 32 MiB costs, by what fills it."""
    print("| 32 MiB of | verdict | CPU limit s | wall s | largest process MiB |\n|---|---|---|---|---|")
    for name, parts in FRAMES.items():
        program = Program(source=FORGER.format(parts=parts), tests=["assert f(1) == 2"], cpu_seconds=4.0)
        with SandboxPool(1) as pool, futures.ThreadPoolExecutor(1) as threads:
            stop = threading.Event()
            memory = threads.submit(most_memory, workers_of(pool)[0].pid, stop)
            (verdict,) = pool.run([program])
            stop.set()
            outcome = verdict.tests[0]
            cost = f"{program.cpu_seconds:g} | {verdict.wall_time:.2f} | {memory.result()}"
            print(f"| {name} | {outcome.verdict}: {outcome.detail} | {cost} |")


LAYERS = {
    "split, no isolation": (),
    "+ rlimits, seccomp": ("rlimits", "seccomp"),
    "+ Landlock": ("rlimits", "seccomp", "landlock"),
    "+ namespaces": ("rlimits", "seccomp", "landlock", "namespaces"),
    "+ own root": ("rlimits", "seccomp", "landlock", "namespaces", "root"),
    "+ uid: all layers (standard)": ("rlimits", "seccomp", "landlock", "namespaces", "root", "uid"),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--programs", type=int, default=200)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--slow-programs", type=int, default=30, help="programs per round for a1 and a2")
    arguments = parser.parse_args()
    programs = load_programs(arguments.programs)
    few = programs[: arguments.slow_programs]
    workers = arguments.workers
    zygotes = [BareZygote() for _ in range(workers)]
    pools = {name: SandboxPool(workers, "none", layers=layers) for name, layers in LAYERS.items()}
    fresh = SandboxPool(workers, fresh_per_test=True)
    system = "/usr/bin/python3" if os.path.exists("/usr/bin/python3") else sys.executable
    runs: dict[str, Callable[[], tuple[int, tuple[float, list[float], int]]]] = {
        f"a1: {Path(sys.executable).name} -c per test (site directory)": lambda: (
            len(few),
            threaded([interpreter_per_test(sys.executable)] * workers, few),
        ),
        f"a2: {system} -c per test (bare)": lambda: (len(few), threaded([interpreter_per_test(system)] * workers, few)),
        "zygote, fork per program, no isolation": lambda: (
            len(programs),
            threaded([zygote.judge for zygote in zygotes], programs),
        ),
        **{name: partial(counted, pool, programs) for name, pool in pools.items()},
        "all layers, a candidate per test": partial(counted, fresh, programs),
    }
    rates: dict[str, list[float]] = {name: [] for name in runs}
    latencies: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(arguments.rounds):
        for name, run in runs.items():
            count, (seconds, waits, accepted) = run()
            assert accepted == count, (name, accepted, count)
            rates[name].append(count / seconds)
            latencies[name] += waits
    start = pools["+ uid: all layers (standard)"]
    start_ms = [1000 * worker.start_seconds for worker in workers_of(start)]
    names = list(runs)
    a1, a2, bare = names[:3]
    origin = "MBPP" if MBPP.exists() else "stand-in"
    shape = f"{len(programs)} {origin} programs × 3 asserts, {workers} workers, {arguments.rounds} rounds"
    print(f"{shape}, {os.cpu_count()} CPUs, load {os.getloadavg()[0]:.1f}")
    print("| design | programs/s | p50 ms | p95 ms | × a1 | × a2 | cost over zygote |")
    print("|---|---|---|---|---|---|---|")
    for name in names:
        p50, p95 = (1000 * statistics.quantiles(latencies[name], n=100)[at] for at in (49, 94))
        ratios = [statistics.median(x / y for x, y in zip(rates[name], rates[base], strict=True)) for base in (a1, a2)]
        cost = statistics.median(y / x for x, y in zip(rates[name], rates[bare], strict=True))
        rate = statistics.median(rates[name])
        print(f"| {name} | {rate:.1f} | {p50:.1f} | {p95:.1f} | {ratios[0]:.1f} | {ratios[1]:.1f} | {cost:.2f} |")
    split, everything = (rates[name] for name in ("split, no isolation", "+ uid: all layers (standard)"))
    isolation = statistics.median(x / y for x, y in zip(split, everything, strict=True)) - 1
    print(f"isolation on top of the split: {100 * isolation:.0f} %; worker start: {min(start_ms):.0f} ms")
    for pool in (*pools.values(), fresh):
        pool.close()
    for zygote in zygotes:
        zygote.close()
    bounded_decoding()


if __name__ == "__main__":
    main()
