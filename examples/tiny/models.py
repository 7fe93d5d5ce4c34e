"""Tiny models of random weights and their tokenizers: causal, masked-diffusion and vision-language.

All are transformers' own classes, in float32 with tied embeddings, drawn from a generator that is given; torch's global
one is left alone. Not covered: training (learning.py).
"""

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import torch
from tokenizers import AddedToken
from transformers import (
    PretrainedConfig,
    PreTrainedModel,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen2Tokenizer,
    Qwen2VLConfig,
    Qwen2VLForConditionalGeneration,
)
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

from examples.tiny.masked_model import MaskedModel, MaskedModelConfig

M = TypeVar("M", bound=PreTrainedModel)
INITIALIZER_RANGE = 0.05
"""Larger than usual (0.02), because the matrices are so small."""
COPY_GAIN = 0.3
COMMON: dict[str, Any] = {"tie_word_embeddings": True, "dtype": "float32"}
END_OF_TEXT, TURN_START, TURN_END, MASK = "<|endoftext|>", "<|im_start|>", "<|im_end|>", "[MASK]"
VISION_START, VISION_END, IMAGE_PAD, VIDEO_PAD = "<|vision_start|>", "<|vision_end|>", "<|image_pad|>", "<|video_pad|>"
VISION_MARKS = (VISION_START, VISION_END, IMAGE_PAD, VIDEO_PAD)
PATCH, MERGE = 4, 2
"""Pixels a side of a patch, patches a side of a token: one token sees 8 × 8 pixels, a cell of a picture."""

CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n"
    "{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
TOOL_TEMPLATE = (
    "{% if tools %}<|im_start|>system\n<tool_call>"
    "{% for tool in tools %} {{ tool['function']['name'] }}{% endfor %}<|im_end|>\n{% endif %}" + CHAT_TEMPLATE
)
"""Shows the names of tools alone: schemas have more tokens than a whole episode."""
VISION_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n"
    "{% if message['content'] is string %}{{ message['content'] }}{% else %}{% for part in message['content'] %}"
    "{% if part['type'] == 'image' %}<|vision_start|><|image_pad|><|vision_end|>"
    "{% elif part['type'] == 'video' %}<|vision_start|><|video_pad|><|vision_end|>"
    "{% else %}{{ part['text'] }}{% endif %}{% endfor %}{% endif %}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def build_tokenizer(
    texts: Iterable[str],
    vocab_size: int,
    *,
    max_length: int = 512,
    whole_words: Sequence[str] = (),
    special: Sequence[str] = (),
    template: str = CHAT_TEMPLATE,
) -> Qwen2Tokenizer:
    """Byte-level BPE trained on the texts. A turn ends with <|im_end|>; padding is <|endoftext|>, on the left.

    `whole_words` become one token each, wherever they stand. They are not special tokens: decoding keeps them.
    `special` are marks that decoding leaves out.
    """
    # The class must be Qwen2Tokenizer: AutoTokenizer loads it for every Qwen2 model, whatever was saved, and brings
    # Qwen2's pre-tokenizer along. It cuts numbers into digits, so a task that wants whole numbers names them.
    untrained = Qwen2Tokenizer(
        unk_token=None,
        eos_token=TURN_END,
        pad_token=END_OF_TEXT,
        mask_token=MASK,
        extra_special_tokens=[TURN_START, *special],
        padding_side="left",
        model_max_length=max_length,
        clean_up_tokenization_spaces=False,
        chat_template=template,
    )
    # Merges inside whole words would never be used.
    cut = re.compile("|".join(map(re.escape, sorted(whole_words, key=len, reverse=True))) or r"(?!)")
    rest = (piece for text in texts for piece in cut.split(text) if piece)
    tokenizer = untrained.train_new_from_iterator(rest, vocab_size - len(whole_words), show_progress=False)
    tokenizer.add_tokens([AddedToken(word, normalized=False) for word in whole_words])
    return tokenizer


def build_causal(tokenizer: Qwen2Tokenizer, generator: torch.Generator) -> Qwen2ForCausalLM:
    """A Qwen2 of about 120k parameters."""
    return _initialise(Qwen2ForCausalLM, Qwen2Config(**_sizes(tokenizer), **COMMON), generator)


def build_masked(tokenizer: Qwen2Tokenizer, generator: torch.Generator) -> MaskedModel:
    """A masked-diffusion model of about 240k parameters, which starts out copying."""
    # Slower rotations are useless within 60 tokens: with the usual 10,000 the loss was six times higher.
    rotation = {"rope_type": "default", "rope_theta": 100.0}
    sizes = _sizes(tokenizer) | {
        "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 4, "max_position_embeddings": 256,
    }  # fmt: skip
    config = MaskedModelConfig(**sizes, **COMMON, rope_parameters=rotation, mask_token_id=tokenizer.mask_token_id)
    model = _initialise(MaskedModel, config, generator)
    start_copying(model, generator)
    return model


def build_vision(tokenizer: Qwen2Tokenizer, generator: torch.Generator) -> Qwen2VLForConditionalGeneration:
    """A Qwen2-VL of about 160k parameters."""
    places = ("vision_start_token_id", "vision_end_token_id", "image_token_id", "video_token_id")
    rotation = {"rope_type": "default", "rope_theta": 100.0, "mrope_section": [4, 6, 6]}
    config = Qwen2VLConfig(
        text_config=_sizes(tokenizer) | {"rope_parameters": rotation},
        vision_config={
            "depth": 1,
            "embed_dim": 32,
            "num_heads": 2,
            "mlp_ratio": 2,
            "hidden_size": 64,
            "patch_size": PATCH,
            "spatial_merge_size": MERGE,
            "initializer_range": INITIALIZER_RANGE,
        },
        **COMMON,
        **dict(zip(places, tokenizer.convert_tokens_to_ids(list(VISION_MARKS)), strict=True)),
    )
    model = _initialise(Qwen2VLForConditionalGeneration, config, generator)
    model.generation_config.eos_token_id = tokenizer.eos_token_id
    model.generation_config.pad_token_id = tokenizer.pad_token_id
    return model


def build_image_processor() -> Qwen2VLImageProcessorPil:
    """Leaves pictures of the task as they are; resizes others to at most 64 tokens."""
    token = (PATCH * MERGE) ** 2
    size = {"shortest_edge": token, "longest_edge": 64 * token}
    return Qwen2VLImageProcessorPil(size=size, patch_size=PATCH, merge_size=MERGE)


def _sizes(tokenizer: Qwen2Tokenizer) -> dict[str, Any]:
    """What the text models have in common."""
    return {
        "vocab_size": len(tokenizer),
        "hidden_size": 64,
        "num_hidden_layers": 2,
        "intermediate_size": 192,
        "num_attention_heads": 2,  # head_dim 32 is the smallest that vLLM's CPU attention takes
        "num_key_value_heads": 2,
        "max_position_embeddings": 512,
        "initializer_range": INITIALIZER_RANGE,
        "bos_token_id": None,
        "eos_token_id": tokenizer.eos_token_id,
        "pad_token_id": tokenizer.pad_token_id,
    }


def _initialise(kind: Callable[[Any], M], config: PretrainedConfig, generator: torch.Generator) -> M:
    """A model of this class, its matrices drawn from a generator."""
    with torch.random.fork_rng(devices=[]):  # construction draws from the global generator, on the CPU only
        model = kind(config)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() >= 2:
                parameter.normal_(0.0, INITIALIZER_RANGE, generator=generator)
    return model


def start_copying(model: PreTrainedModel, generator: torch.Generator) -> None:
    """Set output·value to COPY_GAIN times the identity: with tied embeddings, attending to a token predicts it.

    The model then only has to learn where to look; from random matrices it learnt copying hundreds of steps later, or
    never.
    """
    with torch.no_grad():
        for layer in model.model.layers:
            attention = layer.self_attn
            size = attention.o_proj.weight.shape[0]
            rotation = torch.linalg.qr(torch.randn(size, size, generator=generator)).Q * COPY_GAIN**0.5
            attention.v_proj.weight.copy_(rotation)
            attention.o_proj.weight.copy_(rotation.T)
