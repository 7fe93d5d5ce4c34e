"""A masked-diffusion model whose code lies beside its weights, with the interface of Dream's: attention_mask "full" or
[B, 1, N, N], num_logits_to_keep. Written apart from ares' own model."""

import torch
from torch import nn
from torch.nn import functional
from transformers import PreTrainedModel
from transformers.modeling_outputs import BaseModelOutput, MaskedLMOutput
from transformers.models.qwen2.modeling_qwen2 import Qwen2MLP, Qwen2RMSNorm

from .configuration_remote import RemoteConfig


class Attention(nn.Module):
    def __init__(self, config):
        super().__init__()
        size, self.heads = config.hidden_size, config.num_attention_heads
        self.q_proj, self.k_proj, self.v_proj = (nn.Linear(size, size) for _ in range(3))
        self.o_proj = nn.Linear(size, size, bias=False)
        self.theta = config.rope_parameters["rope_theta"]

    def forward(self, x, mask, positions):
        rows, length, size = x.shape
        width = size // self.heads
        q, k, v = (f(x).view(rows, length, self.heads, width).transpose(1, 2) for f in
                   (self.q_proj, self.k_proj, self.v_proj))  # fmt: skip
        rates = self.theta ** -(torch.arange(0, width, 2, device=x.device) / width)
        angle = (positions[..., None] * rates).repeat(1, 1, 2)[:, None]

        def turned(y):
            one, two = y.chunk(2, -1)
            return y * angle.cos() + torch.cat([-two, one], -1) * angle.sin()

        attended = functional.scaled_dot_product_attention(turned(q), turned(k), v, attn_mask=mask)
        return self.o_proj(attended.transpose(1, 2).reshape(rows, length, size))


class Layer(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.self_attn, self.mlp = Attention(config), Qwen2MLP(config)
        self.input_layernorm = Qwen2RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.post_attention_layernorm = Qwen2RMSNorm(config.hidden_size, config.rms_norm_eps)

    def forward(self, x, mask, positions):
        x = x + self.self_attn(self.input_layernorm(x), mask, positions)
        return x + self.mlp(self.post_attention_layernorm(x))


class Decoder(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size)
        self.layers = nn.ModuleList(Layer(config) for _ in range(config.num_hidden_layers))
        self.norm = Qwen2RMSNorm(config.hidden_size, config.rms_norm_eps)

    def forward(self, input_ids, attention_mask=None, position_ids=None):
        mask = None
        if isinstance(attention_mask, torch.Tensor):
            mask = attention_mask | torch.eye(attention_mask.shape[-1], dtype=torch.bool, device=input_ids.device)
        if position_ids is None:
            position_ids = torch.arange(input_ids.shape[1], device=input_ids.device)[None]
        x = self.embed_tokens(input_ids)
        for layer in self.layers:
            x = layer(x, mask, position_ids)
        return BaseModelOutput(last_hidden_state=self.norm(x))


class RemoteModel(PreTrainedModel):
    config_class = RemoteConfig
    _tied_weights_keys = {"lm_head.weight": "model.embed_tokens.weight"}  # noqa: RUF012

    def __init__(self, config):
        super().__init__(config)
        self.model = Decoder(config)
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        self.post_init()

    @classmethod
    def from_pretrained(cls, *model_args, **settings):
        """As Dream's, which sets something on what it has loaded."""
        model = super().from_pretrained(*model_args, **settings)
        model.generation_config = None
        return model

    def get_decoder(self):
        return self.model

    def get_input_embeddings(self):
        return self.model.embed_tokens

    def get_output_embeddings(self):
        return self.lm_head

    def set_output_embeddings(self, value):
        self.lm_head = value

    def forward(self, input_ids, attention_mask="full", position_ids=None, num_logits_to_keep=0):
        hidden = self.model(input_ids, attention_mask, position_ids).last_hidden_state
        return MaskedLMOutput(logits=self.lm_head(hidden[:, -num_logits_to_keep:]))
