"""Which tests plain Python passes: source and test in one namespace, in a process for each test.

python -S plain_python.py < [[source, test], …] > [true, …]
"""

import builtins
import json
import os
import sys
import types


def passes(source: str, test: str) -> bool:
    """Whether plain Python gets to the end of source and test; for unittest.main(), whether it succeeds."""
    child = os.fork()
    if child:
        return os.waitpid(child, 0)[1] == 0
    status = 1
    try:
        module = types.ModuleType("__main__")
        sys.modules["__main__"] = module
        vars(module).update(__file__="solution.py", __builtins__=builtins)
        sys.argv = ["solution.py"]
        for fd in (1, 2):
            os.dup2(os.open(os.devnull, os.O_RDWR), fd)
        exec(compile(source, "<source>", "exec"), vars(module))
        exec(compile(test, "<test>", "exec"), vars(module))
        status = 0
    except SystemExit as error:
        status = int("unittest.main()" not in test or bool(error.code))
    finally:
        os._exit(status)


if __name__ == "__main__":
    json.dump([passes(source, test) for source, test in json.load(sys.stdin)], sys.stdout)
