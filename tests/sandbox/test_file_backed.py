"""Memory that is moved into a file looks the same as before to its process and its forks, which copy none of it."""

import json
import subprocess
import sys
from typing import Any

from tests.sandbox.sandbox_configurations import REPOSITORY

MOVED = """
import json, os, resource, sys
from sandbox.worker import file_backed, hot_pages

proc = hot_pages.open_proc()
data = {str(number): [number] * 10 for number in range(100_000)}


def written():
    with open("/proc/self/smaps_rollup") as file:
        return next(int(line.split()[1]) >> 10 for line in file if line.startswith("Anonymous:"))


def forked(work):
    reader, writer = os.pipe()
    if os.fork() == 0:
        os.write(writer, json.dumps(work()).encode())
        os._exit(0)
    os.wait()
    return json.loads(os.read(reader, 1000))


def change():
    data["7"].append("the fork's")
    return [data["7"][-1], data["8"][-1], sum(map(len, data.values()))]


found = {"files": len(os.listdir("/proc/self/fd")), "before": written()}
found["refused"] = file_backed.move(lambda: 1 / 0, proc)
found["refused_written"] = written()
found["moved"] = file_backed.move(lambda: None, proc)
found["after"] = written()
found["fork_has"] = forked(written)
found["same"] = all(data[str(number)] == [number] * 10 for number in range(100_000))
data["8"].append("later")
found["fork"] = forked(change)
found["parent"] = data["7"][-1]
more = [[number] for number in range(300_000)]
found["grows"] = sum(map(len, more)) + len(data.pop("9"))
found["files_after"] = len(os.listdir("/proc/self/fd")) - 4  # two pipes
print(json.dumps(found))
"""

UNFORKED = """
import json, mmap, os
from sandbox.worker import file_backed, hot_pages

WIPE_ON_FORK = 18
secret = mmap.mmap(-1, mmap.PAGESIZE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
secret.madvise(WIPE_ON_FORK)
secret[:6] = b"secret"
found = {"moved": file_backed.move(lambda: None, hot_pages.open_proc()), "here": secret[:6].decode()}
reader, writer = os.pipe()
if os.fork() == 0:
    os.write(writer, secret[:6])
    os._exit(0)
os.wait()
print(json.dumps(found | {"fork": os.read(reader, 6).strip(b"\\0").decode()}))
"""

LIMITED = """
import json, os, resource
from sandbox.worker import file_backed, hot_pages

proc = hot_pages.open_proc()
data = {str(number): [number] * 10 for number in range(100_000)}
copied = file_backed._one_after_another
whole = resource.getrlimit(resource.RLIMIT_FSIZE)
parent = os.getpid()
found = {}


def allow(size):
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, whole[1]))


def later(calls):
    if os.getpid() == parent:  # the fork that tries it first has been lucky
        allow(1 << 20)
    copied(calls)
    allow(whole[0])


allow(1 << 20)  # room for a few pages: a write falls short, the next one fails
found["without_room"] = file_backed.move(lambda: None, proc)
allow(whole[0])
file_backed._one_after_another = later
data["7"].append("before the move")
found["moved"] = file_backed.move(lambda: None, proc)
found["last"] = data["7"][-1]
found["total"] = sum(map(len, data.values()))
print(json.dumps(found))
"""


def run(script: str) -> dict[str, Any]:
    done = subprocess.run([sys.executable, "-c", script], cwd=REPOSITORY, capture_output=True, text=True, check=True)
    return dict(json.loads(done.stdout))


def test_what_is_moved_is_the_same_memory_and_forks_copy_none_of_it() -> None:
    found = run(MOVED)
    assert found["moved"]
    assert found["before"] > 20  # MiB
    assert found["after"] < found["before"] // 4
    assert found["fork_has"] < found["before"] // 4
    assert found["same"]
    assert found["fork"] == ["the fork's", "later", 1_000_002]  # what was written since, and its own
    assert found["parent"] == 7
    assert found["grows"] == 300_010
    assert found["files_after"] == found["files"]


def test_what_forks_shall_not_have_is_not_moved() -> None:
    assert run(UNFORKED) == {"moved": True, "here": "secret", "fork": ""}


def test_memory_stays_as_it_is_where_a_trial_fails() -> None:
    found = run(MOVED)
    assert not found["refused"]
    assert found["refused_written"] >= found["before"] - 1


def test_a_write_that_falls_short_moves_nothing_and_none_can_once_memory_is_being_replaced() -> None:
    found = run(LIMITED)
    assert found == {"without_room": False, "moved": True, "last": "before the move", "total": 1_000_001}
