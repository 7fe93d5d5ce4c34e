"""What runs on a rented machine: judges one program with the local sandbox there and prints its outcomes and usage.

    python -m sandbox.remote_job JOB_FILE      # judge the program in the file
    python -m sandbox.remote_job               # print the layers of isolation

The answer is one line of JSON. The file is deleted before the program starts, and the program's own output never
reaches this process's stdout.
"""

import dataclasses
import json
import sys
from pathlib import Path

from sandbox.pool import SandboxPool
from sandbox.program import Program


def main(job_file: str | None = None) -> list[object]:
    """The answer. The machine is the isolation; whatever layers it offers inside come on top."""
    program = None if job_file is None else Program(**json.loads(Path(job_file).read_text()))
    if job_file is not None:
        Path(job_file).unlink()
    with SandboxPool(min_isolation="none") as pool:
        if program is None:
            return [*pool.isolation.partition(":")[2].split("+")]
        (verdict,) = pool.run([program])
    usage = {"cpu": verdict.exec_time, "peak_rss": verdict.peak_rss, "stdout": verdict.stdout, "stderr": verdict.stderr}
    return [[dataclasses.asdict(test) for test in verdict.tests], usage]


if __name__ == "__main__":
    sys.stdout.write(json.dumps(main(*sys.argv[1:])) + "\n")
