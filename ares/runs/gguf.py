"""A GGUF file (llama.cpp's, often quantised) as a model directory that can be trained.

Covered: weights as float32 numbers, config, tokenizer, chat template, end tokens; what was written answers as the file
does. Not covered: architectures that transformers cannot read from GGUF, files in several parts.
"""

import copy
from pathlib import Path
from typing import Any

import torch
import transformers
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedTokenizerBase
from transformers.utils import is_gguf_available
from transformers.utils.logging import disable_progress_bar

from ares.config import ModelConfig
from ares.data import load_tokenizer, odd_in_template
from ares.engines import end_token_ids
from ares.models import ModelError, check_weight_files, quiet_transformers
from ares.runs.export import SAMPLE, new_folder

QUESTION = "What is the capital of France?"
TOKENS = 8
"""Of the greedy answer that file and directory must share."""


def import_gguf(file: Path, out: Path) -> list[str]:
    """Write the model of a GGUF file to the new folder `out`; returns what is odd about its chat template.

    Raises ModelError where the file cannot be read or what was written does not answer alike, StoreError where nothing
    can be written; then nothing is left behind.
    """
    disable_progress_bar()  # one for writing the weights, one for reading them again
    if not is_gguf_available():
        raise ModelError("reading GGUF files needs the package gguf: pip install gguf")
    if not file.is_file():
        raise ModelError(f"{file}: there is no such file")
    try:
        with quiet_transformers():
            tokenizer = AutoTokenizer.from_pretrained(file.parent, gguf_file=file.name)
            how: dict[str, Any] = {"gguf_file": file.name}
            if hasattr(transformers, "GgufConfig"):  # before there was one, weights were always dequantised
                how["quantization_config"] = transformers.GgufConfig(dequantize=True)
            model = AutoModelForCausalLM.from_pretrained(file.parent, dtype=torch.float32, **how)
    except Exception as error:  # of damaged files and unknown architectures gguf and transformers raise anything
        cause = " ".join(str(error).split())
        raise ModelError(f"{file}: not a GGUF file that transformers can read: {cause}") from error
    with new_folder(out) as folder:
        _plain(model).save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        return _check_written(file, model, tokenizer, folder)


def _plain(read: Any) -> Any:
    """A copy of a model that was read from GGUF, which transformers refuses to save."""
    settings = copy.deepcopy(read.config)
    vars(settings).pop("quantization_config", None)
    model = AutoModelForCausalLM.from_config(settings, dtype=torch.float32)
    model.load_state_dict(read.state_dict())
    model.generation_config = read.generation_config
    return model


def _check_written(file: Path, model: Any, tokenizer: PreTrainedTokenizerBase, folder: Path) -> list[str]:
    check_weight_files(ModelConfig(path=str(folder)))
    written, words = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32), load_tokenizer(str(folder))
    for what, before, after in (
        ("chat template", tokenizer.chat_template, words.chat_template),
        ("tokens of text", tokenizer.encode(SAMPLE), words.encode(SAMPLE)),
        ("answer", _answer(model, tokenizer), _answer(written, words)),
    ):
        if before != after:
            raise ModelError(f"{file}: what was written has another {what} ({after!r}, in the file {before!r})")
    if not (ends := end_token_ids(str(folder), words)):
        raise ModelError(f"{file}: it names no end token (tokenizer.ggml.eos_token_id), so no response would end")
    return odd_in_template(words, {}, ends)


def _answer(model: Any, tokenizer: PreTrainedTokenizerBase) -> list[int]:
    """The first tokens of the greedy answer to a question."""
    text = QUESTION
    if tokenizer.chat_template:
        chat = [{"role": "user", "content": QUESTION}]
        text = str(tokenizer.apply_chat_template(chat, tokenize=False, add_generation_prompt=True))
    asked = tokenizer(text, add_special_tokens=not tokenizer.chat_template, return_tensors="pt")
    answered: list[int] = model.generate(**asked, max_new_tokens=TOKENS, do_sample=False)[0].tolist()
    return answered[asked["input_ids"].shape[1] :]
