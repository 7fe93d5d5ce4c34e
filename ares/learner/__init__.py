"""The learner: log-probs before an update and the update itself, on one rank or several.

Plain torch and transformers, without Ray or Prefect. Not covered: the processes it runs in (ares/workers).
"""

from ares.learner.learner import Learner, UpdateResult
from ares.learner.ranks import Ranks
