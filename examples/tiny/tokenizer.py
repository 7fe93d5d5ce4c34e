"""A tokenizer for a tiny model: byte-level BPE with a few hundred tokens and a ChatML template.

Covers: training on the texts of a task, special tokens, whole words, the chat template. Does not cover: saving (it is
an ordinary transformers tokenizer; `save_pretrained` puts it beside the weights).
"""

import re
from collections.abc import Iterable, Sequence

from tokenizers import AddedToken
from transformers import Qwen2Tokenizer

END_OF_TEXT, TURN_START, TURN_END, MASK = "<|endoftext|>", "<|im_start|>", "<|im_end|>", "[MASK]"

CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n"
    "{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def build_tokenizer(
    texts: Iterable[str],
    vocab_size: int,
    *,
    max_length: int,
    whole_words: Sequence[str] = (),
    special: Sequence[str] = (),
    template: str = CHAT_TEMPLATE,
) -> Qwen2Tokenizer:
    """BPE trained on the texts. A turn ends with <|im_end|>; padding is <|endoftext|>, on the left.

    `whole_words` become one token each, wherever they stand. They are no special tokens: decoding keeps them.
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
