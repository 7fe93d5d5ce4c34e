"""Engines: sample responses from the policy, one module per engine behind one interface.

Not covered: which prompts are sampled, what is done with the responses.
"""

from ares.engines.diffusion import DiffusionEngine
from ares.engines.engine import (
    ALIGNED,
    Completion,
    Engine,
    Request,
    SamplingSettings,
    end_token_ids,
    left_padded,
    padding_id,
    view_as_tensors,
)
from ares.engines.responses import opened_texts, response_texts
from ares.engines.stop_strings import until_stop
from ares.engines.transformers import TransformersEngine
from ares.engines.vllm import VllmEngine
