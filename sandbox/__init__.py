"""The sandboxed executor: judges untrusted programs by their tests. The only package that runs untrusted code.

    with SandboxPool(num_workers=2, min_isolation="standard") as pool:
        verdicts = pool.run([Program(source=code, tests=["assert f(1) == 2"])])

Uses the standard library only, as do programs unless a pool is given packages. docs/sandbox.md says what is covered
and what is not. Read in this order:

program           what goes in and what comes out
pool              threads that drive workers; worker_process: one of them, from outside; isolation: its layers
packages          the environment of packages that programs and tests may use besides the standard library
rule              where a test runs, by its text alone; lanes: all that a worker is told of a test
worker/zygote     in the worker: forks a checker and candidates
worker/checker    judges; session: its side of the conversation with a candidate, in frames (wire) of values (arrays)
worker/remote     the program's objects, as tests see them
worker/outputs    compares what scripts write
worker/candidate  runs the program; server: answers for it; in_process: runs tests among its objects
worker/confinement what confines them: namespaces, landlock, seccomp, through kernel and syscalls
providers         the same on rented machines
"""

from sandbox.isolation import IsolationReport, SandboxUnavailable
from sandbox.lanes import is_forgeable
from sandbox.packages import PackageError
from sandbox.pool import PoolClosed, SandboxPool
from sandbox.program import ERROR_TYPES, UNTRUSTED, Program, TestOutcome, Verdict, parse, weighed
