"""After which commit a run goes on.

Not covered: rebuilding its weights (ares/workers).
"""

from ares.config import Config
from ares.store import Commit, Ref, RunStore
from ares.workers import first_unreplayable


def resumed_commit(config: Config, store: RunStore) -> Commit | None:
    """The newest commit whose partial responses are intact and whose weights, and older ones still needed, can be
    rebuilt; None: no step is finished."""
    commit = store.last_commit()
    while commit is not None and (damaged := _first_damaged(config, store, commit)) is not None:
        commit = store.read_commit(damaged - 1)
    return commit


def _first_damaged(config: Config, store: RunStore, last: Commit) -> int | None:
    """The first step whose batch is damaged or missing and needed to rebuild a policy; the last step if its partial
    responses are damaged; None if nothing is."""
    oldest = sampled_version(config, last.step + 1)
    found = (first_unreplayable(store, version) for version in range(oldest, last.step + 1))
    if (damaged := next((step for step in found if step is not None), None)) is not None:
        return damaged
    return None if store.intact(under_way(last)) else last.step


def under_way(commit: Commit) -> list[Ref]:
    """The partial responses that a step left to be continued (rollout.parts), shard by shard."""
    return [commit.artifacts[name] for name in sorted(commit.artifacts) if name.startswith("under-way-")]


def sampled_version(config: Config, step: int) -> int:
    """Version of the policy that a step's first responses are drawn from."""
    return max(step - 1 - config.rollout.max_staleness, 0)
