import json

from ares.reports import Tracker


class Lines(Tracker):
    """A JSON line for each step, in the run directory."""

    def catch_up(self) -> None:
        commits = map(self.store.read_commit, self.store.committed_steps())
        lines = [json.dumps({"step": commit.step} | commit.metrics) for commit in commits]
        (self.store.directory / "metrics.jsonl").write_text("".join(line + "\n" for line in lines))
