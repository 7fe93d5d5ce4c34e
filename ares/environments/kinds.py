"""What `environment.kind` and a row's column `environment` can name, each as a class of our shape (Environment).

    tools                 the functions of environment.tools
    textarena:NAME        a game of TextArena for one player
    path/to/file.py:name  a function agent(row, seed), which asks a model by OpenAI's protocol and returns its reward
    path/to/file.py:Name  a class of one of three shapes:
        ours              reset(row, seed) → observation; step(text) → Reply
        TRL's             reset(**row) → observation or None; its other public methods are tools; get_reward() → number
        Gym-like          init(prompt) → (messages, info); step(text) → {observations, reward, done, metadata}; close()

Not covered: the process they live in (ares/environments/process.py).
"""

import importlib
import inspect
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from types import ModuleType
from typing import Any

from ares.config import ConfigError, EnvironmentConfig, load_reference
from ares.environments.agents import AgentEnvironment
from ares.environments.environment import Environment, Reply
from ares.environments.tools import Tool, answer_calls, check_tools, make_tools, open_sandbox

TOOLS = "tools"
TEXTARENA = "textarena:"
OF_TRL = ("reset", "get_reward", "close")
"""Methods of TRL's environments that are not tools."""


def load(kind: str, config: EnvironmentConfig) -> Callable[[], Environment]:
    """What makes an environment of a kind. Raises ConfigError or SandboxUnavailable in one line."""
    if kind == TOOLS:
        make_tools(config)
        if "python" in config.tools:
            open_sandbox()
        return partial(ToolEnvironment, config)
    if kind.startswith(TEXTARENA):
        return partial(Game, _game(kind, config.settings))
    if ".py:" not in kind:
        raise ConfigError(f"{kind!r} is unknown (known: tools, textarena:NAME, path/to/file.py:Name)")
    found = load_reference(kind)
    if inspect.isfunction(found):
        try:
            inspect.signature(found).bind_partial({}, 0)
        except TypeError as error:
            raise ConfigError(f"{kind} is not a class, nor an agent, which takes a row and a seed") from error
        check_settings(partial(found, {}, 0), config.settings, kind)
        return partial(AgentEnvironment, found, config.settings, config.call_format)
    if not isinstance(found, type):
        raise ConfigError(f"{kind} is not a class or a function")
    make = partial(found, **config.settings)
    if is_trls(found):
        if config.reward == "sum":
            raise ConfigError(f"{kind}: get_reward() is of a whole episode, not of a turn: environment.reward=last")
        check_settings(found, config.settings, kind)
        check_tools(trl_tools(found), config)
        return partial(ToolEnvironment, config, make)
    if hasattr(found, "init"):
        check_settings(found, config.settings, kind, given="extras")
        return partial(GymEnvironment, make)
    if missing := [name for name in ("reset", "step") if not callable(getattr(found, name, None))]:
        raise ConfigError(f"{kind} is not an environment: it has no {' and no '.join(missing)}")
    check_settings(found, config.settings, kind)
    return make


def tools_of(kind: str, config: EnvironmentConfig) -> dict[str, Tool]:
    """What a response can call in a kind of environment, which may be nothing. Raises ConfigError."""
    if kind == TOOLS:
        return make_tools(config)
    if ".py:" in kind and is_trls(found := load_reference(kind)):
        return trl_tools(found)
    return {}


def check_settings(function: Callable[..., Any], settings: Mapping[str, Any], kind: str, given: str = "") -> None:
    """Raises ConfigError if a class does not take these keyword arguments. given: one that is no setting."""
    signature = inspect.signature(function)
    try:
        signature.bind(**settings, **({given: None} if given in signature.parameters else {}))
    except TypeError as error:
        raise ConfigError(f"environment.settings: {kind}: {error}") from error


class ToolEnvironment:
    """Answers calls of tools: those of the settings, which have no reward; or, given what makes an object of TRL's
    shape, its methods. Its `get_reward`, that of the episode so far, is called after each turn."""

    def __init__(self, config: EnvironmentConfig, make: Callable[[], Any] | None = None) -> None:
        self._config = config
        self._own = None if make is None else make()
        names = trl_tools(type(self._own))
        self._tools = make_tools(config) if make is None else {name: getattr(self._own, name) for name in names}

    def reset(self, row: Mapping[str, Any], seed: int) -> str | None:
        return "" if self._own is None else self._own.reset(**row)

    def step(self, text: str) -> Reply:
        get_reward = getattr(self._own, "get_reward", lambda: None)
        return replace(answer_calls(text, self._tools, self._config), reward=get_reward())


def is_trls(found: Any) -> bool:
    """Whether a class has the shape of TRL's environments, whose reset takes all columns of a row by name."""
    reset = getattr(found, "reset", None)
    return callable(reset) and any(
        each.kind is each.VAR_KEYWORD for each in inspect.signature(reset).parameters.values()
    )


def trl_tools(found: type) -> dict[str, Tool]:
    """The tools of a class of TRL's shape, in the order of their names."""
    methods = inspect.getmembers(found, inspect.isfunction)
    return {name: method for name, method in methods if not name.startswith("_") and name not in OF_TRL}


class GymEnvironment:
    """Gym-like shape, as SkyRL-Gym's. A constructor with a parameter `extras` is given the row."""

    def __init__(self, make: Callable[..., Any]) -> None:
        self._make = make
        self._environment: Any = None

    def reset(self, row: Mapping[str, Any], seed: int) -> str:
        takes_row = "extras" in inspect.signature(self._make).parameters
        self._environment = self._make(**{"extras": row} if takes_row else {})
        prompt = row["prompt"]
        prompt = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else prompt
        messages, _ = self._environment.init([dict(message) for message in prompt])
        if messages[: len(prompt)] != prompt:
            raise ValueError("init changed the prompt: it may only add messages")
        return _contents(messages[len(prompt) :])

    def step(self, text: str) -> Reply:
        said = self._environment.step(text)
        metadata = said.get("metadata") or {}
        numbers = {name: value for name, value in metadata.items() if isinstance(value, int | float)}
        return Reply(_contents(said["observations"]), said["reward"], said["done"], metrics=numbers)

    def close(self) -> None:
        getattr(self._environment, "close", int)()


def _contents(messages: list[Mapping[str, Any]]) -> str:
    return "\n".join(message["content"] for message in messages)


class Game:
    """A game of TextArena for one player. Observations are its new messages; the reward comes at the end of a game, and
    success is that reward, from 0 on."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self._game = make()
        self.inner = self._game
        while hasattr(self.inner, "env"):  # its wrappers would repeat the whole history in each observation
            self.inner = self.inner.env

    def reset(self, row: Mapping[str, Any], seed: int) -> str:
        self._game.reset(num_players=1, seed=seed)
        return self._new_messages()

    def step(self, text: str) -> Reply:
        done, _ = self._game.step(text)
        if not done:
            return Reply(self._new_messages(), reward=0.0, success=0.0)
        rewards, told = self._game.close()
        return Reply(str(told[0].get("reason", "")), rewards[0], True, max(0.0, min(rewards[0], 1.0)))

    def _new_messages(self) -> str:
        texts = [
            str(text if isinstance(text, str) else kind)  # Countdown and two more swap them
            for _, text, kind in self.inner.state.get_current_player_observation()
            if "PLAYER_ACTION" not in str(kind)
        ]
        return "\n".join(text.strip() for text in texts)


def _game(kind: str, settings: dict[str, Any]) -> Callable[[], Any]:
    """What makes a game. Raises ConfigError."""
    name = kind.removeprefix(TEXTARENA)
    try:
        textarena: ModuleType = importlib.import_module("textarena")
    except ModuleNotFoundError as error:
        raise ConfigError(f"{kind}: TextArena is not installed: pip install 'ares-rl[environments]'") from error
    make = partial(textarena.make, name, **settings)
    try:
        Game(make).reset({}, 0)
    except Exception as error:
        told = " ".join(str(error).split())
        raise ConfigError(f"{kind} does not start with one player: {type(error).__name__}: {told:.200}") from error
    return make
