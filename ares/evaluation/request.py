"""The request for an evaluation: the fields of `ares eval` and of the flow's form.

Covered: the fields, and which of them go together. Not covered: whether what they name exists
(ares/evaluation/evaluation.py).
"""

from pydantic import Field, model_validator

from ares.config import Strict
from ares.evaluation.suites import Form

DEFAULT_K = (1, 4, 8)


class EvaluationRequest(Strict):
    """What to evaluate, on what, how often."""

    target: str
    """Name of a run, or a model directory (or hub name)."""
    data: str | None = None
    """Problems: a file or a Hugging Face data set. None: the held-out set of the run or profile. With a suite: the file
    or folder that holds it."""
    suite: str | None = None
    """A published set of programming problems by its name, or a file or folder of one's own."""
    form: Form | None = None
    """How a suite asks. None: instruct where the tokenizer has a chat template, else completion."""
    n: int = Field(16, ge=1)
    """Samples per problem."""
    k: list[int] | None = Field(None, min_length=1)
    """pass@k for these k. None: those of 1, 4 and 8 that n allows."""
    step: int | None = Field(None, ge=0)
    """Of a run: the weights after this step. None: the newest checkpoint's."""
    turns: int = Field(1, ge=1, le=2)
    """2: a program that failed gets a second attempt, with its verdict in the prompt (docs/rewards.md#second-turns)."""
    greedy: bool = False
    """One answer to each problem, the most probable token each time; n does not count."""
    temperature: float | None = Field(None, gt=0)
    """Sampling temperature. None: validation.temperature."""
    max_problems: int | None = Field(None, ge=1)
    """The first so many problems; None: all."""
    profile: str = "base"
    """Settings for a model directory; a run has its own."""
    overrides: list[str] = Field(default_factory=list)
    """Dotted settings."""
    sanity: bool = False
    """Judge the reference solutions of a code set first, and score nothing where they fail."""
    compare: str | None = None
    """Another finished evaluation of the same problems: its folder."""

    @model_validator(mode="after")
    def _fields_fit(self) -> "EvaluationRequest":
        if any(not 1 <= k <= self.samples for k in self.k or []):
            raise ValueError(f"every k must be between 1 and the samples per problem ({self.samples}), not {self.k}")
        if self.form is not None and self.suite is None:
            raise ValueError("--form is how a suite asks: it needs --suite")
        return self

    @property
    def samples(self) -> int:
        """Samples per problem."""
        return 1 if self.greedy else self.n

    @property
    def ks(self) -> list[int]:
        """The k to report, ascending."""
        return sorted(set(self.k or [k for k in DEFAULT_K if k <= self.samples]))
