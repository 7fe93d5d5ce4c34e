"""Do window entropies find the decisions of a published model? As docs/results/entropy-decisions.csv, on SmolLM2.

Decided before the first figure was seen: one response to each of 64 questions of basic_arithmetic's train set, at most
96 tokens; from every third of its places that a full window follows 16 continuations, graded as a run grades them. A
token is a decision where the variance of success p(1 − p) after it is .125 or more; the scores are the token's window
entropy, its own entropy, its place (earlier is higher) and a keyed random number; the area under the ROC curve is
taken over these places, and its interval over responses. Exploratory: turns, places whose chance of success differs by
.3 or more from that of the place before.

    python -m benchmarks.decisions_smollm2 OUT.csv [--device cuda] [--responses 64] [--continuations 16] [--seconds 100]
"""

import argparse
import csv
import re
import time
from pathlib import Path
from typing import Any

import reasoning_gym
import torch
from transformers import AutoModelForCausalLM

from algorithms.entropy import token_entropy, window_entropy
from algorithms.keys import derive_seed
from ares.config import load
from ares.data import load_tokenizer, load_train
from ares.engines import Request, SamplingSettings, TransformersEngine
from ares.models import stored_tensors

WINDOW, EVERY, MOST_TOKENS, BATCH, AT_ONCE = 4, 3, 96, 2560, 8
TASK = "reasoning_gym:basic_arithmetic?size=2000&level=0"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("csv", type=Path)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--responses", type=int, default=64)
    parser.add_argument("--continuations", type=int, default=16)
    parser.add_argument("--seconds", type=float, default=1e9)
    asked = parser.parse_args()
    began = time.monotonic()
    config = load(
        "smollm2", [f"data.train={TASK}", "data.validation=null", f"rollout.max_response_length={MOST_TOKENS}"]
    )
    folder = config.model.path
    tokenizer = load_tokenizer(folder)
    problems = load_train(config.data, tokenizer, "nothing")
    ends, pad = {tokenizer.eos_token_id}, tokenizer.pad_token_id
    engine = TransformersEngine(folder, "float32", asked.device, ends, pad)
    engine.load_weights(0, stored_tensors(AutoModelForCausalLM.from_pretrained(folder)))
    settings = SamplingSettings(1.0, 1.0, MOST_TOKENS)

    def drawn(requests: list[Request]) -> list[list[int]]:
        return [each.token_ids.tolist() for start in range(0, len(requests), BATCH)
                for each in engine.generate(requests[start : start + BATCH], settings)]  # fmt: skip

    frame = problems.frame.head(asked.responses)
    prompts = [list(ids) for ids in frame["prompt_token_ids"]]
    names = [str(name) for name in frame["id"]]
    first = [Request(prompt, derive_seed("decisions", name)) for prompt, name in zip(prompts, names, strict=True)]
    every = list(zip(names, prompts, drawn(first), frame.to_dict("records"), strict=True))
    with asked.csv.open("w", newline="") as target:
        rows = csv.writer(target, lineterminator="\n")
        rows.writerow(
            ["problem", "place", "length", "right", "entropy", "window_entropy", "successes", "continuations"]
        )
        for start in range(0, len(every), AT_ONCE):
            if time.monotonic() - began > asked.seconds:
                break
            some = every[start : start + AT_ONCE]
            places = [
                (number, place) for number, each in enumerate(some) for place in range(0, len(each[2]) - WINDOW, EVERY)
            ]
            kept = [(number, some[number][2][: place + 1], one)
                    for number, place in places for one in range(asked.continuations)]  # fmt: skip
            found = drawn([Request(some[number][1] + head, derive_seed("continuation", some[number][0], len(head), one))
                           for number, head, one in kept])  # fmt: skip
            whole = [(head + more)[:MOST_TOKENS] for (_, head, _), more in zip(kept, found, strict=True)]
            right = graded(tokenizer, whole, [some[number][3] for number, _, _ in kept])
            whole_right = graded(tokenizer, [each[2] for each in some], [each[3] for each in some])
            entropies = [of_tokens(engine.model, prompt, response) for _, prompt, response, _ in some]
            for which, (number, place) in enumerate(places):
                own, windows = entropies[number]
                counted = right[which * asked.continuations : (which + 1) * asked.continuations]
                rows.writerow([some[number][0], place, len(some[number][2]), whole_right[number], f"{own[place]:.5f}",
                               f"{windows[place]:.5f}", sum(counted), asked.continuations])  # fmt: skip
            target.flush()
            print(f"{start + len(some)} responses, {time.monotonic() - began:.0f} s", flush=True)


@torch.no_grad()
def of_tokens(model: Any, prompt: list[int], response: list[int]) -> tuple[list[float], list[float]]:
    """Each token's own and window entropy (nats)."""
    ids = torch.tensor([prompt + response], device=model.device)
    own = token_entropy(model(ids).logits[0, len(prompt) - 1 : -1].float()).cpu()[None]
    return own[0].tolist(), window_entropy(own, torch.ones_like(own), WINDOW)[0].tolist()


def graded(tokenizer: Any, responses: list[list[int]], entries: list[dict[str, Any]]) -> list[int]:
    """As reward.kind=reasoning_gym with the profile's reward.answer: the last number of the text."""
    scorer = reasoning_gym.create_dataset("basic_arithmetic", size=1)
    texts = tokenizer.batch_decode(responses, skip_special_tokens=True)
    last = [re.search(r"(-?\d+)\D*$", text) for text in texts]
    return [
        int(found is not None and scorer.score_answer(found[1], {"answer": entry["answer"], "metadata": {}}) == 1.0)
        for found, entry in zip(last, entries, strict=True)
    ]


if __name__ == "__main__":
    main()
