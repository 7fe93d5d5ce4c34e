"""The command `ares`.

Covered: train, sft, resume, status, inspect, doctor, profiles. Added from the modules beside this one:
settings and new, ablate and report, eval, fork, diff and gc, export and import, data, sandbox, up and down. What only
one command needs is imported by it, so that `ares --help` and completion answer at once. A known error meets the user
here, once, without a trace.
"""

import json
import logging
import os
import sys
from functools import partial
from itertools import takewhile
from typing import TYPE_CHECKING, Annotated

import typer

from ares.errors import UserError
from flows.cli import ablate as ablate_cli
from flows.cli import history as history_cli
from flows.cli import runs as runs_cli
from flows.cli import settings as settings_cli
from flows.cli.command import Overrides, Prepared, RunName, ServerLost, console, errors, next_step, run_to_its_end
from flows.cli.completion import profile_names, run_names
from flows.cli.data import app as data_app
from flows.cli.evaluate import evaluate
from flows.cli.logs import keep_in, kept_file, set_up
from flows.cli.sandbox import app as sandbox_app
from flows.cli.serve import serve
from flows.cli.services import down, up
from flows.run_log import is_json

if TYPE_CHECKING:
    from ares.config import Config

logger = logging.getLogger(__name__)
Plain = Annotated[
    bool, typer.Option("--plain", help="In this process alone, without Prefect, Ray and MLflow; the same results.")
]
Profile = Annotated[
    str, typer.Argument(help="A profile's name or the path of a YAML file.", autocompletion=profile_names)
]
RunOption = Annotated[
    str | None, typer.Option("--run", help="Name of the run. An existing run is resumed.", autocompletion=run_names)
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Print the resolved profile and stop.")]
NOT_PLAIN = ("prefect", "ray", "mlflow")
"""Packages that a machine for plain runs may do without."""
app = typer.Typer(no_args_is_help=True, pretty_exceptions_enable=False)
app.add_typer(sandbox_app, name="sandbox")
app.add_typer(data_app, name="data")
for command in (
    *(settings_cli.new, ablate_cli.ablate, ablate_cli.report, serve, up, down),
    *(history_cli.browse, history_cli.history, history_cli.rescore, history_cli.replay, history_cli.bisect),
    *(runs_cli.fork, runs_cli.diff, runs_cli.verify, runs_cli.export, runs_cli.gc),
):
    app.command()(command)
app.command("settings")(settings_cli.list_settings)
app.command("eval")(evaluate)
app.command("import")(runs_cli.import_gguf)


@app.callback()
def ares(
    verbose: Annotated[
        bool, typer.Option("-v", help="Show what Ray, Prefect, MLflow and other libraries log (anywhere in a command).")
    ] = False,
) -> None:
    """RL post-training of reasoning and code LLMs as a resumable, per-step DAG."""


@app.command()
def train(
    profile: Profile, overrides: Overrides = None, run: RunOption = None, plain: Plain = False, dry_run: DryRun = False
) -> None:
    """Train a profile, or resume a run that was started with it."""
    from ares.config import fingerprint, load

    config = load(profile, overrides)
    if dry_run:
        import yaml

        text = yaml.safe_dump(config.model_dump(mode="json"), sort_keys=False, allow_unicode=True)
        console.print(f"# fingerprint {fingerprint(config)}\n{text}", end="")
        return
    _train(profile, overrides or [], run, plain, config)


@app.command()
def sft(
    profile: Profile, overrides: Overrides = None, run: RunOption = None, plain: Plain = False, dry_run: DryRun = False
) -> None:
    """Fine-tune on demonstrations: data.train holds chats, whose assistant's messages are learnt (algorithm=sft)."""
    train(profile, ["algorithm=sft", *(overrides or [])], run, plain, dry_run)


@app.command()
def resume(
    run: RunName,
    overrides: Overrides = None,
    plain: Plain = False,
) -> None:
    """Resume a run with the settings it was started with (train.steps=… makes it longer).

    Settings that change rounding alone may be changed, such as learner.micro_batch_tokens after running out of memory.
    """
    _train(None, overrides or [], run, plain)


@app.command()
def status(
    run: Annotated[
        str | None, typer.Argument(help="Name of a run; without it, all are listed.", autocompletion=run_names)
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a run.")] = False,
) -> None:
    """Where a run stands, or all runs."""
    from ares.store import StoreError, run_status, runs_directory, runs_in

    if run is None:
        for store in runs_in(runs_directory()):
            try:
                each = run_status(store.name)
            except StoreError as error:  # a damaged one hides no other
                errors.print(f"{store.name}: {error}")
                continue
            line = f"{each['run']}  {each['state']}  step {each['step']} of {each['steps']}"
            sys.stdout.write(f"{json.dumps(each) if as_json else line}\n")
        return
    now = run_status(run)
    if as_json:
        sys.stdout.write(json.dumps(now) + "\n")
        return
    console.print(now["run"], style="bold", end="  ")
    console.print(f"{now['state']}  step {now['step']} of {now['steps']}")
    for evaluation in now["evaluations"]:
        console.print(
            f"  step {evaluation['step']:5d}  held-out accuracy {evaluation['accuracy']:.3f}  "
            f"mean length {evaluation['mean_length']:.1f}",
        )
    for bucket, values in now["buckets"].items():
        console.print(f"  {bucket:7s} " + "  ".join(f"{k} {v:<7.4g}" for k, v in values.items()).rstrip())
    if now["state"] != "running":
        next_step(f"ares {'eval' if now['state'] == 'finished' else 'resume'} {run}")


@app.command()
def inspect(
    run: RunName,
    step: Annotated[int, typer.Option(help="Step; 0 is the bootstrap.")],
    problem: Annotated[
        str | None, typer.Option("--id", help="Problem; without it the step's samples are listed.")
    ] = None,
    sample: Annotated[int, typer.Option(help="Sample number within the problem.")] = 0,
) -> None:
    """One sample with every part of its reward, or the list of a step's samples."""
    from ares.reports import sample_report, samples_table

    if problem is None:
        console.print(samples_table(run, step), width=None if console.is_terminal else 1000)
        next_step(f"ares inspect {run} --step {step} --id ID --sample K")
    else:
        console.print(sample_report(run, step, problem, sample))


@app.command()
def doctor(
    profile: Annotated[
        str | None,
        typer.Argument(help="A profile: which engine it gets here, and why.", autocompletion=profile_names),
    ] = None,
    overrides: Overrides = None,
) -> None:
    """What is installed, which engine and isolation this machine gives, its GPU and disk."""
    from ares.config import load
    from ares.runs import findings

    problems = 0
    for finding in findings(load(profile, overrides) if profile else None):
        problems += not finding.good
        console.print("ok " if finding.good else "!! ", style="green" if finding.good else "red", end=" ")
        console.print(f"{finding.subject:14s} {finding.text}")
    raise typer.Exit(1 if problems else 0)


@app.command()
def profiles() -> None:
    """The shipped profiles, and presets of their section `algorithm`."""
    from ares.config import PROFILES, profile_names

    files = {name: PROFILES / f"{name}.yaml" for name in profile_names()}
    files |= {f"algorithm={path.stem}": path for path in sorted((PROFILES / "algorithms").glob("*.yaml"))}
    column = max(map(len, files))
    for name, path in files.items():
        lines = path.read_text().splitlines()
        comment = " ".join(line.lstrip("# ") for line in takewhile(lambda line: line.startswith("#"), lines))
        console.print(f"{name:{column}s}", style="bold", end="  ")
        console.print(f"{comment.partition('. ')[0].rstrip('.')}.")
    next_step("ares train NAME, or ares new MINE --from NAME")


def _train(
    profile: str | None, overrides: list[str], run: str | None, plain: bool, config: "Config | None" = None
) -> None:
    resumes = "the same command resumes from the last commit"
    if plain:
        from flows.start import open_run, train_plainly

        opened = open_run(profile, overrides, run, config=config)
        keep_in(opened.store.directory)
        try:
            ended = train_plainly(opened)
        except KeyboardInterrupt:
            errors.print(f"stopped; {resumes}")
            raise typer.Exit(130) from None
    else:

        def begin() -> Prepared:
            from ares.cluster import Cluster, check_cluster
            from flows.start import conduct, open_run

            # Wrong input is found here, before Ray or MLflow are started; the flow takes the opened run.
            check_cluster()
            opened = open_run(profile, overrides, run, Cluster, config)
            return opened.store.directory, partial(conduct, opened)

        ended = run_to_its_end("ares-train", begin, resumes)
    held_out = f"ares eval {ended['run']}, or " if ended["evaluations"] else ""
    next_step(f"{held_out}ares inspect {ended['run']} --step 1")


def main() -> None:
    """Entry point: an error whose message is written for the user is printed and ends with exit code 2."""
    sys.argv[1:] = sorted(sys.argv[1:], key=lambda word: word != "-v")  # it may stand anywhere
    console.quiet = errors.quiet = is_json()
    set_up("-v" in sys.argv)
    try:
        app()
    except Exception as error:
        from sandbox import SandboxUnavailable

        lacking = str(getattr(error, "name", "")).partition(".")[0]
        if isinstance(error, ModuleNotFoundError) and lacking in NOT_PLAIN:
            error = UserError(
                f"this needs {lacking}, which is not installed; with --plain, train and resume do without"
            )
        if not isinstance(error, UserError | SandboxUnavailable):
            raise
        errors.print("error:", style="red", end=" ")
        more = "" if (kept := kept_file()) is None else f" (more: {kept})"
        errors.print(f"{error}{more}")
        if is_json():
            logger.error("%s%s", error, more)
        if isinstance(error, ServerLost):
            sys.stderr.flush()
            os._exit(2)
        raise SystemExit(2) from None
