"""What pytest-xdist starts in place of `python -u -c CODE`: asks the fork server for such a process; ends with it."""

import os
import sys

from ray_worker import asked, wait_until_open  # beside this script

if __name__ == "__main__":
    wait_until_open("tests")
    with asked("tests", sys.argv[1:], dict(os.environ), [0, 1, 2]) as connection, connection.makefile() as told:
        _, status = told.readlines()
    sys.exit(os.waitstatus_to_exitcode(int(status)))
