"""What runs on a rented machine: judges one program with the local sandbox there and prints the verdicts.

    python -m sandbox.remote_job JOB_FILE      # judge the job in the file
    python -m sandbox.remote_job               # print the layers of isolation

Every line of the answer is JSON with the job's nonce. The file that holds the nonce is deleted before the program
starts, and the program's own output never reaches this process's stdout.
"""

import dataclasses
import json
import os
import sys
from pathlib import Path

from sandbox.pool import SandboxPool
from sandbox.program import Program


def main() -> None:
    """Entry point on the rented machine."""
    if len(sys.argv) == 1:
        with SandboxPool(min_isolation="none") as pool:
            sys.stdout.write(json.dumps({"applied": pool.isolation.partition(":")[2]}) + "\n")
        return
    path = Path(sys.argv[1])
    job = json.loads(path.read_text())
    path.unlink()
    # The machine is the isolation; whatever layers it offers inside come on top.
    with SandboxPool(min_isolation="none") as pool:
        (verdict,) = pool.run([Program(**job["program"])])
    for index, outcome in enumerate(verdict.tests):
        _say({"nonce": job["nonce"], "test": index, **dataclasses.asdict(outcome)})
    report = {"cpu": verdict.exec_time, "peak_rss": verdict.peak_rss}
    _say({"nonce": job["nonce"], "report": {**report, "stdout": verdict.stdout, "stderr": verdict.stderr}})


def _say(message: dict[str, object]) -> None:
    sys.stdout.write(json.dumps(message) + "\n")


if __name__ == "__main__":
    os.umask(0o077)
    main()
