"""`ares browse`: a local page over the steps of runs."""

from pathlib import Path
from typing import Annotated

import typer

from flows.cli.command import RunNames, console


def browse(
    runs: RunNames = None,
    out: Annotated[Path | None, typer.Option(help="Write the page as a folder, new or empty, and stop.")] = None,
    port: Annotated[int, typer.Option(min=0, help="0: any that is free.")] = 0,
) -> None:
    """A page over all steps of runs: their tree, curves, samples and tokens. It is served to this machine alone."""
    from ares.browse import serve, write_folder
    from ares.store import run_store, runs_directory, runs_in

    stores = [run_store(name) for name in runs] if runs else runs_in(runs_directory())
    for store in stores if runs else ():
        store.read_run()
    if out is not None:
        write_folder(stores, out, lambda line: console.print(line, style="dim"))
        console.print(f"{out / 'index.html'}: open it in a browser")
        return
    serve(stores, port, lambda address: console.print(f"{address} (Ctrl-C ends it)"))
