"""Settings of an environment: what answers a response, for how many turns, and what an episode is worth.

    environment: {kind: tools, tools: [calculator, submit], max_turns: 4}
    environment: path/to/game.py:Game                                     # short for {kind: path/to/game.py:Game}

Not covered: what environments do (ares/environments), combinations with other sections (ares/config/rules.py).
"""

from typing import Any, Literal

from pydantic import Field

from algorithms.settings import MOST_TOKENS, Strict
from ares.config.strict import LONGEST_WAIT, MOST_PROCESSES, NO_EFFECT


class EnvironmentConfig(Strict):
    """What a response is answered by. An episode is a prompt, and turns of the model and of the environment."""

    kind: str
    """`tools`: the functions of `tools`, called in responses; textarena:NAME, a game for one player; or
    path/to/file.py:Name, a class or agent of yours (docs/environments.md). A row's column `environment` has
    precedence."""
    settings: dict[str, Any] = Field({})
    """Keyword arguments of a class or agent of yours, or of a game."""
    tools: list[str] = Field([])
    """What the model may call, with kind=tools: `calculator`, `submit`, path/to/file.py:function, and `python`: a
    session in the sandbox with the standard library, 2 CPU seconds and 512 MiB for all code of an episode."""
    call_format: Literal["hermes", "llama", "python"] = "hermes"
    """How a call is written: <tool_call>{"name": …, "arguments": …}</tool_call> (Qwen, Hermes), a JSON object alone
    with "parameters" (Llama), or a fenced block of Python."""
    max_turns: int = Field(8, ge=1, le=64)
    """Responses of an episode; one that is not over by then is truncated."""
    max_calls: int = Field(4, ge=1, le=64)
    """Calls of one response that are answered; further ones are told so."""
    max_observation_length: int = Field(256, ge=1, le=MOST_TOKENS)
    """Tokens of what the environment says to one response. More are cut off, and the model is told so."""
    timeout: float = Field(10.0, gt=0, le=LONGEST_WAIT, json_schema_extra=NO_EFFECT)
    """Seconds that one answer may take, times max_calls where there are tools. An environment that overruns, raises or
    dies leaves its episode unscored."""
    processes: int = Field(2, ge=1, le=MOST_PROCESSES, json_schema_extra=NO_EFFECT)
    """Processes that environments live in, side by side."""
    variables: list[str] = Field([], json_schema_extra=NO_EFFECT)
    """Environment variables that the processes see besides PATH, HOME and the like, such as the key of a service that a
    tool asks. Credentials of the run are kept from them."""
    reward: Literal["last", "sum"] = "last"
    """What an episode's rewards add up to, with reward.kind=environment: the last one, or their discounted sum."""
    discount: float = Field(1.0, gt=0, le=1)
    """reward=sum: what a turn's reward counts, per turn before it."""

    @property
    def longest(self) -> int:
        """Most tokens that the environment adds to an episode; templates add a few more to each turn."""
        return (self.max_turns - 1) * (self.max_observation_length + TEMPLATE_LENGTH)


TEMPLATE_LENGTH = 64
"""Tokens that a chat template may put around an observation."""


def as_section(value: Any) -> Any:
    """A kind alone as a section."""
    return {"kind": value} if isinstance(value, str) else value
