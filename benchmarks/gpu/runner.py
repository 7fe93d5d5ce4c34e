"""Runs measurements one after the other, each in its own process with a time limit, and reports row by row.

A missing package, too little memory or time, or an error of the device becomes a row that says so, and the other
measurements continue. Not covered: the measurements (the modules beside this one).
"""

import contextlib
import json
import multiprocessing
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from benchmarks.gpu.device import Place, Row

LEAST = 5.0
"""A measurement is not started with fewer seconds left."""
SLOWER = 10.0
"""Factor on time limits on a CPU, which may be busy with other work."""
MISSING = ("ModuleNotFoundError", "ImportError")


@dataclass(frozen=True)
class Measurement:
    """One table of the report."""

    name: str
    measure: Callable[[Place], Iterator[Row]]
    limit: float
    """Seconds on a GPU."""
    in_tiny: bool = True
    """Part of --tiny. Measurements that start other programs are not, unless named with --only."""


@dataclass
class Report:
    """gpu.json and gpu.md in a folder, complete after every row."""

    folder: Path
    command: str
    rows: list[Row] = field(default_factory=list)

    def add(self, row: Row) -> None:
        """Add a row to the files and print it."""
        self.rows.append(row)
        self.folder.mkdir(parents=True, exist_ok=True)
        _replace(self.folder / "gpu.json", json.dumps({"command": self.command, "rows": self.rows}, indent=1))
        _replace(self.folder / "gpu.md", self.markdown())
        print(f"{row['measurement']}: {row['row']}: {_figures(row)}", flush=True)

    def markdown(self) -> str:
        """The report, a table for each measurement."""
        lines = ["# One GPU", "", f"`{self.command}`", ""]
        for name in dict.fromkeys(row["measurement"] for row in self.rows):
            lines += [f"## {name}", "", "| | |", "|---|---|"]
            lines += [f"| {row['row']} | {_figures(row)} |" for row in self.rows if row["measurement"] == name]
            lines.append("")
        return "\n".join(lines)


def run(measurements: list[Measurement], place: Place, report: Report, seconds: float) -> None:
    """Run measurements in this order, for at most `seconds`."""
    end = time.monotonic() + seconds
    for measurement in measurements:
        left = min(measurement.limit * (1.0 if place.cuda else SLOWER), end - time.monotonic())
        if left < LEAST:
            report.add({"measurement": measurement.name, "row": "not begun", "note": "the time is up"})
            continue
        for row in _alone(measurement, place, report.folder / "logs" / f"{measurement.name}.txt", left):
            report.add({"measurement": measurement.name, **row})


def _alone(measurement: Measurement, place: Place, log: Path, seconds: float) -> Iterator[Row]:
    """Run a measurement in its own process; yields its rows, and one more if it did not finish."""
    # A fork need not import anything again, but CUDA does not survive one.
    context: Any = multiprocessing.get_context("spawn" if place.cuda else "fork")
    log.parent.mkdir(parents=True, exist_ok=True)
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_measure, args=(measurement, place, log, sender))
    started = time.monotonic()
    process.start()
    sender.close()
    late = False
    try:
        while True:
            if not receiver.poll(max(0.0, started + seconds - time.monotonic())):
                late = True
                break
            try:
                yield receiver.recv()
            except EOFError:
                break
    finally:
        if late:
            with contextlib.suppress(ProcessLookupError):  # it has just ended
                os.killpg(process.pid, signal.SIGKILL)
        process.join()
    if late:
        yield {"row": "not finished", "note": f"stopped after {seconds:.0f} s"}
    elif process.exitcode:
        yield {"row": "not finished", "note": _cause(log, process.exitcode)}


def _measure(measurement: Measurement, place: Place, log: Path, sender: Connection) -> None:
    """The child process: leads its own process group and prints into a file."""
    os.setsid()
    file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
        os.dup2(file, stream.fileno())
    try:
        for row in measurement.measure(place):
            sender.send(row)
    except BaseException:  # noqa: BLE001 (it goes into the file; the parent reports it in a row)
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)  # no clean-up on a device that may be lost
    sender.close()
    sys.stdout.flush()
    os._exit(0)


def _cause(log: Path, code: int) -> str:
    """The last error in a child's output, in one line."""
    lines = [line for line in log.read_text(errors="replace").splitlines() if line and not line.startswith(" ")]
    if code < 0:
        return f"died of signal {-code} (its output: {log})"
    last = next((line for line in reversed(lines) if "Error" in line), lines[-1] if lines else "no message")
    kind, _, said = last.partition(": ")
    if kind.rpartition(".")[2] in MISSING:
        return f"not installed: {said}"
    if "OutOfMemory" in kind:
        return f"not enough memory: {said.partition('. ')[0]}"
    return f"{last[:300]} (its output: {log})"


def _figures(row: Row) -> str:
    told = {name: value for name, value in row.items() if name not in ("measurement", "row", "note")}
    notes = [row["note"]] if "note" in row else []
    return ", ".join([f"{name} {_number(value)}" for name, value in told.items()] + notes)


def _number(value: Any) -> str:
    if not isinstance(value, float):
        return str(value)
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def _replace(path: Path, text: str) -> None:
    beside = path.with_suffix(".part")
    beside.write_text(text, encoding="utf-8")
    beside.replace(path)
