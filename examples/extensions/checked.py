r"""An environment of TRL's shape, whose methods are tools: a calculator that must be asked for the row's answer.

ares train tiny-tool environment.kind=examples/extensions/checked.py:Checked environment.tools=[] \
    reward.kind=environment --run checked
"""

from typing import Any

from ares.environments import evaluate


class Checked:
    """An episode."""

    def reset(self, **row: Any) -> None:
        """Begin with a row, which needs a column `answer`."""
        self.answer, self.result = str(row["answer"]), ""

    def calculator(self, expression: str) -> str:
        """Calculate the value of an arithmetic expression.

        Args:
            expression: Numbers and operators.
        """
        self.result = evaluate(expression)
        return self.result

    def get_reward(self) -> float:
        """1 if the last result is the answer."""
        return float(self.result == self.answer)
