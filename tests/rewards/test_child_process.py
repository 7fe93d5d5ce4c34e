"""A child that ends with its parent, and what it leaves alone."""

import subprocess
import sys

FORK = """
import os, time
from rewards.child_process import end_with

parent = os.getpid()
if os.fork() == 0:
    print("begun", flush=True)
    end_with(parent)
    time.sleep(60)
time.sleep(0.1)
"""
LEADER = f"""
import subprocess, sys

forked = subprocess.run([sys.executable, "-c", {FORK!r}], capture_output=True)  # until the fork's output is closed, too
print(forked.stdout.decode(), "and the terminal goes on")
"""


def test_a_fork_in_a_terminals_session_ends_alone() -> None:
    """Environments may be played in a user's own process; once that had ended, its forks killed the whole session."""
    leader = subprocess.run([sys.executable, "-c", LEADER], capture_output=True, text=True, start_new_session=True)
    assert (leader.returncode, leader.stdout.split()) == (0, ["begun", "and", "the", "terminal", "goes", "on"])
