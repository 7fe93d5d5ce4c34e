"""`python -m benchmarks.gpu [--device cpu] [--tiny] [--only NAME …] [--seconds N] [--out FOLDER]`."""

import argparse
import os
import shlex
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

from benchmarks.gpu import engines, steps, transfers, updates
from benchmarks.gpu.device import Place
from benchmarks.gpu.runner import Measurement, Report, run

MEASUREMENTS = [
    Measurement("machine", transfers.machine, 40),
    Measurement("profile, 0.5B", updates.profile, 60),
    Measurement("layouts", updates.layouts, 90),
    Measurement("step, 0.5B", steps.published_shape, 90),
    Measurement("transformers engine", engines.transformers_engine, 60),
    Measurement("update, 0.5B", partial(updates.update, shape="0.5B", checkpointing=False), 60),
    Measurement("update, 1.5B", partial(updates.update, shape="1.5B", checkpointing=False), 90),
    Measurement("update, 1.5B, checkpointing", partial(updates.update, shape="1.5B", checkpointing=True), 90),
    Measurement("log-probs and entropy", updates.tiles, 60),
    Measurement("step, tiny-math", steps.tiny_math, 60),
    Measurement("hand-over", transfers.handover, 60),
    Measurement("vLLM", engines.vllm_engine, 150, in_tiny=False),
    Measurement("kill and resume", steps.killed_run, 240, in_tiny=False),
]
"""The most valuable first, since time may run out."""

HAS_CUDA = "import torch; raise SystemExit(not torch.cuda.is_available())"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu", description=__doc__)
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--tiny", action="store_true", help="small stand-ins, to try the program in seconds")
    parser.add_argument("--only", nargs="+", metavar="NAME", choices=[each.name for each in MEASUREMENTS])
    parser.add_argument("--seconds", type=float, default=480.0, help="what has not started by then is left out")
    parser.add_argument("--out", type=Path, default=Path("gpu-results"), help="folder of gpu.json, gpu.md and logs")
    asked = parser.parse_args()
    # In another process: this one must not hold the device that its children use.
    if asked.device == "cuda" and subprocess.run([sys.executable, "-c", HAS_CUDA]).returncode:
        sys.exit(f"torch sees no CUDA device here ({sys.executable}); --device cpu --tiny tries the program")
    chosen = [each for each in MEASUREMENTS if asked.only is None or each.name in asked.only]
    left_out = [each for each in chosen if asked.tiny and not each.in_tiny and not asked.only]
    report = Report(asked.out, shlex.join(["python", "-m", "benchmarks.gpu", *sys.argv[1:]]))
    with tempfile.TemporaryDirectory(prefix="ares-gpu-") as folder:
        place = Place(asked.device, asked.tiny, Path(folder))
        run([each for each in chosen if each not in left_out], place, report, asked.seconds)
    for each in left_out:
        report.add({"measurement": each.name, "row": "not begun", "note": "left out of --tiny"})


if __name__ == "__main__":
    main()
