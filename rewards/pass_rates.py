"""Running pass rates of unit tests, and test weights derived from them (the dense_weighted reward)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from algorithms.groups import plain_ids
from algorithms.state import DeltaDict

# Rates are stored in ten-thousandths: at most five digits per test in a commit, and identical on every machine.
RESOLUTION = 10_000


def difficulty_weights(rates: ArrayLike, alpha: float) -> np.ndarray:
    """w_j = exp(−α·ρ_j)/Σ exp(−α·ρ): rarely passed tests weigh more, Σw = 1 (VeRPO's difficulty factor).

    rates: [T] in [0, 1]. With α = 0 all weights are equal. Returns float64 [T].
    """
    weights = np.exp(-alpha * np.asarray(rates, dtype=np.float64))
    return weights / weights.sum()


class RunningPassRates:
    """Pass rate of every test of every problem seen, as an exponential moving average over batches.

    ρ ← (1 − ema)·ρ + ema·(share of the problem's samples in the batch that pass the test); a problem's first batch sets
    its rates. `alpha` is the sharpness of the weights (`difficulty_weights`).
    """

    def __init__(self, alpha: float, ema: float) -> None:
        if not alpha >= 0:
            raise ValueError(f"alpha must be ≥ 0, got {alpha}")
        if not 0.0 < ema <= 1.0:
            raise ValueError(f"ema must lie in (0, 1], got {ema}")
        self.alpha = alpha
        self.ema = ema
        self._rates: DeltaDict[Any, np.ndarray] = DeltaDict()
        self._known = np.zeros(4, dtype=np.int64)
        """Sums of `_counts` over known problems, so that no step has to visit them all."""

    def update(
        self, problems: Sequence[Any] | np.ndarray, passed: Sequence[np.ndarray], scored: np.ndarray | None = None
    ) -> None:
        """Update from one batch: problem ids [B] (str or int), B arrays bool [T], and which rows count (None: all).

        Leave out truncated and unscored rows: their failures say nothing about the tests. Raises ValueError, without
        changing anything, if a problem's number of tests has changed.
        """
        rows: dict[Any, list[np.ndarray]] = {}
        for row, problem in enumerate(plain_ids(problems, "problem ids")):
            if scored is None or scored[row]:
                rows.setdefault(problem, []).append(np.asarray(passed[row], dtype=np.float64))
        for problem, outcomes in rows.items():
            self._check_size(problem, {len(outcome) for outcome in outcomes})
        for problem, outcomes in rows.items():
            shares = np.mean(outcomes, axis=0) * RESOLUTION
            before = self._rates.get(problem)
            mixed = shares if before is None else (1.0 - self.ema) * before + self.ema * shares
            self._rates[problem] = np.rint(mixed).astype(np.int64)

    def _check_size(self, problem: Any, sizes: set[int]) -> None:
        known = self._rates.get(problem)
        expected = sizes if known is None else sizes | {len(known)}
        if len(expected) > 1:
            raise ValueError(f"problem {problem!r}: its number of tests changes ({sorted(expected)})")

    def rates(self, problem: Any) -> np.ndarray | None:
        """Pass rates float64 [T] of a problem's tests; None for an unseen problem."""
        known = self._rates.get(plain_ids([problem], "problem ids")[0])
        return None if known is None else known / RESOLUTION

    def weights(self, problems: Sequence[Any] | np.ndarray, tests: Sequence[int] | np.ndarray) -> list[np.ndarray]:
        """Weights of each row's tests, Σ = 1: problem ids [B] and numbers of tests [B] → B arrays float64 [T].

        The tests of an unseen problem weigh the same. Raises ValueError if a problem's number of tests has changed.
        """
        weights_of: dict[tuple[Any, int], np.ndarray] = {}
        keys = list(zip(plain_ids(problems, "problem ids"), (int(count) for count in tests), strict=True))
        for problem, count in dict.fromkeys(keys):
            self._check_size(problem, {count})
            rates = self.rates(problem)
            weights_of[problem, count] = difficulty_weights(np.zeros(count) if rates is None else rates, self.alpha)
        return [weights_of[key] for key in keys]

    def metrics(self) -> dict[str, float]:
        """`code/tests/{problems,pass_rate,never_passed,always_passed}`: problems seen; the others over their tests."""
        values = {"code/tests/problems": float(len(self._rates))}
        tests, total, never, always = self._totals().tolist()
        if tests:
            values |= {
                "code/tests/pass_rate": total / tests / RESOLUTION,
                "code/tests/never_passed": never / tests,
                "code/tests/always_passed": always / tests,
            }
        return values

    def _totals(self) -> np.ndarray:
        """`_counts` over everything: [4] int64."""
        totals = self._known.copy()
        for problem, rates in self._rates.recent.items():
            totals += _counts(rates)
            if problem in self._rates.known:
                totals -= _counts(self._rates.known[problem])
        return totals

    def state_dict(self) -> dict[str, Any]:
        """State changed since `settle`, as JSON. Ids are list entries, so that integers stay integers."""
        return {
            "problems": list(self._rates.recent),
            "rates": [rates.tolist() for rates in self._rates.recent.values()],
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what `state_dict` returned as recent entries, beside those known before.

        Raises ValueError on other keys, a bad id, or a rate out of bounds.
        """
        if set(state) != {"problems", "rates"}:
            raise ValueError(f"pass-rate state must have the keys ['problems', 'rates'], got {sorted(state)}")
        problems = plain_ids(state["problems"], "problem ids")
        if len(problems) != len(state["rates"]):
            raise ValueError(f"pass-rate state: {len(problems)} problems but rates of {len(state['rates'])}")
        for problem, rates in zip(problems, state["rates"], strict=True):
            if not rates or not all(isinstance(rate, int) and 0 <= rate <= RESOLUTION for rate in rates):
                raise ValueError(f"pass-rate state: problem {problem!r} has {rates}; whole numbers, 0 to {RESOLUTION}")
        self._rates.recent = {p: np.array(r, dtype=np.int64) for p, r in zip(problems, state["rates"], strict=True)}

    def follow(self, before: RunningPassRates) -> None:
        """Share, not copy, another's per-problem state; it must have no recent entries."""
        self._rates.follow(before._rates)
        self._known = before._known

    def settle(self) -> None:
        """Mark recent entries as committed: they need not be written again."""
        self._known = self._totals()
        self._rates.settle()


def _counts(rates: np.ndarray) -> np.ndarray:
    """Number of tests, sum of their rates, number never and always passed: [4] int64."""
    return np.array([len(rates), rates.sum(), (rates == 0).sum(), (rates == RESOLUTION).sum()], dtype=np.int64)
