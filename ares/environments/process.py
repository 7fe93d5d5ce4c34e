"""The process in which environments live, many side by side: on its main thread, one call at a time.

Run as a script with the settings and a socket's descriptor, it is told calls; all is JSON. Around every call Python's
and NumPy's global random states are those of the episode, seeded at its reset, so that an episode does not depend on
the others of its process. Not covered: time limits, restarts and rebuilding (ares/environments/pool.py).
"""

import contextlib
import json
import random
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from typing import Any

import numpy as np

from ares.config import ConfigError, EnvironmentConfig
from ares.environments import kinds
from ares.environments.agents import AgentFailed
from ares.environments.environment import Environment, Reply, checked
from rewards.child_process import answer_messages, where_raised

LONGEST_ERROR = 500
"""Characters."""
LONGEST_TOKEN = 64
"""Characters of an observation kept per token that is allowed: what follows would be cut off anyway."""


def main() -> None:
    """Answer calls until the run is gone."""
    episodes = Episodes(EnvironmentConfig.model_validate_json(sys.argv[1]))
    answer_messages(lambda message: json.dumps(episodes.answer(json.loads(message))).encode())


class Episodes:
    """The episodes of this process."""

    def __init__(self, config: EnvironmentConfig) -> None:
        self.config = config
        self._makers: dict[str, Callable[[], Environment]] = {}
        self._live: dict[str, tuple[Environment, Randomness]] = {}

    def answer(self, call: Mapping[str, Any]) -> dict[str, Any]:
        """The reply to `reset` or `step`, as a dict; to `load`, how many calls a response may make; to `forget`, none.
        Or, as `error`, why there is none."""
        if call["do"] == "forget":
            self._forget(call["key"])
            return {}
        kind = call["kind"]
        try:
            if call["do"] == "load":
                self._makers[kind] = kinds.load(kind, self.config)
                return {"calls": self.config.max_calls if kinds.tools_of(kind, self.config) else 1}
            reply = self._reset(call) if call["do"] == "reset" else self._step(call)
            return asdict(checked(reply, LONGEST_TOKEN * self.config.max_observation_length))
        except (ConfigError, AgentFailed) as error:
            told = str(error)
        except BaseException as error:  # noqa: BLE001 (whatever an environment raises ends its episode alone)
            told = where_raised(error, kind.rpartition(":")[0])
        self._forget(call.get("key", ""))
        return {"error": told.encode(errors="backslashreplace").decode()[:LONGEST_ERROR]}

    def _reset(self, call: Mapping[str, Any]) -> Reply:
        self._forget(call["key"])
        randomness = Randomness(call["seed"])
        with randomness.in_force():
            environment = self._makers[call["kind"]]()
            self._live[call["key"]] = environment, randomness
            begun = environment.reset(call["row"], call["seed"])
        return begun if isinstance(begun, Reply) else Reply("" if begun is None else begun)

    def _step(self, call: Mapping[str, Any]) -> Reply:
        if call["key"] not in self._live:
            raise ConfigError("the episode is over")
        environment, randomness = self._live[call["key"]]
        with randomness.in_force():
            reply = environment.step(call["text"])
        if isinstance(reply, Reply) and reply.done:
            self._forget(call["key"])
        return reply

    def _forget(self, key: str) -> None:
        if key in self._live:
            environment, randomness = self._live.pop(key)
            try:
                with randomness.in_force():
                    getattr(environment, "close", int)()
            except Exception:  # noqa: BLE001 (the episode is over: its replies stand)
                traceback.print_exc()


class Randomness:
    """The states of the global random generators, as one episode left them."""

    def __init__(self, seed: int) -> None:
        self._states = random.Random(seed).getstate(), np.random.RandomState(seed % 2**32).get_state()

    @contextlib.contextmanager
    def in_force(self) -> Iterator[None]:
        random.setstate(self._states[0])
        np.random.set_state(self._states[1])
        yield
        self._states = random.getstate(), np.random.get_state()


if __name__ == "__main__":
    main()
