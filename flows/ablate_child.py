"""`ares …` in a process that ends with the one that started it: `python -m flows.ablate_child PARENT train …`.

A parent that is asked to stop ends its children itself; this is for the parent that was killed and cannot. The run is
killed with it, as if its machine had died: it resumes from its last commit.
"""

import os
import sys
import threading
import time


def end_with(parent: int) -> None:
    """End this process, at once, when `parent` is no longer the process that started it."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


if __name__ == "__main__":
    end_with(int(sys.argv.pop(1)))
    from flows.cli.main import main

    main()
