"""Chat templates as published models have them (templates/), each with a small tokenizer of its model's kind.

The tokenizers know the models' special tokens; their other tokens are learned from a few sentences.
"""

import functools
import json
from dataclasses import dataclass
from pathlib import Path

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerBase, PreTrainedTokenizerFast

FOLDER = Path(__file__).parent / "templates"
TEXT = [
    "The answer is 42. What is 12 + 30? Result 1: nothing was found, try again.",
    'user assistant system tool model {"name": "look_up", "arguments": {"word": "être"}} Zürich 日本語 🙂',
    "User: Assistant: [INST] [/INST] <|user|> <|assistant|> observation tool_response\n\n",
]

WORDS = r"[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
"""What tokens do not cross in Llama-3 and Qwen."""


@dataclass(frozen=True)
class Published:
    """What a template's tokenizer is like, and how the template differs between an answer and its beginning."""

    special: str
    """Its special tokens, the one that ends an answer first; `bos` and `eos` are among them."""
    bos: str = ""
    kind: str = "bytes"
    added: str = ""
    """Tokens that are added without being special."""
    tools: str = "user"
    """As what results of tools are shown."""
    opening: str = ""
    """What only the last answer begins with."""
    spaces: tuple[str, str] = ("", "")
    """What is written before and after an answer and not asked for."""
    has_system: bool = True
    swallows: bool = False
    """Special tokens take in the spaces that follow them."""

    @property
    def end(self) -> str:
        return self.special.split()[0]


IM = "<|im_end|> <|im_start|> <|endoftext|>"
LLAMA = "<|eot_id|> <|start_header_id|> <|end_header_id|> <|begin_of_text|> <|end_of_text|> <|eom_id|> <|python_tag|>"
MISTRAL = (
    "</s> <s> <unk> [INST] [/INST] [AVAILABLE_TOOLS] [/AVAILABLE_TOOLS] [TOOL_CALLS] [TOOL_RESULTS] [/TOOL_RESULTS]"
)
GLM = "<|user|> <|assistant|> <|observation|> <|system|> [gMASK] <sop> <|endoftext|>"
GEMMA = "<end_of_turn> <start_of_turn> <bos> <eos> <pad>"
DEEPSEEK = (
    "<｜User｜> <｜Assistant｜> <think> </think> <｜tool▁calls▁begin｜> <｜tool▁calls▁end｜> <｜tool▁call▁begin｜> "
    "<｜tool▁call▁end｜> <｜tool▁sep｜> <｜tool▁outputs▁begin｜> <｜tool▁outputs▁end｜> <｜tool▁output▁begin｜> "
    "<｜tool▁output▁end｜>"
)
SENTENCE = "<｜end▁of▁sentence｜> <｜begin▁of▁sentence｜>"
QWEN_ADDED = "<tool_call> </tool_call> <tool_response> </tool_response> <think> </think>"
COHERE = "<|END_OF_TURN_TOKEN|> <|START_OF_TURN_TOKEN|> <|USER_TOKEN|> <|CHATBOT_TOKEN|> <|SYSTEM_TOKEN|> <BOS_TOKEN>"

PUBLISHED = {
    "chatml": Published(IM, tools="tool"),
    "qwen25": Published(IM, added="<tool_call> </tool_call>", tools="tool"),
    "qwen3": Published(IM, added=QWEN_ADDED, tools="tool"),
    "llama2": Published("</s> <s> <unk>", "<s>", "legacy", spaces=(" ", " ")),
    "llama3": Published(LLAMA, "<|begin_of_text|>", tools="tool"),
    "llama31": Published(LLAMA, "<|begin_of_text|>", tools="tool"),
    "mistral_v1": Published("</s> <s> <unk>", "<s>", "legacy", has_system=False),
    "mistral_v3": Published(MISTRAL, "<s>", "pieces", tools="tool", has_system=False, spaces=(" ", "")),
    "mistral_nemo": Published(MISTRAL, "<s>", tools="tool", has_system=False),
    "smollm2": Published(IM, tools="tool"),
    "smollm3": Published(IM, added=QWEN_ADDED, tools="tool"),
    "glm4": Published(GLM, tools="tool", spaces=("\n", "")),
    "deepseek_v2": Published(SENTENCE, "<｜begin▁of▁sentence｜>", spaces=(" ", "")),
    "deepseek_v3": Published(SENTENCE, "<｜begin▁of▁sentence｜>", added=DEEPSEEK, tools="tool"),
    "deepseek_r1": Published(SENTENCE, "<｜begin▁of▁sentence｜>", added=DEEPSEEK, tools="tool", opening="<think>"),
    "phi3": Published(
        "<|end|> <|user|> <|assistant|> <|system|> <|endoftext|> <s>", "<s>", "pieces", tools="tool", swallows=True
    ),
    "phi4": Published("<|im_end|> <|im_start|> <|im_sep|> <|endoftext|>"),
    "gemma2": Published(GEMMA, "<bos>", "unprefixed", has_system=False),
    "gemma3": Published(GEMMA, "<bos>", "unprefixed"),
    "command_r": Published(COHERE, "<BOS_TOKEN>"),
    "zephyr": Published("</s> <s> <unk>", "<s>", "legacy"),
    "olmo2": Published("<|endoftext|> <|pad|>", "<|endoftext|>"),
    "granite": Published("<|end_of_text|> <|start_of_role|> <|end_of_role|> <|tool_call|>", tools="tool"),
    "hermes3": Published(IM + " <|begin_of_text|>", "<|begin_of_text|>", tools="tool"),
    "internlm2": Published("<|im_end|> <|im_start|> </s> <s>", "<s>", "pieces", tools="tool"),
    "minimax_m2": Published("[e~[ ]~b] ]~!b[", added="<think> </think>", opening="<think>"),
}


@functools.cache
def published(name: str) -> PreTrainedTokenizerBase:
    """The tokenizer with the template; not to be changed."""
    model = PUBLISHED[name]
    core = Tokenizer.from_str(_core(model.kind))
    names = model.special.split()
    core.add_special_tokens([AddedToken(each, normalized=False, rstrip=model.swallows) for each in names])
    core.add_tokens([AddedToken(each, normalized=False) for each in model.added.split()])
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=core, bos_token=model.bos or None, eos_token=AddedToken(model.end, rstrip=model.swallows),
        extra_special_tokens=[AddedToken(each, rstrip=model.swallows) for each in names],
        clean_up_tokenization_spaces=False, name_or_path=name,
    )  # fmt: skip
    tokenizer.chat_template = (FOLDER / f"{name}.jinja").read_text()
    return tokenizer


@functools.cache
def _core(kind: str) -> str:
    """A tokenizer without special tokens: of bytes (GPT-2), or of pieces (SentencePiece) that put a space before every
    text (`pieces`), also after every special token (`legacy`), or before none (`unprefixed`)."""
    if kind == "bytes":
        core = Tokenizer(models.BPE())
        words = pre_tokenizers.Split(Regex(WORDS), "isolated")
        levels = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
        core.pre_tokenizer, core.decoder = pre_tokenizers.Sequence([words, levels]), decoders.ByteLevel()
        trainer = trainers.BpeTrainer(vocab_size=400, initial_alphabet=levels.alphabet(), show_progress=False)
        core.train_from_iterator(TEXT, trainer)
        return str(core.to_str())
    core = Tokenizer(models.BPE(byte_fallback=True, unk_token="<unk>", fuse_unk=True))
    core.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="never")
    alphabet = ["<unk>", *(f"<0x{byte:02X}>" for byte in range(256))]
    trainer = trainers.BpeTrainer(vocab_size=600, special_tokens=alphabet, show_progress=False)
    core.train_from_iterator(TEXT, trainer)
    if kind == "pieces":
        core.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
    else:
        steps = [normalizers.Prepend("▁")] if kind == "legacy" else []
        core.normalizer = normalizers.Sequence([*steps, normalizers.Replace(" ", "▁")])
        core.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
    strip = [] if kind == "unprefixed" else [decoders.Strip(" ", 1, 0)]
    core.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), *strip])
    return json.dumps(json.loads(core.to_str()) | {"added_tokens": []})  # the trainer's, which are ordinary
