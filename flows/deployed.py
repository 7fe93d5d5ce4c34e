"""The deployed flows: their parameters, which are forms in the UI. Their bodies are imported when they run.

A worker imports the flow of a dead or cancelled run to look for hooks, and keeps what that imports: with torch,
transformers and Ray half a gigabyte. Not covered: the bodies (flows/train.py, flows/evaluate.py, flows/ablate.py,
ares/runs/retention.py).
"""

from typing import Any

from prefect import flow, runtime

from ares.evaluation import EvaluationRequest
from flows.parameters import RUNS_OWN, Profile, Settings, as_overrides, flow_run_title
from flows.run_log import run_log


@flow(name="ares-train", persist_result=False, flow_run_name=flow_run_title)
async def ares_train(
    profile: Profile = Profile(RUNS_OWN),  # noqa: B008 (the form refuses None for everything that may be left open)
    run: str = "",
    settings: Settings = Settings(),  # noqa: B008
    overrides: list[str] = [],  # noqa: B006 (it is never changed)
) -> dict[str, Any]:
    """Train a profile. A run that exists is resumed from its last commit, by Retry too.

    Args:
        profile: What is trained; "the run's own" resumes the run that `run` names.
        run: Name of the run; left open, the flow run's own name.
        settings: What differs from the profile. An open field has its value (the deployment's description lists them).
        overrides: What differs from the profile, dotted: train.steps=40
    """
    from ares.cluster import Cluster, check_cluster
    from flows.start import conduct, open_run

    resumes = profile == RUNS_OWN
    name = run or (None if resumes else flow_run_title())  # a run that begins is named after its flow run
    last = 0 if runtime.flow_run.flow_name == ares_bootstrap.name else None
    with run_log():
        check_cluster()
        changes = [*as_overrides(settings), *overrides]
        return await conduct(open_run(None if resumes else str(profile), changes, name, Cluster), last)


ares_bootstrap = ares_train.with_options(
    name="ares-bootstrap",
    description="Buckets, targets, τ and alpha of a run alone; `ares-train` with the same run name resumes it.",
)


@flow(name="ares-eval", persist_result=False, flow_run_name="evaluation of {request.target}")
async def ares_eval(request: EvaluationRequest) -> dict[str, Any]:
    """pass@k of a run or a model on problems; the same request resumes an interrupted one."""
    from ares.cluster import Cluster, check_cluster
    from ares.evaluation import Evaluation
    from flows.evaluate import conduct

    with run_log():
        check_cluster()
        return await conduct(Evaluation.open(request, Cluster))


@flow(name="ares-ablate", persist_result=False, flow_run_name="{ablation}")
async def ares_ablate(
    ablation: str, overrides: list[str] | None = None, name: str | None = None, parallel: int | None = None
) -> dict[str, Any]:
    """Train every child that is not finished, then write the report. Retry does no finished child again.

    Args:
        ablation: Its name (a file in profiles/ablations), or the path of its YAML file.
        overrides: Settings of every child, dotted: train.steps=40
        name: Another name for it, as other settings need.
        parallel: Children at a time; left open, as many as cores or the GPU allow.
    """
    from flows.ablate import prepare, run_ablation

    with run_log():
        return await run_ablation(prepare(ablation, overrides, name, parallel))


@flow(name="ares-gc", persist_result=False, flow_run_name="gc")
def ares_gc(
    older_than: float | None = None,
    max_size: float | None = None,
    keep_best: int = 0,
    working_files: bool = False,
) -> int:
    """Delete what is no longer needed. All left open, that is nothing.

    Args:
        older_than: Whole runs whose last step is so many days old.
        max_size: The oldest runs, until all take no more than so many GB.
        keep_best: But not so many runs with the highest held-out accuracies.
        working_files: What no run needs to resume; no fork starts before the oldest kept checkpoint then.
    """
    from ares.runs import Policy, collect

    with run_log():
        return collect(Policy(older_than, max_size, keep_best, working_files))
