"""Whatever a candidate does to the conversation is its own failure: a score of zero, in time, never no score.

Candidates break the protocol at random: frames, replies and endings, drawn with a key.
"""

# ruff: noqa: E501 - tables

import json
import random
from typing import Any

import pytest

from sandbox import Program, SandboxPool

# No draw comes near the answer: a pass would be a hole, not luck.
TESTS = (
    ["assert f(1) == 'quite unlikely'", "assert f(2) == ['no', {'such': 'thing'}]", "assert sum(f(3)) == 0.123456789"],
    ["v = [3]\nf(v)\nassert v == ['unlikely']", "for a, b in zip(map(f, [1, 2]), ['x y', 'z']): assert a == b"],
    ["try:\n    f(1)\nexcept KeyError as e:\n    assert e.args == ('unlikely',)\nelse:\n    assert f(2) == 'unlikely'"],
    ["assert f([0] * 300_000) == 'unlikely'", "assert f(1) == 'unlikely'"],
    ["assert f(1)(2) == 'unlikely'", "g = f(1)\nassert next(g) == 'unlikely'", "assert LIMIT == 'unlikely'"],
)
_TAGS = [*str.split("l t s f d c o dd q a y i n @ h b j r D F K V I datetime date time delta slice name ?"), ""]
_WORDS = [*str.split("0x1 zz -1 list eval exit ValueError StopIteration KeyboardInterrupt i"), "\ud800", ""]
_FIELDS = ("id", "value", "error", "text", "args", "changed", "end", "loaded", "phase", "nonce", "outcome", "usage")
_ENDS = (
    "os._exit(0)", "os._exit(97)", "os.abort()", "sys.exit(0)", "raise KeyboardInterrupt", "raise GeneratorExit", "raise MemoryError",
    "os.closerange(0, 99)", "os.close(3)", "raise StopIteration", "time.sleep(9)", "os.kill(os.getpid(), 9)", "os.kill(os.getpid(), 15)",
    "sys.setrecursionlimit(5)", "os.write(3, bytes([15, 0, 0, 0]) + b'{\"loaded\":true}'); time.sleep(9)", "threading.Thread(target=lambda: os._exit(0)).start()", "sys.stdout.close()", "sys.modules.clear()",
    "sys.settrace(lambda *a: 1 / 0)", "gc.disable(); gc.freeze()", "builtins.__dict__.clear()", "resource.setrlimit(resource.RLIMIT_CPU, (1, 1))",
)  # fmt: skip


def data(rng: random.Random, depth: int = 0) -> Any:
    """Something that is almost a value on the wire."""
    kind = rng.randrange(12)
    if depth > 4 or kind < 4:
        return rng.choice([None, True, 0, -1, 1 << 70, 1.5, float("nan"), ["i", "0x" + "f" * 5000], *_WORDS])
    if kind < 9:
        return [rng.choice(_TAGS), *(data(rng, depth + 1) for _ in range(rng.randrange(4)))]
    if kind < 11:
        return [data(rng, depth + 1) for _ in range(rng.randrange(4))]
    return {rng.choice(_FIELDS): data(rng, depth + 1) for _ in range(rng.randrange(3))}


def message(rng: random.Random) -> Any:
    """Something that is almost a reply."""
    if rng.random() < 0.1:
        return data(rng)
    fields = {rng.choice(_FIELDS): data(rng) for _ in range(rng.randrange(1, 5))}
    if rng.random() < 0.3:
        fields |= {"error": [rng.choice(_WORDS) for _ in range(rng.randrange(3))], "text": data(rng, 4)}
    if rng.random() < 0.5:
        fields["id"] = rng.randrange(4)
    return fields


def frame(rng: random.Random) -> bytes:
    """A frame, perhaps with another length or another byte than it should have."""
    body = bytearray(json.dumps(message(rng)).encode())
    if rng.random() < 0.2 and body:
        body[rng.randrange(len(body))] = rng.randrange(256)
    size = len(body) if rng.random() < 0.8 else rng.choice([0, 1, len(body) - 1, len(body) + 9, 1 << 31, (1 << 32) - 1])
    return size.to_bytes(4, "little") + bytes(body)


def program(rng: random.Random) -> Program:
    """A candidate that misbehaves when it is loaded, when it is called, or both."""
    lines = ["import builtins, gc, os, resource, sys, threading, time", "Server = sys.modules['worker.server'].Server"]
    if rng.random() < 0.5:
        lines += [f"os.write(3, {frame(rng)!r})" for _ in range(rng.randrange(1, 4))]
    if rng.random() < 0.2:
        lines.append(rng.choice(_ENDS))
    if rng.random() < 0.6:
        replies = [message(rng) for _ in range(rng.randrange(1, 5))]
        lines += [f"replies = eval({repr(replies)!r}, {{'nan': 0.0}})"]
        lines += ["Server._call = lambda self, request: replies.pop() if replies else {{}}"]
    body = [f"os.write(3, {frame(rng)!r})"] if rng.random() < 0.4 else []
    body += [rng.choice(_ENDS)] if rng.random() < 0.3 else []
    lines += ["def f(x):", *(f"    {line}" for line in body), f"    return {data(rng)!r}".replace("nan", "0.0")]
    limits: dict[str, Any] = {"cpu_seconds": 0.2, "wall_seconds": 0.5, "fresh_per_test": rng.random() < 0.2}
    if rng.random() < 0.1:
        return Program(source="\n".join([*lines, "f(1)"]), stdin_tests=[("1", "unlikely")], **limits)
    return Program(source="\n".join(lines), tests=rng.choice(TESTS), **limits)


@pytest.mark.parametrize("count", [60, pytest.param(10_000, marks=pytest.mark.slow)])
def test_no_fuzzed_candidate_passes_has_no_score_or_stalls(count: int) -> None:
    programs = [program(random.Random(f"fuzz-{number}")) for number in range(count)]
    wrong = []
    with SandboxPool(num_workers=2) as pool:
        for number, verdict in pool.stream(programs):
            if verdict.pass_ratio != 0:  # none where the worker was given up because nothing came
                wrong.append((number, verdict, programs[number].source))
    assert wrong == []
