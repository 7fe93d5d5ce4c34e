"""The sandboxed executor: judges untrusted programs by their tests. The only room in which a foreign program runs.

    with SandboxPool(num_workers=2, min_isolation="standard") as pool:
        verdicts = pool.run([Program(source=code, tests=["assert f(1) == 2"])])

Standard library only. docs/sandbox.md says what is covered and what is not.
"""

from sandbox.isolation import IsolationReport, SandboxUnavailable
from sandbox.parsing import parse
from sandbox.pool import PoolClosed, SandboxPool
from sandbox.program import ERROR_TYPES, UNTRUSTED, Program, TestOutcome, Verdict, weighed

__all__ = [
    "ERROR_TYPES",
    "UNTRUSTED",
    "IsolationReport",
    "PoolClosed",
    "Program",
    "SandboxPool",
    "SandboxUnavailable",
    "TestOutcome",
    "Verdict",
    "parse",
    "weighed",
]
