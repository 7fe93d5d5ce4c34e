"""Python child processes that can import what their parent can, and exit when it does.

Here because every package that needs it may import from rewards/. Standard library only. Not covered: the sandbox,
whose processes must not find our modules.
"""

import os
import sys
import threading
import time


def environment() -> dict[str, str]:
    """The environment for a child with this process's import path."""
    return os.environ | {"PYTHONPATH": os.pathsep.join(path or os.getcwd() for path in sys.path)}


def end_with(parent: int) -> None:
    """In the child: exit as soon as `parent` is gone, even while the main thread is busy.

    A parent that is killed cannot stop its children itself.
    """

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        os._exit(0)

    threading.Thread(target=watch, daemon=True).start()
