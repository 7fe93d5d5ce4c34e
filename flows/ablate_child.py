"""`ares …` in a process that ends with the one that started it: `python -m flows.ablate_child PARENT train …`.

A parent that is asked to stop ends its children itself; this is for a parent that is killed and cannot. The run dies
with it, as if its machine had died, and resumes from its last commit.
"""

import sys

from rewards.child_process import end_with

if __name__ == "__main__":
    end_with(int(sys.argv.pop(1)), code=1)
    from flows.cli.main import main

    main()
