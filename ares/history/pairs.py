"""Pairs of a run's samples for preference learning: to one prompt a better and a worse response.

Not covered: learning from them (any trainer that reads prompt, chosen, rejected as TRL's DPOTrainer does); episodes,
whose responses hold what an environment said.
"""

from collections.abc import Iterator

from ares.history.measures import read_sampling_config
from ares.store import RunStore, StoreError

COLUMNS = ["slot", "id", "prompt", "response", "accuracy", "reward"]


def pairs(store: RunStore) -> Iterator[dict[str, object]]:
    """One pair of each prompt of a trained group whose accuracies differ: prompt (as it was sampled from), chosen,
    rejected, id, step, and the two accuracies. Of equal accuracies the higher or lower reward counts; responses without
    a reward, such as those that were cut off, are left out.

    Raises StoreError.
    """
    if read_sampling_config(store).environment is not None:
        raise StoreError(f"Run {store.name!r} has episodes: a response holds what its environment said, and is no pair")
    for step in store.committed_steps()[1:]:
        rows = store.read_rows(store.read_commit(step).artifacts["samples"])[COLUMNS]
        rows = rows.dropna(subset=["accuracy", "reward"])
        for _, group in rows.sort_values(["accuracy", "reward"], kind="stable").groupby(["slot", "prompt"]):
            worse, better = group.iloc[0], group.iloc[-1]
            if worse["accuracy"] < better["accuracy"]:
                yield {
                    "prompt": str(better["prompt"]), "chosen": str(better["response"]),
                    "rejected": str(worse["response"]), "id": str(better["id"]), "step": step,
                    "accuracies": [float(better["accuracy"]), float(worse["accuracy"])],
                }  # fmt: skip
        store.forget(step)
