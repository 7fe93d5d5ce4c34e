"""What runs on a rented machine: judges one program with the local sandbox there and prints the verdicts.

    python -m sandbox.remote_job JOB_FILE      # judge the job in the file
    python -m sandbox.remote_job               # print the layers of isolation

The answer is one line of JSON with the job's nonce. The file that holds the nonce is deleted before the program starts,
and the program's own output never reaches this process's stdout.
"""

import dataclasses
import json
import os
import sys
from pathlib import Path

from sandbox.pool import SandboxPool
from sandbox.program import Program


def main(job_file: str | None = None) -> dict[str, object]:
    """The answer. The machine is the isolation; whatever layers it offers inside come on top."""
    job = json.loads(Path(job_file).read_text()) if job_file else None
    if job_file:
        Path(job_file).unlink()
    with SandboxPool(min_isolation="none") as pool:
        if job is None:
            return {"applied": pool.isolation.partition(":")[2]}
        (verdict,) = pool.run([Program(**job["program"])])
    usage = {"cpu": verdict.exec_time, "peak_rss": verdict.peak_rss, "stdout": verdict.stdout, "stderr": verdict.stderr}
    return {"nonce": job["nonce"], "tests": [dataclasses.asdict(test) for test in verdict.tests], "usage": usage}


if __name__ == "__main__":
    os.umask(0o077)
    sys.stdout.write(json.dumps(main(*sys.argv[1:])) + "\n")
