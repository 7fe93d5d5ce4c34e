"""pass@k: the probability that at least one of k samples is correct, and a confidence interval.

The unbiased estimator of Chen et al. 2021 ("Evaluating Large Language Models Trained on Code", eq. 1), and an interval
for its mean over problems.
"""

import numpy as np

_CHUNK = 1 << 22


def pass_at_k(samples: np.ndarray, correct: np.ndarray, k: int) -> np.ndarray:
    """1 − C(n−c, k) / C(n, k) of each problem, as the stable product 1 − Π_{i=n−c+1}^{n} (1 − k/i).

    samples (n), correct (c): [P] integers. Returns [P] float64 in [0, 1]. Raises ValueError unless 0 ≤ c ≤ n and
    1 ≤ k ≤ n for every problem.
    """
    n, c = np.asarray(samples), np.asarray(correct)
    if k < 1 or (n < k).any():
        raise ValueError(f"pass@{k} needs at least {max(k, 1)} samples of every problem")
    if ((c < 0) | (c > n)).any():
        raise ValueError("a problem has fewer samples than correct ones")
    if not n.size:
        return np.zeros(0)
    i = np.arange(1, n.max() + 1)
    # If n − c < k, every choice of k contains a correct sample, and a factor would be zero or negative.
    taken = (i > (n - c)[:, None]) & (i <= n[:, None]) & (n - c >= k)[:, None]
    return np.where(n - c < k, 1.0, 1.0 - np.prod(np.where(taken, 1.0 - k / i, 1.0), axis=1))


def mean_interval(
    values: np.ndarray, seed: int, confidence: float = 0.95, resamples: int = 2000
) -> tuple[float, float]:
    """Confidence interval for the mean of per-problem values in [0, 1]: the percentile bootstrap over problems.

    values: [P]. It accounts for the choice of problems and, through their values, for sampling. If all values are 0 or
    all are 1, resampling shows no spread, and it is the exact binomial interval over problems (Clopper and Pearson
    1934). Draws depend on `seed` alone. Raises ValueError for no values.
    """
    values = np.asarray(values, dtype=np.float64)
    if not values.size:
        raise ValueError("an interval needs at least one value")
    tail = (1 - confidence) / 2
    if (values == 1).all():
        return tail ** (1 / len(values)), 1.0
    if (values == 0).all():
        return 0.0, 1 - tail ** (1 / len(values))
    generator = np.random.default_rng(seed)
    rows = max(1, _CHUNK // len(values))
    means = [
        values[generator.integers(len(values), size=(min(rows, resamples - start), len(values)))].mean(axis=1)
        for start in range(0, resamples, rows)
    ]
    low, high = np.quantile(np.concatenate(means), [tail, 1 - tail])
    return float(low), float(high)
