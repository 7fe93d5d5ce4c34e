"""Pairs of a run's samples for preference learning: to one prompt a better and a worse response.

Not covered: learning from them (any trainer that reads prompt, chosen, rejected as TRL's DPOTrainer does); episodes,
whose responses hold what an environment said.
"""

from collections.abc import Iterator

from ares.history.measures import read_sampling_config
from ares.store import RunStore, StoreError

COLUMNS = ["slot", "id", "prompt", "response", "accuracy", "reward", "truncated"]


def pairs(store: RunStore) -> Iterator[dict[str, object]]:
    """One pair of each prompt of a trained group whose accuracies differ: prompt (as it was sampled from), chosen,
    rejected, id (the step, a number in it, and the problem's id, as a problem may be drawn again), step, and the two
    accuracies. Of equal accuracies the higher or lower reward counts; responses that were cut off, whose end nobody
    sampled, or have no reward are left out.

    Raises StoreError.
    """
    if read_sampling_config(store).environment is not None:
        raise StoreError(f"Run {store.name!r} has episodes: a response holds what its environment said, and is no pair")
    for step in store.committed_steps()[1:]:
        rows = store.read_rows(store.read_commit(step).artifacts["samples"])[COLUMNS]
        rows = rows[~rows["truncated"].astype(bool)].dropna(subset=["accuracy", "reward"])
        groups = rows.sort_values(["accuracy", "reward"], kind="stable").groupby(["slot", "prompt"])
        for number, (_, group) in enumerate(groups):
            worse, better = group.iloc[0], group.iloc[-1]
            if worse["accuracy"] < better["accuracy"]:
                yield {
                    "prompt": str(better["prompt"]), "chosen": str(better["response"]),
                    "rejected": str(worse["response"]), "id": f"{step}/{number}/{better['id']}", "step": step,
                    "accuracies": [float(better["accuracy"]), float(worse["accuracy"])],
                }  # fmt: skip
        store.forget(step)
