import numpy as np

from algorithms.kl import BatchKL
from ares.config import Strict


class Warmup:
    """A coefficient that rises to its value over the first batches."""

    class Settings(Strict):
        coef: float = 0.01
        batches: int = 10

    def __init__(self, settings: Settings) -> None:
        self.settings, self.seen = settings, 0

    @property
    def coefficient(self) -> float:
        return self.settings.coef * min(1.0, self.seen / self.settings.batches)

    def coefficients(self, difficulty: np.ndarray) -> np.ndarray:
        return np.full(len(difficulty), self.coefficient)

    def update(self, seen: BatchKL) -> None:
        self.seen += 1

    def metrics(self) -> dict[str, float]:
        return {"critic/kl_coef": self.coefficient}

    def state_dict(self) -> dict[str, int]:
        return {"seen": self.seen}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.seen = state["seen"]
