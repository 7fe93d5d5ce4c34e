"""The sandboxed executor: judges untrusted programs by their tests. The only room in which a foreign program runs.

    with SandboxPool(num_workers=2, min_isolation="standard") as pool:
        verdicts = pool.run([Program(source=code, tests=["assert f(1) == 2"])])

Standard library only, and so are programs unless a pool is given packages. docs/sandbox.md says what is covered and
what is not. Read in this order:

program           what goes in and what comes out
pool              threads that drive workers; worker_process: one of them, from outside; cgroup, isolation: its limits
packages          the environment of packages that programs and tests may have, besides the standard library
lanes             where a test runs, by its text alone: kinds, changes, vocabulary, package_vocabulary, parsing
worker/zygote     in the worker: forks a checker and candidates (hot_pages makes that cheaper)
worker/checker    judges; session: its talk with one candidate, in wire's frames of values (arrays: of packages)
worker/outputs    compares what scripts write
worker/candidate  runs the program; server: answers for it; in_process: tests among its objects
worker/confinement what holds them: namespaces, landlock, seccomp, by kernel and syscalls
providers         the same on rented machines: remote_machines, remote_job
"""

from sandbox.isolation import IsolationReport, SandboxUnavailable
from sandbox.packages import BuildError, PackageMissing
from sandbox.parsing import parse
from sandbox.pool import PoolClosed, SandboxPool
from sandbox.program import ERROR_TYPES, UNTRUSTED, Program, TestOutcome, Verdict, weighed

__all__ = [
    "ERROR_TYPES",
    "UNTRUSTED",
    "BuildError",
    "IsolationReport",
    "PackageMissing",
    "PoolClosed",
    "Program",
    "SandboxPool",
    "SandboxUnavailable",
    "TestOutcome",
    "Verdict",
    "parse",
    "weighed",
]
