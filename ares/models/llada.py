"""LLaDA (arXiv 2502.09992): Llama's decoder with attention both ways, under the names that LLaDA gives to everything.

Importing this registers it with transformers: config.json and tensors are read, and written back, as they are published
(GSAI-ML's LLaDA-8B-Base and -Instruct, LLaDA-1.5). The Python files beside them are not run. Not covered: other shapes
that their configuration allows (refused by the setting's name), LLaDA-MoE.
"""

from typing import Any, ClassVar

from torch import nn
from transformers import AutoConfig, AutoModel, LlamaForCausalLM, LlamaModel, PretrainedConfig
from transformers.conversion_mapping import register_checkpoint_conversion_mapping
from transformers.core_model_loading import WeightRenaming
from transformers.modeling_outputs import BaseModelOutputWithPast

TENSORS = {
    r"^model\.transformer\.ff_out\.": "lm_head.",
    r"^model\.transformer\.wte\.": "model.embed_tokens.",
    r"^model\.transformer\.ln_f\.": "model.norm.",
    r"^model\.transformer\.blocks\.": "model.layers.",
    r"\.attn_norm\.": ".input_layernorm.",
    r"\.q_proj\.": ".self_attn.q_proj.",
    r"\.k_proj\.": ".self_attn.k_proj.",
    r"\.v_proj\.": ".self_attn.v_proj.",
    r"\.attn_out\.": ".self_attn.o_proj.",
    r"\.ff_norm\.": ".post_attention_layernorm.",
    r"\.ff_proj\.": ".mlp.gate_proj.",
    r"\.up_proj\.": ".mlp.up_proj.",
    r"\.ff_out\.": ".mlp.down_proj.",
}
"""Parts of a tensor's name and what Llama calls them, applied in this order."""
AS_LLAMA = {
    "block_type": "llama", "layer_norm_type": "rms", "activation_type": "silu", "rope": True, "block_group_size": 1,
    "layer_norm_with_affine": True, "alibi": False, "attention_layer_norm": False, "bias_for_layer_norm": False,
    "include_bias": False, "input_emb_norm": False, "scale_logits": False, "multi_query_attention": False,
}  # fmt: skip
"""Settings with the one value that makes LLaDA's decoder Llama's; null is false."""


class LLaDAConfig(PretrainedConfig):
    """LLaDA's config.json, whose settings transformers also finds under Llama's names."""

    model_type = "llada"
    attribute_map: ClassVar[dict[str, str]] = {
        "hidden_size": "d_model", "intermediate_size": "mlp_hidden_size", "num_hidden_layers": "n_layers",
        "num_attention_heads": "n_heads", "num_key_value_heads": "n_kv_heads", "hidden_act": "activation_type",
        "max_position_embeddings": "max_sequence_length", "initializer_range": "init_std",
        "attention_bias": "include_qkv_bias", "mlp_bias": "include_bias", "tie_word_embeddings": "weight_tying",
    }  # fmt: skip
    is_causal: ClassVar[bool] = False

    vocab_size: int = 126464
    embedding_size: int | None = None
    d_model: int = 4096
    mlp_hidden_size: int = 12288
    n_layers: int = 32
    n_heads: int = 32
    n_kv_heads: int | None = None
    activation_type: str = "silu"
    max_sequence_length: int = 4096
    init_std: float = 0.02
    rms_norm_eps: float = 1e-5
    rope_theta: float = 500000.0
    include_qkv_bias: bool | None = False
    include_bias: bool | None = False
    weight_tying: bool = False
    attention_dropout: float = 0.0
    use_cache: bool = False
    mask_token_id: int | None = None
    eos_token_id: int | None = None
    pad_token_id: int | None = None

    def __post_init__(self, **more: Any) -> None:
        """Raises ValueError for a decoder that is not Llama's."""
        super().__post_init__(**more)
        self.n_kv_heads = self.n_kv_heads or self.n_heads
        self.rope_parameters = {"rope_type": "default", "rope_theta": self.rope_theta}
        required = AS_LLAMA | {"embedding_size": self.embedding_size and self.vocab_size}
        for name, needed in required.items():
            value = getattr(self, name, needed)
            if (value or False) != (needed or False):
                raise ValueError(f"LLaDA with {name}={value} is not supported, only {name}={needed}.")


class LLaDADecoder(LlamaModel):
    """Every position attends to all that are not padding.

    LLaDA's own state j predicts token j. States are moved up by one, so that state j − 1 predicts it, as Dream's does.
    """

    config_class = LLaDAConfig

    def __init__(self, config: LLaDAConfig) -> None:
        super().__init__(config)
        self.embed_tokens.padding_idx = None  # LLaDA pads with its end token, which is to be trained
        for layer in self.layers:
            layer.self_attn.is_causal = False

    def forward(self, *inputs: Any, **named: Any) -> BaseModelOutputWithPast:
        """Hidden states [B, N, H]; arguments as Llama's, attention_mask [B, 1, N, N] or None."""
        states = super().forward(*inputs, **named | {"use_cache": False}).last_hidden_state
        return BaseModelOutputWithPast(last_hidden_state=states.roll(-1, 1))


class LLaDAModelLM(LlamaForCausalLM):
    """The decoder and its head, under the name of LLaDA's own class."""

    config_class = LLaDAConfig

    def __init__(self, config: LLaDAConfig) -> None:
        super(LlamaForCausalLM, self).__init__(config)
        self.model = LLaDADecoder(config)
        self.vocab_size = config.vocab_size
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        self.post_init()


AutoConfig.register("llada", LLaDAConfig)
AutoModel.register(LLaDAConfig, LLaDAModelLM)
register_checkpoint_conversion_mapping("llada", [WeightRenaming(*pair) for pair in TENSORS.items()])
