"""The architecture of tiny-vision: a Qwen2-VL of some 200k parameters, its tokenizer and its image processor.

Covers: building them from scratch. Does not cover: training (vision_warmstart.py), a video processor (ares uses none).
"""

from collections.abc import Iterable

import torch
from transformers import Qwen2Tokenizer, Qwen2VLConfig, Qwen2VLForConditionalGeneration
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

from examples.tiny.model import INITIALIZER_RANGE, MAX_POSITIONS
from examples.tiny.problems.pictures import WHOLE_WORDS
from examples.tiny.tokenizer import build_tokenizer

VISION_START, VISION_END, IMAGE_PAD, VIDEO_PAD = "<|vision_start|>", "<|vision_end|>", "<|image_pad|>", "<|video_pad|>"
VOCAB_SIZE = 320
PATCH, MERGE = 4, 2
"""Pixels a side of a patch, patches a side of a token: one token sees 8 × 8 pixels, a cell of a picture."""
CHAT_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n"
    "{% if message['content'] is string %}{{ message['content'] }}{% else %}{% for part in message['content'] %}"
    "{% if part['type'] == 'image' %}<|vision_start|><|image_pad|><|vision_end|>"
    "{% elif part['type'] == 'video' %}<|vision_start|><|video_pad|><|vision_end|>"
    "{% else %}{{ part['text'] }}{% endif %}{% endfor %}{% endif %}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def vision_tokenizer(texts: Iterable[str]) -> Qwen2Tokenizer:
    """A tokenizer for the task's texts, with Qwen2-VL's placeholder tokens and its chat format for pictures."""
    marks = (VISION_START, VISION_END, IMAGE_PAD, VIDEO_PAD)
    return build_tokenizer(
        texts, VOCAB_SIZE, max_length=MAX_POSITIONS, whole_words=WHOLE_WORDS, special=marks, template=CHAT_TEMPLATE
    )


def image_processor() -> Qwen2VLImageProcessorPil:
    """Leaves pictures of the task as they are; resizes others to at most 64 tokens."""
    token = (PATCH * MERGE) ** 2
    size = {"shortest_edge": token, "longest_edge": 64 * token}
    return Qwen2VLImageProcessorPil(size=size, patch_size=PATCH, merge_size=MERGE)


def build_vision_model(tokenizer: Qwen2Tokenizer, generator: torch.Generator) -> Qwen2VLForConditionalGeneration:
    """A freshly initialised model, float32, tied embeddings."""
    with torch.random.fork_rng(devices=[]):  # construction draws from the global generator
        model = Qwen2VLForConditionalGeneration(_architecture(tokenizer))
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() >= 2:
                parameter.normal_(0.0, INITIALIZER_RANGE, generator=generator)
    model.generation_config.eos_token_id = tokenizer.eos_token_id
    model.generation_config.pad_token_id = tokenizer.pad_token_id
    return model


def _architecture(tokenizer: Qwen2Tokenizer) -> Qwen2VLConfig:
    marks = dict(
        zip(
            ("vision_start_token_id", "vision_end_token_id", "image_token_id", "video_token_id"),
            tokenizer.convert_tokens_to_ids([VISION_START, VISION_END, IMAGE_PAD, VIDEO_PAD]),
            strict=True,
        )
    )
    return Qwen2VLConfig(
        text_config={
            "vocab_size": len(tokenizer),
            "hidden_size": 64,
            "num_hidden_layers": 2,
            "intermediate_size": 192,
            "num_attention_heads": 2,  # head_dim 32 is the smallest that vLLM's CPU attention takes
            "num_key_value_heads": 2,
            "max_position_embeddings": MAX_POSITIONS,
            "initializer_range": INITIALIZER_RANGE,
            "rope_parameters": {"rope_type": "default", "rope_theta": 100.0, "mrope_section": [4, 6, 6]},
            "bos_token_id": None,
            "eos_token_id": tokenizer.eos_token_id,
            "pad_token_id": tokenizer.pad_token_id,
        },
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
        tie_word_embeddings=True,
        dtype="float32",
        **marks,
    )
