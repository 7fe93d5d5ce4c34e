"""The process in which a user's reward function runs: on its main thread, one call at a time.

Run as a script with the file, the function's name and a socket's descriptor, it answers pickled calls with pickled
replies, after an empty message that has the file executed. What the function prints goes where the run's own output
goes. Results leave as plain values, since the run does not know the classes of the user's file. Not covered: limits and
restarts (ares/grading/functions.py).
"""

import asyncio
import inspect
import pickle
import sys
import traceback
from collections.abc import Callable
from typing import Any

from ares.config import load_reference
from rewards.child_process import answer_messages, plain, where_raised

_OF_ANYTHING = (Exception, RuntimeError, EOFError, MemoryError)


def main() -> None:
    """Execute the file when the first message comes, and answer the others as calls of its function."""
    path, name, _ = sys.argv[1:]
    function: Callable[..., Any] | None = None
    with asyncio.Runner() as loop:  # one for all calls: sessions and caches that belong to it stay open

        def answer(message: bytes) -> bytes:
            """(True, value), or (False, (what was raised and where, whether the same call may succeed later))."""
            nonlocal function
            try:
                if function is None:
                    function = load_reference(f"{path}:{name}")
                    return pickle.dumps((True, None))
                arguments, timeout = pickle.loads(message)
                return pickle.dumps((True, _called(function, arguments, timeout, loop)))
            except (Exception, SystemExit) as error:  # noqa: BLE001 (whatever a user's function raises, the run reports)
                return pickle.dumps((False, (_report(error, path), _may_pass(error))))

        answer_messages(answer)


def _called(
    function: Callable[..., Any], arguments: dict[str, Any] | list[dict[str, Any]], timeout: float, loop: asyncio.Runner
) -> Any:
    """The result of one call; for a list of calls, which an async function answers concurrently, a pair for each:
    (True, its result), or (False, None) if it took more than `timeout` seconds."""
    if isinstance(arguments, dict):
        result = function(**arguments)
        return plain(loop.run(_awaited(result)) if inspect.isawaitable(result) else result)

    async def each() -> list[tuple[bool, Any]]:
        return await asyncio.gather(*(_in_time(function(**given), timeout) for given in arguments))

    return loop.run(each())


async def _awaited(result: Any) -> Any:
    return await result


async def _in_time(result: Any, timeout: float) -> tuple[bool, Any]:
    try:
        async with asyncio.timeout(timeout) as clock:
            return True, plain(await result)
    except TimeoutError:
        if not clock.expired():  # the function's own
            raise
        return False, None


def _may_pass(error: BaseException) -> bool:
    """Whether an error may have an outside cause, such as a service that is down: OS errors, a library's classes and
    unspecific ones. The same call would raise Python's others, such as KeyError, again."""
    if isinstance(error, BaseExceptionGroup):
        return any(map(_may_pass, error.exceptions))
    return isinstance(error, OSError) or type(error) in _OF_ANYTHING or type(error).__module__ != "builtins"


def _report(error: BaseException, path: str) -> str:
    """The error and the innermost line of the user's file; then the traceback from that file on, without our frames."""
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename != path:
        trace = trace.tb_next
    told = where_raised(error, path)
    return f"{told}\n" + "".join(traceback.format_exception(error.with_traceback(trace))).rstrip()


if __name__ == "__main__":
    main()
