"""Tools: typed functions that a response may call, those built in, and what the model is told of its calls.

A tool's schema comes from its signature and docstring (Google style: a line for each argument). It is called by name;
arguments are checked against the signature. What goes wrong with a call is told to the model: an unknown tool or
argument, a wrong type, what the function raises. Not told, but an environment that failed and an episode without score:
ConnectionError, TimeoutError, a sandbox that does not work, a call that overruns.

Not covered: how calls are written (ares/environments/call_formats.py), which class has which tools
(ares/environments/kinds.py).
"""

import functools
import inspect
import json
import re
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from pydantic import ValidationError, validate_call

from ares.config import ConfigError, EnvironmentConfig, load_reference, nearest
from ares.environments.arithmetic import evaluate
from ares.environments.call_formats import Call, Malformed, parse_calls
from ares.environments.environment import Reply
from rewards.child_process import plain
from sandbox import Program, SandboxPool, SandboxUnavailable

Tool = Callable[..., Any]
CPU_SECONDS, WALL_SECONDS = 2.0, 4.0
"""Of all cells of a session together, as every call of `python` runs them all."""


class ToolError(Exception):
    """A call failed through its arguments; the text is what the model is told."""


class Submitted(Exception):
    """The model gave its final answer."""


def calculator(expression: str) -> str:
    """Calculate the value of an arithmetic expression.

    Args:
        expression: Numbers with + - * / // % ** and parentheses, and functions such as sqrt(2). Example: 3*(4+5)
    """
    return evaluate(expression)


def submit(answer: str) -> str:
    """Give the final answer. Nothing can be said after it.

    Args:
        answer: The final answer.
    """
    raise Submitted(answer)


class PythonSession:
    """The tool `python`: cells of one session, run in the sandbox. Earlier ones are run again, without their output."""

    def __init__(self) -> None:
        self._cells: list[str] = []

    def python(self, code: str) -> str:
        """Run Python code and return what it prints, and the value of its last line. Variables are kept between calls.

        Args:
            code: The code to run.
        """
        source = SESSION.format(earlier=self._cells, last=code, most=MOST_OUTPUT, end=END)
        program = Program(source=source, stdin_tests=[("", "")], cpu_seconds=CPU_SECONDS, wall_seconds=WALL_SECONDS)
        [verdict] = open_sandbox().run([program])
        [outcome] = verdict.tests
        if verdict.pass_ratio is None:
            raise SandboxUnavailable(f"the sandbox failed: {outcome.detail}")
        printed = ADDRESS.sub("0x…", verdict.stdout.removesuffix(END) + verdict.stderr)
        raised = outcome.verdict in ("runtime_error", "syntax_error")
        if raised or verdict.stdout.endswith(END):
            self._cells.append(code)
        else:
            printed += f"\n{outcome.detail if outcome.verdict in LIMITS else 'the process ended'}; the code is undone"
        if raised or not verdict.stdout.endswith(END):
            raise ToolError(printed.strip())
        return printed


END = "\x04"
"""Ends the output of code that ran to its end."""
MOST_OUTPUT = 60_000
"""Bytes of what a cell prints that are kept: the sandbox takes 64 KiB."""
ADDRESS = re.compile(r"\b0x[0-9a-f]{6,}")
"""Of an object in memory: another one whenever the same code runs."""
LIMITS = ("timeout", "memory", "output_limit")
SESSION = """
import ast, contextlib, io
space = {{"__name__": "__main__"}}
def run(name, text):
    tree = ast.parse(text, name)
    last = ast.Expression(tree.body.pop().value) if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, name, "exec"), space)
    value = eval(compile(last, name, "eval"), space) if last is not None else None
    if value is not None:
        print(repr(value))
for text in {earlier!r}:
    with contextlib.suppress(BaseException), contextlib.redirect_stdout(io.StringIO()):
        with contextlib.redirect_stderr(io.StringIO()):
            run("<earlier code>", text)
printed = io.StringIO()
try:
    with contextlib.redirect_stdout(printed):
        run("<code>", {last!r})
finally:
    text = printed.getvalue().encode(errors="backslashreplace")
    print(text[:{most}].decode(errors="ignore"), end="", flush=True)
print({end!r}, end="")
"""


@functools.cache
def open_sandbox() -> SandboxPool:
    """This process's sandbox. Raises SandboxUnavailable, with the remedy."""
    return SandboxPool(num_workers=1)


BUILT_IN: Mapping[str, Callable[[], Tool]] = {
    "calculator": lambda: calculator,
    "python": lambda: PythonSession().python,
    "submit": lambda: submit,
}
"""What makes the tool of an episode."""


def make_tools(config: EnvironmentConfig) -> dict[str, Tool]:
    """The tools that a configuration names, for one episode. Raises ConfigError in one line."""
    made: dict[str, Tool] = {}
    for name in config.tools:
        if name in BUILT_IN:
            tool = BUILT_IN[name]()
        elif ".py:" in name:
            tool = load_reference(name)
        else:
            raise ConfigError(
                f"environment.tools: {name!r} is unknown ({nearest(name, BUILT_IN)}), nor path/to/file.py:function"
            )
        if not callable(tool) or isinstance(tool, type):
            raise ConfigError(f"environment.tools: {name} is not a function")
        if tool.__name__ in made:
            raise ConfigError(f"environment.tools: two tools are called {tool.__name__!r}")
        made[tool.__name__] = tool
    if not made:
        raise ConfigError("environment.tools is empty: name what the model may call")
    check_tools(made, config)
    return made


def check_tools(tools: Mapping[str, Tool], config: EnvironmentConfig) -> None:
    """Raises ConfigError if a response cannot call these tools."""
    for name, tool in tools.items():
        if inspect.iscoroutinefunction(tool):
            raise ConfigError(f"the tool {name} is async, which is not supported")
    if "python" in config.tools and config.timeout < 2.5 * WALL_SECONDS:  # the sandbox may try twice
        raise ConfigError(f"environment.timeout must be at least {2.5 * WALL_SECONDS:g} s with the tool python")
    if config.call_format == "python" and set(tools) != {"python"}:
        raise ConfigError(f"environment.call_format=python calls the tool python alone (there are: {', '.join(tools)})")


def describe_tools(tools: Mapping[str, Tool]) -> list[dict[str, Any]]:
    """JSON schemas of tools, as chat templates take them. Raises ConfigError in one line."""
    from transformers.utils import get_json_schema  # seconds, which the environments' processes do not need

    schemas = []
    for name, tool in tools.items():
        try:
            schemas.append(get_json_schema(tool))
        except Exception as error:
            raise ConfigError(f"the tool {name}: {' '.join(str(error).split())}") from error
    return schemas


def answer_calls(response: str, tools: Mapping[str, Tool], config: EnvironmentConfig) -> Reply:
    """The results of a response's calls, one text each, and how many there were of each tool.

    A response without a call ends the episode, as does one that submits an answer.
    """
    calls = parse_calls(response, config.call_format)
    texts: list[str] = []
    counts: Counter[str] = Counter()
    for call in calls[: config.max_calls]:
        name = call.name if isinstance(call, Call) and call.name in tools else ""
        if name:
            counts[f"calls/{name}"] += 1
        try:
            texts.append(_result(call, tools))
        except ToolError as error:
            counts[f"errors/{name or 'malformed'}"] += 1
            texts.append(f"Error: {error}")
        except Submitted as answer:
            return Reply(done=True, metrics=counts, answer=str(answer))
    if more := len(calls) - len(texts):
        counts["errors/unanswered"] = more
        texts.append(f"Error: {more} more calls were not answered: at most {config.max_calls} in a message")
    return Reply(tuple(texts), done=not calls, metrics=counts)


def _result(call: Call | Malformed, tools: Mapping[str, Tool]) -> str:
    """What a call returns, as text. Raises ToolError, Submitted, and what is not the call's fault."""
    if isinstance(call, Malformed):
        raise ToolError(call.why)
    if call.name not in tools:
        raise ToolError(f"there is no tool {call.name[:40]!r} (known: {', '.join(tools)})")
    try:
        result = plain(validate_call(tools[call.name])(**call.arguments))
    except ValidationError as error:
        problem = error.errors(include_url=False)[0]
        where = ".".join(map(str, problem["loc"]))
        raise ToolError(f"{call.name}: {where[:40]}: {problem['msg']}") from error
    except (ToolError, Submitted, SandboxUnavailable, ConnectionError, TimeoutError):
        raise
    except Exception as error:
        raise ToolError(f"{type(error).__name__}: {' '.join(str(error).split())}") from error
    return "" if result is None else result if isinstance(result, str) else json.dumps(result, ensure_ascii=False)
