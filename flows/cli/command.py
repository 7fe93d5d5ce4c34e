"""Runs a command's flow: connects it to a server, and reports in one line when it did not finish.

Covered: interruption, a Prefect server that is lost. Not covered: what a flow raises itself (flows/cli/main.py
reports it).
"""

import logging
from collections.abc import Callable, Coroutine, Iterable, Sequence
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from ares.errors import UserError
from ares.printable import printable
from flows.cli.completion import run_names, settings

Prepared = tuple[Path, Callable[[], Coroutine[Any, Any, dict[str, Any]]]]
"""The folder of a command that runs in a flow, and its work."""
# Rich would make a picture of the `:100:` in `rows.jsonl:100: not JSON`.
console = Console(highlight=False, soft_wrap=True, emoji=False, markup=False)
errors = Console(stderr=True, highlight=False, soft_wrap=True, emoji=False, markup=False)

RunName = Annotated[str, typer.Argument(help="Name of a run.", autocompletion=run_names)]
RunNames = Annotated[list[str] | None, typer.Argument(help="Names of runs; default: all.", autocompletion=run_names)]
Overrides = Annotated[
    list[str] | None,
    typer.Argument(
        help="Dotted settings, as algorithm.kl.kind=token_adaptive train.steps=40 (`ares settings` lists them).",
        autocompletion=settings,
    ),
]


def next_step(command: str) -> None:
    """The last line of a successful command: what to do next."""
    console.print(f"next: {command}", style="dim")


def show_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[str]], style: str = "bold") -> None:
    """Print a table below its title."""
    from rich import box
    from rich.table import Column, Table
    from rich.text import Text

    table = Table(*(Column(name, overflow="fold") for name in columns), box=box.SIMPLE)
    for row in rows:
        table.add_row(*(Text(printable(cell)) for cell in row))
    console.print(title, style=style)
    console.print(table)


def write_new(path: Path, text: str) -> None:
    """Write a file that is not there yet; half of one, which would be in the way, is deleted. Raises UserError."""
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError as error:
        raise UserError(f"{path} is there already") from error
    except OSError as error:
        with suppress(OSError):
            path.unlink()
        raise UserError(f"{path} cannot be written: {error.strerror}") from error


class ServerLost(UserError, RuntimeError):
    """Prefect's server went away for good. Whoever reports it exits without Prefect's shutdown.

    That would spend seconds on each event that Prefect still wants to deliver.
    """


def run_to_its_end(kind: str, prepare: Callable[[], Prepared], kept: str) -> dict[str, Any]:
    """Do the work of a command in a flow run. Interrupted, it ends with exit code 130; `kept` says where it resumes.

    prepare: reads and checks what the command is given. The folder gives the flow run its name, and keeps its log.
    Raises ServerLost, and what `prepare` and the work raise.
    """
    from flows.servers.local_server import local_api

    with local_api() as server:  # it starts while libraries load and input is read
        import asyncio

        import httpx
        from prefect.exceptions import Pause, TerminationSignal

        from flows.cli.logs import keep_in
        from flows.run_log import run_in_flow

        folder, work = prepare()
        keep_in(folder)
        with server.connected() if server else nullcontext():
            # The command reports an error once; Prefect's own records of it go where all logs go.
            for name in ("prefect.flow_runs", "prefect.task_runs"):
                logging.getLogger(name).handlers.clear()
            try:
                return asyncio.run(run_in_flow(kind, folder.name, work))
            except (KeyboardInterrupt, TerminationSignal, SystemExit):  # Prefect turns SIGTERM into one of the last two
                errors.print(f"stopped; {kept}")
                raise typer.Exit(130) from None
            except Pause as paused:
                errors.print(str(paused) or f"suspended; {kept}")
                raise typer.Exit(2) from None
            except httpx.TransportError as error:
                reason = str(error) or type(error).__name__  # a timeout has no text
                told = f"Prefect's server is away ({reason}), it does not know how this ended; {kept}"
                raise ServerLost(told) from error
