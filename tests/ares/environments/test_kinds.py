"""Environments by their names: classes of three shapes, tools, games; what is wrong with their settings."""

import importlib.util
from pathlib import Path
from typing import Any

import pytest

from ares.config import ConfigError, EnvironmentConfig
from ares.environments import Environment, Reply, kinds
from ares.environments.tools import describe_tools
from tests.ares.environments.test_tools import call

FILE = '''
from ares.environments import Reply

class Ours:
    def __init__(self, start: int, *, step_size: int = 1):
        self.start = start
    def reset(self, row, seed):
        return f"{row['task']} {seed} {self.start}"
    def step(self, text):
        return Reply(text)

class Trls:
    def __init__(self, start: int = 0):
        self.start = start
    def reset(self, task, **columns):
        self.total = self.start
        return f"{task} {columns['answer']}"
    def add(self, n: int) -> int:
        """Add.

        Args:
            n: What is added.
        """
        self.total += n
        return self.total
    def _own(self): pass
    def get_reward(self):
        return self.total / 10

class Unrewarded:
    def reset(self, **row): pass
    def look(self) -> str:
        """Look."""
        return "seen"

class Gyms:
    def __init__(self, limit: int, extras: dict):
        self.limit, self.extras = limit, extras
    def init(self, prompt):
        hints = [{"role": "user", "content": f"up to {self.limit}"}] if self.limit else [{"role": "x", "content": "y"}]
        return (prompt + hints if self.limit else hints), {}
    def step(self, text):
        done = text == self.extras["answer"]
        return {"observations": [{"role": "user", "content": "no"}, {"role": "user", "content": "again"}],
                "reward": float(done), "done": done, "metadata": {"tries": 1, "note": "x"}}

class Half:
    def reset(self, row, seed): pass
'''
ROW = {"id": "a", "prompt": "Guess.", "task": "t", "answer": "7"}


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("kinds") / "own.py"
    path.write_text(FILE)
    return path


def config(kind: str, **others: Any) -> EnvironmentConfig:
    return EnvironmentConfig.model_validate({"kind": kind} | others)


def make(kind: str, **others: Any) -> Environment:
    return kinds.load(kind, config(kind, **others))()


def test_a_class_of_our_shape_is_made_from_its_settings(path: Path) -> None:
    ours = make(f"{path}:Ours", settings={"start": 5})
    assert ours.reset(ROW, 3) == "t 3 5"
    assert ours.step("hello") == Reply("hello")


def test_trls_shape_is_reset_with_the_columns_and_its_public_methods_are_tools(path: Path) -> None:
    trls = make(f"{path}:Trls", settings={"start": 1})
    assert trls.reset(ROW, 0) == "t 7"
    assert trls.step(call("add", n=2) + call("get_reward")) == Reply(
        ("3", "Error: there is no tool 'get_reward' (known: add)"), 0.3, metrics={"calls/add": 1, "errors/malformed": 1}
    )
    assert trls.step("done") == Reply((), 0.3, done=True)
    kind = f"{path}:Trls"
    [schema] = describe_tools(kinds.tools_of(kind, config(kind)))
    assert schema["function"]["name"] == "add"
    other = make(f"{path}:Unrewarded")
    assert other.reset(ROW, 0) is None
    assert other.step(call("look")) == Reply(("seen",), metrics={"calls/look": 1})


def test_a_gym_like_class_adds_messages_to_the_prompt(path: Path) -> None:
    gyms = make(f"{path}:Gyms", settings={"limit": 10})
    assert gyms.reset(ROW, 0) == "up to 10"
    assert gyms.step("3") == Reply("no\nagain", 0.0, metrics={"tries": 1})
    assert gyms.step("7") == Reply("no\nagain", 1.0, True, metrics={"tries": 1})
    assert gyms.reset(ROW | {"prompt": [{"role": "user", "content": "Guess."}]}, 0) == "up to 10"
    with pytest.raises(ValueError, match="init changed the prompt: it may only add messages"):
        make(f"{path}:Gyms", settings={"limit": 0}).reset(ROW, 0)


def test_tools_of_an_episode_are_those_of_the_settings() -> None:
    tools = make("tools", tools=["calculator"])
    assert tools.reset(ROW, 0) == ""
    assert tools.step(call("calculator", expression="2*(3+4)")).observation == ("14",)
    assert tools.step("14") == Reply((), done=True)


def test_what_cannot_be_made_is_refused_in_one_line_that_names_it(path: Path) -> None:
    wrong: dict[str, tuple[dict[str, Any], str]] = {
        f"{path}:Ours": ({}, r"environment.settings: .*own.py:Ours: missing a required argument: 'start'"),
        f"{path}:Our": ({}, r"own.py has no 'Our' \(did you mean Ours\?\)"),
        f"{path}:Half": ({}, r"own.py:Half is not an environment: it has no step"),
        f"{path}:Trls": ({"reward": "sum"}, r"own.py:Trls: get_reward\(\) is of a whole episode"),
        f"{path}:Unrewarded": ({"call_format": "python"}, r"calls the tool python alone \(there are: look\)"),
        f"{path}:Gyms": ({"settings": {"limit": 1, "extras": {}}}, r"own.py:Gyms: .*multiple values"),
        "toolz": ({}, r"'toolz' is unknown \(known: tools, textarena:NAME, path/to/file.py:Name\)"),
    }
    for kind, (others, why) in wrong.items():
        with pytest.raises(ConfigError, match=why) as refused:
            make(kind, **others)
        assert "\n" not in str(refused.value)
    with pytest.raises(ConfigError, match=r"own.py:Ours: got an unexpected keyword argument 'stap_size'"):
        make(f"{path}:Ours", settings={"start": 1, "stap_size": 2})


def test_a_game_without_textarena_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "textarena", None)
    with pytest.raises(ConfigError, match=r"textarena:2048-v0: TextArena is not installed: pip install 'ares-rl"):
        make("textarena:2048-v0")


textarena = pytest.mark.skipif(importlib.util.find_spec("textarena") is None, reason="needs the extra `environments`")


@textarena
def test_a_game_shows_its_new_messages_and_is_rewarded_at_its_end() -> None:
    game = make("textarena:TowerOfHanoi-v0", settings={"num_disks": 1})
    first = game.reset(ROW, 0)
    assert first.startswith("You are playing Tower of Hanoi with 1 disks.")
    reply = game.step("I move it to [A B].")
    assert isinstance(reply.observation, str)
    assert reply.observation.startswith("You moved disk 1 from A to B.\nCurrent Board:")
    assert (reply.reward, reply.success, reply.done) == (0.0, 0.0, False)
    assert "playing" not in reply.observation
    assert game.step("[B C]") == Reply("Congratulations! You solved the Tower of Hanoi puzzle.", 1, True, 1.0)


@textarena
def test_a_game_that_is_unknown_or_for_two_or_given_wrong_settings_is_refused() -> None:
    wrong: dict[str, tuple[dict[str, Any], str]] = {
        "textarena:2048-v1": ({}, r"textarena:2048-v1 does not start with one player: "),
        "textarena:Nim-v0": ({}, r"textarena:Nim-v0 does not start with one player"),
        "textarena:TowerOfHanoi-v0": ({"disks": 1}, r"does not start .*unexpected keyword argument 'disks'"),
    }
    for kind, (given, why) in wrong.items():
        with pytest.raises(ConfigError, match=why):
            make(kind, settings=given)
