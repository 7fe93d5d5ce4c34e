import json

from ares.reports import Tracker
from ares.store import Commit


class Lines(Tracker):
    """A JSON line for each step, in the run directory; the bootstrap's begins the file."""

    def log(self, commit: Commit) -> None:
        with (self.store.directory / "metrics.jsonl").open("a" if commit.step else "w") as file:
            file.write(json.dumps({"step": commit.step} | commit.metrics) + "\n")
