"""Learner and engine of a run: one interface, brought to the policy version that a phase asks for.

Covered: versions and replay; the plain implementation in this process; GPUs that a run needs. Not covered: what learner
and engine compute (ares/learner, ares/engines); Ray's actors, the other implementation (ares/cluster).
"""

from typing import TYPE_CHECKING

from ares.lazy import exports

if TYPE_CHECKING:
    from ares.workers.placement import bundles, check_engine, check_gpus, demand, runs_that_fit, uses_gpus
    from ares.workers.plain import PlainWorkers
    from ares.workers.replay import check_weights, first_unreplayable, latest_checkpoint, newest_checkpoint
    from ares.workers.services import EngineService, LearnerService
    from ares.workers.shared_weights import SharedWeights
    from ares.workers.workers import Workers
else:
    __getattr__ = exports(__name__)
