"""A small masked-diffusion language model with Dream's interface: a Qwen2 decoder with bidirectional attention.

This file is copied beside the weights, from where transformers loads it with `trust_remote_code`, as Dream's is. As
there, logit j − 1 predicts token j; the caller shifts. Not covered: denoising, caches.
"""

from typing import Any

import torch
from torch import Tensor, nn
from transformers import Qwen2Config, Qwen2ForCausalLM, Qwen2Model
from transformers.modeling_outputs import BaseModelOutput, MaskedLMOutput


class MaskedModelConfig(Qwen2Config):
    """Qwen2's fields and the mask token."""

    model_type = "ares_masked_lm"
    mask_token_id: int | None = None


class MaskedDecoder(Qwen2Model):
    """Every position attends to all that are not padding."""

    config_class = MaskedModelConfig

    def __init__(self, config: MaskedModelConfig) -> None:
        super().__init__(config)
        for layer in self.layers:
            layer.self_attn.is_causal = False

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | str | None = None,
        position_ids: Tensor | None = None,
        **kwargs: Any,
    ) -> BaseModelOutput:
        """Hidden states [B, N, H].

        input_ids, position_ids: [B, N]; attention_mask: None or "full" (no padding), or [B, 1, N, N], true where a
        position may attend.
        """
        mask = None
        if isinstance(attention_mask, Tensor):
            # A padded position that attends to nothing would be NaN: each attends to itself.
            own = torch.eye(attention_mask.shape[-1], dtype=torch.bool, device=attention_mask.device)
            mask = attention_mask.bool() | own
        kwargs["use_cache"] = False
        return super().forward(
            input_ids=input_ids, attention_mask={"full_attention": mask}, position_ids=position_ids, **kwargs
        )


class MaskedModel(Qwen2ForCausalLM):
    """The decoder and its head."""

    config_class = MaskedModelConfig

    def __init__(self, config: MaskedModelConfig) -> None:
        super(Qwen2ForCausalLM, self).__init__(config)
        self.model = MaskedDecoder(config)
        self.vocab_size = config.vocab_size
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        self.post_init()

    def forward(self, *inputs: Any, num_logits_to_keep: int = 0, **named: Any) -> MaskedLMOutput:
        """Logits of the last `num_logits_to_keep` positions (0: all); other arguments as the decoder's."""
        hidden = self.model(*inputs, **named).last_hidden_state
        return MaskedLMOutput(logits=self.lm_head(hidden[:, -num_logits_to_keep:]))


MaskedModelConfig.register_for_auto_class()
MaskedModel.register_for_auto_class("AutoModel")
