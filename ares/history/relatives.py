"""A run and its relatives: who was forked from whom, with which other settings, and how each ended.

Covered: every run in the same folder that shares a past with it. Not covered: where two runs first differ in results
(ares/runs/verification.py), what they are worth (ares/ablations).
"""

from dataclasses import dataclass, field
from pathlib import Path

from ares.config import differences
from ares.errors import UserError
from ares.store import Fork, RunStore, StoreError, read_config, run_status, run_store, runs_in


@dataclass
class Member:
    """A run of a family."""

    name: str
    fork: Fork | None = None
    """Where it left its parent; None: it began with a bootstrap of its own."""
    settings: list[str] = field(default_factory=list)
    """What it changes of its parent's settings, as `field: before → after`."""
    events: list[str] = field(default_factory=list)
    """Resumes and pauses, in order."""
    ended: str = ""
    """How it stands: "finished at step 60, held-out .785 at step 60", or what is missing."""
    children: list["Member"] = field(default_factory=list)


def family(name: str, runs: Path) -> Member:
    """The oldest ancestor that is still there, with all its descendants. Raises StoreError if there is no such run."""
    run_store(name, runs).read_run()
    forks: dict[str, Fork | None] = {}
    for store in runs_in(runs):
        try:
            forks[store.name] = store.fork()
        except StoreError:  # damaged: a relative only if a fork names it
            forks[store.name] = None
    oldest, seen = name, {name}
    while (fork := forks.get(oldest)) is not None and fork.run not in seen:  # a fork may have its grandparent's name
        oldest = fork.run
        seen.add(oldest)
    return _member(oldest, None, forks, runs, frozenset())


def _member(
    name: str, parent: RunStore | None, forks: dict[str, Fork | None], runs: Path, above: frozenset[str]
) -> Member:
    store, fork = RunStore(runs / name), forks.get(name)
    member = Member(name, fork)
    if name not in forks:
        member.ended = "deleted: what its forks share is still there, how they differ from it is not known"
    else:
        try:
            is_rewound = any(of is not None and of.run == name and of.why for of in forks.values())
            member.ended, member.events = _ended(store, is_rewound), _events(store)
            if parent is not None:
                member.settings = differences(read_config(parent), read_config(store))
        except UserError as error:  # damaged, or with settings of another version
            member.ended = f"cannot be read: {error}"
    here = store if name in forks else None
    above |= {name}
    below = [(of.version, each) for each, of in forks.items() if of is not None and of.run == name]
    member.children = [_member(each, here, forks, runs, above) for _, each in sorted(below) if each not in above]
    return member


def _ended(store: RunStore, is_rewound: bool) -> str:
    """State, last step, last held-out accuracy."""
    status = run_status(store.name, store.directory.parent)
    if is_rewound and status["state"] in ("paused", "stopped"):
        status["state"] = "rewound"
    told = f"{status['state']} at step {status['step']}"
    told += "" if status["state"] == "finished" else f" of {status['steps']}"
    if status["evaluations"]:
        last = status["evaluations"][-1]
        told += f", held-out {last['accuracy']:.3f} at step {last['step']}"
    return told


def _events(store: RunStore) -> list[str]:
    """What run.json says of resumes and pauses; earlier versions noted only resumes that change rounding."""
    described = store.read_run()
    told = [
        (each["after_step"] or 0, f"went on after step {each['after_step'] or 0} with {', '.join(each['settings'])}")
        for each in described.get("changes", [])
    ]
    told += [(each["after_step"], f"resumed after step {each['after_step']}, {each['time'][:16].replace('T', ' ')}")
             for each in described.get("resumes", [])]  # fmt: skip
    told += [(each["step"], f"paused after step {each['step']}: {each['why']}") for each in described.get("pauses", [])]
    return [text for _, text in sorted(told, key=lambda each: each[0])]
