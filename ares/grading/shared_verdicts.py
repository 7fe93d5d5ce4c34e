"""Verdicts that several runs share: a program is judged once for all children of an ablation.

Covered: a file of verdicts, keyed by what decides them, for several processes and threads. Not covered: identical
programs of one step (ares/grading/code.py), which are judged once without a file.
"""

import hashlib
import json
import sqlite3
import sys
import threading
from dataclasses import asdict, replace
from pathlib import Path

import sandbox
from sandbox import Program, TestOutcome, Verdict

PATIENCE_SECONDS = 60.0
"""How long to wait for another process that writes."""
_OF_THE_MACHINE = {"timeout", "memory"}
"""Outcomes that may be the machine's fault, such as a timeout under load: if stored, other runs would get them too."""


class SharedVerdicts:
    """A file of verdicts (SQLite). The output of programs is not stored, nor is a verdict with a test that the machine
    may have decided: every run judges that again."""

    def __init__(self, path: Path, where: str) -> None:
        """path: created if missing; where: what else decides a verdict (packages, isolation)."""
        path.parent.mkdir(parents=True, exist_ok=True)
        self._judge = [_digest_of_code(), where]
        self._lock = threading.Lock()
        self._database = sqlite3.connect(path, timeout=PATIENCE_SECONDS, check_same_thread=False)
        with self._database:
            self._database.execute("create table if not exists verdicts (key text primary key, verdict text not null)")

    def find(self, job: Program) -> Verdict | None:
        """The verdict on a program with the same source, tests and limits, if there is one."""
        with self._lock:
            row = self._database.execute("select verdict from verdicts where key = ?", [self._key(job)]).fetchone()
        if row is None:
            return None
        fields = json.loads(row[0])
        return Verdict(**fields | {"tests": tuple(TestOutcome(**test) for test in fields["tests"])})

    def add(self, job: Program, verdict: Verdict) -> None:
        """Store a verdict, unless the machine may have decided it or another process has stored one first."""
        if verdict.pass_ratio is None or any(test.verdict in _OF_THE_MACHINE for test in verdict.tests):
            return
        kept = json.dumps(asdict(replace(verdict, stdout="", stderr="")))
        with self._lock, self._database:
            self._database.execute("insert or ignore into verdicts values (?, ?)", [self._key(job), kept])

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._database.close()

    def _key(self, job: Program) -> str:
        return hashlib.sha256(json.dumps([*self._judge, asdict(job)], sort_keys=True).encode()).hexdigest()


def _digest_of_code() -> str:
    """A digest of the sandbox and of the interpreter: other versions may judge differently."""
    folder = Path(sandbox.__file__).parent
    code = hashlib.sha256(sys.version.encode())
    for file in sorted(folder.rglob("*.py")):
        code.update(f"{file.relative_to(folder)}\0".encode() + file.read_bytes())
    return code.hexdigest()
