"""`ares settings` and `ares new`: what can be set, as a list and as a profile to edit."""

import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ares.errors import UserError
from flows.cli.command import console, next_step, write_new
from flows.cli.completion import profile_names, settings

if TYPE_CHECKING:
    from ares.config import Section


def list_settings(
    prefix: Annotated[str, typer.Argument(help="Settings that begin so; default: all.", autocompletion=settings)] = "",
) -> None:
    """Every setting with its default, what it may be and what it means."""
    from ares.config import defaults, sections

    start = prefix.removesuffix("=")  # as completion offers it
    chosen = [(section, rows) for section in sections(defaults()) if (rows := _named(section, start))]
    if not chosen:
        raise UserError(f"no setting begins with {prefix!r}")
    for section, rows in chosen:
        _show(section, rows)


def new(
    name: Annotated[str, typer.Argument(help="Name of the profile: NAME.yaml is written here.")],
    source: Annotated[
        str, typer.Option("--from", help="A profile's name or path, whose values it has.", autocompletion=profile_names)
    ],
) -> None:
    """Write a profile of your own: every setting with its meaning, and the values of another profile."""
    from ares.config import commented, load
    from ares.store import RULE, is_name

    if not is_name(name):
        raise UserError(f"{name!a} cannot be the name of a profile: {RULE}")
    path = Path(f"{name}.yaml")
    text = f"# {name}: every setting, with the values of {source}.\n{commented(load(source))}"
    write_new(path, text)
    console.print(f"{path}: {len(text.splitlines())} lines")
    next_step(f"ares train {path}")


def _named(section: "Section", prefix: str) -> dict[str, Any]:
    """The settings of a section whose dotted names begin so."""
    names = {f"{section.name}.{setting.name}": setting for setting in section.settings}
    return {name: setting for name, setting in names.items() if name.startswith(prefix)}


def _show(section: "Section", rows: dict[str, Any]) -> None:
    console.print(f"\n{section.name}", style="bold", end="  ")
    console.print(section.meaning, style="dim")
    values = {name: "required" if setting.required else setting.text for name, setting in rows.items()}
    first, second = max(map(len, rows)), min(max(map(len, values.values())), 24)
    for name, setting in rows.items():
        console.print(f"  {name:{first}s}  {values[name]:{second}s}  {setting.allowed}")
        for line in textwrap.wrap(setting.meaning, max(40, min(console.width, 120) - 6)):
            console.print(f"      {line}", style="dim")
