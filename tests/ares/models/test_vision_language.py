import importlib
import json
import shutil
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch
from transformers import AutoModelForImageTextToText, Qwen2_5_VLConfig, Qwen2_5_VLForConditionalGeneration

from algorithms.keys import derive_seed
from algorithms.protocol import DataProto
from ares.config.run import LoraConfig
from ares.data.media import MediaError
from ares.engines import TransformersEngine
from ares.engines.engine import Request, SamplingSettings
from ares.models.lora import add_adapters, without_adapters
from ares.models.packing import share_rows
from ares.models.vision_language import VisionLanguageModel
from ares.step.collate import token_batch
from tests.ares.builders import END, PAD
from tests.ares.models.families import widen
from tests.ares.vision_builders import CHART, DOTS, MODEL, data, image, model, problems, settings, tokenizer

LENGTHS = [5, 9, 3, 7, 6]


@pytest.fixture
def shown(tmp_path: Path) -> pd.DataFrame:
    """Rows with one image, two of other sizes, none, a video, and the first image again."""
    large, wide = image(tmp_path, "a.png", (64, 48), "blue"), image(tmp_path, "b.png", (48, 24), "green")
    for number, colour in enumerate(("red", "blue", "green")):
        image(tmp_path / "frames", f"{number}.png", (32, 32), colour)
    return problems(
        tmp_path,
        {"prompt": "<image>How many dots?", "images": [DOTS]},
        {"prompt": "<image>or <image>?", "images": [str(large), str(wide)]},
        {"prompt": "How many dots?"},
        {"prompt": "<video>How many?", "videos": [str(tmp_path / "frames")]},
        {"prompt": "<image>How many red dots?", "images": [DOTS]},
    ).frame


@pytest.fixture
def batch(shown: pd.DataFrame) -> DataProto:
    return answered(shown, LENGTHS)


def answered(shown: pd.DataFrame, lengths: list[int]) -> DataProto:
    """The rows with random responses."""
    generator = torch.Generator().manual_seed(0)
    answers = [torch.randint(10, 300, (length,), generator=generator).tolist() for length in lengths]
    return of(shown, answers, [[0.0] * length for length in lengths])


def of(shown: pd.DataFrame, answers: list[list[int]], log_probs: list[list[float]]) -> DataProto:
    columns = shown[["prompt_token_ids", "media_references"]]
    rows = columns.assign(token_ids=answers, log_probs=log_probs, slot=range(len(shown)), sample=0)
    return token_batch(rows, PAD)


@torch.no_grad()
def log_probs(policy: VisionLanguageModel, rows: DataProto) -> torch.Tensor:
    return policy.token_log_probs(policy.on_device(rows), 1.0).log_probs


def test_a_rows_log_probs_are_the_same_alone_packed_and_on_either_rank(batch: DataProto) -> None:
    policy = model()
    assert policy.packs
    alone = [log_probs(policy, batch[[row]]) for row in range(len(batch))]
    torch.testing.assert_close(log_probs(policy, batch), torch.cat(alone), atol=1e-5, rtol=1e-5)
    for rank in range(2):
        own = share_rows(policy.row_sizes(batch), 2)[rank]
        assert 0 < len(own) < len(batch)
        torch.testing.assert_close(
            log_probs(policy, batch[own]), torch.cat([alone[row] for row in own]), atol=1e-5, rtol=1e-5
        )
    policy.packs = False
    torch.testing.assert_close(log_probs(policy, batch), torch.cat(alone), atol=1e-5, rtol=1e-5)


def test_rows_share_a_prompt_only_when_it_shows_the_same_pictures(shown: pd.DataFrame) -> None:
    policy = model()
    others = shown.iloc[[0, 0, 0, 2, 2]].reset_index(drop=True)
    others.at[2, "media_references"] = [policy.inputs.reader.described(CHART)[0]]
    rows = of(others, [[20, 21], [22], [20, 21], [23], [24, 25]], [[0.0] * n for n in (2, 1, 2, 1, 2)])
    sizes = policy.row_sizes(rows)
    assert sizes.group.unique(return_inverse=True)[1].tolist() == [0, 0, 1, 2, 2]
    assert torch.equal(policy.row_sizes(policy.on_device(rows)).group, sizes.group)
    alone = [log_probs(policy, rows[[row]]) for row in range(len(rows))]
    assert not torch.allclose(alone[0], alone[2], atol=1e-4)
    torch.testing.assert_close(log_probs(policy, rows), torch.cat(alone), atol=1e-5, rtol=1e-5)


def transformers_own(
    policy: VisionLanguageModel, batch: DataProto, shown: pd.DataFrame, lengths: list[int]
) -> tuple[torch.Tensor, torch.Tensor, dict[str, torch.Tensor]]:
    """Log-probs, entropies and gradients of the mean log-prob, from transformers' model called row by row; only
    placeholder tokens are excluded."""
    theirs = AutoModelForImageTextToText.from_pretrained(MODEL, dtype=torch.float32).eval()
    theirs.load_state_dict(policy.model.state_dict())
    per_row, entropies = [], []
    for row, length in enumerate(lengths):
        tokens = batch.tensor("responses")[row, :length]
        ids = torch.cat([torch.tensor(shown["prompt_token_ids"][row]), tokens])[None]
        pictures = policy.inputs.read([shown["media_references"][row]])
        kinds = (ids == theirs.config.image_token_id).int() + 2 * (ids == theirs.config.video_token_id).int()
        inputs = {}
        if pictures.patches:
            kind = "video" if row == 3 else "image"
            inputs = {
                "pixel_values_videos" if kind == "video" else "pixel_values": torch.cat(
                    [each.pixels for each in pictures.patches]
                ),
                f"{kind}_grid_thw": torch.tensor([each.grid for each in pictures.patches]),
                "mm_token_type_ids": kinds,
            }
        logits = theirs(input_ids=ids, **inputs).logits[0, -len(tokens) - 1 : -1] + policy.inputs.never
        known = torch.log_softmax(logits, -1)
        per_row.append(known.gather(1, tokens[:, None])[:, 0])
        entropies.append(-(known.exp() * known).nan_to_num().sum(-1))
    log_probs = torch.cat(per_row)
    log_probs.mean().backward()
    gradients = {name: parameter.grad for name, parameter in theirs.named_parameters() if parameter.grad is not None}
    return log_probs.detach(), torch.cat(entropies).detach(), gradients


FAR = [1500, 700, 300, 900, 1900]
"""Most of the tokens are far from pictures."""


def widened(**others: Any) -> VisionLanguageModel:
    policy = model(train_vision=True, **others)
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(0)
        widen(policy.model)
    return policy


@pytest.mark.parametrize("checkpointing", [False, True])
@pytest.mark.parametrize("lengths", [LENGTHS, pytest.param(FAR, marks=pytest.mark.slow)], ids=["near", "far"])
def test_log_probs_entropies_and_gradients_are_transformers_own(
    checkpointing: bool, lengths: list[int], shown: pd.DataFrame
) -> None:
    policy, batch = widened(gradient_checkpointing=checkpointing), answered(shown, lengths)
    log_probs, entropies, gradients = transformers_own(policy, batch, shown, lengths)
    assert policy.packs
    tokens = policy.token_log_probs(policy.on_device(batch), 1.0)
    within = 1e-4 if lengths is FAR else 1e-5
    torch.testing.assert_close(tokens.log_probs, log_probs, atol=within, rtol=within)
    torch.testing.assert_close(tokens.entropies, entropies, atol=1e-4, rtol=1e-4)
    tokens.log_probs.mean().backward()
    for name, parameter in policy.model.named_parameters():
        if name in gradients and parameter.grad is not None:
            scale = float(gradients[name].abs().max())
            torch.testing.assert_close(parameter.grad, gradients[name], atol=1e-3 * scale + 1e-8, rtol=1e-2)
    assert {name for name, parameter in policy.model.named_parameters() if parameter.grad is not None} >= set(gradients)


@pytest.mark.slow
def test_far_from_pictures_bfloat16_is_the_model_but_for_rounding(shown: pd.DataFrame) -> None:
    policy, batch = widened(dtype="bfloat16"), answered(shown, FAR)
    expected, _, _ = transformers_own(policy, batch, shown, FAR)
    own = log_probs(policy, batch)
    for actual in (own, log_probs(policy.frozen(), batch)):
        assert float((actual - expected).abs().mean()) < 0.1


def test_dropout_of_tower_and_decoder_is_off_too(batch: DataProto, tmp_path: Path) -> None:
    """Gradient checkpointing puts layers in training mode, where dropout works."""
    folder = shutil.copytree(MODEL, tmp_path / "model")
    written = json.loads((folder / "config.json").read_text())
    written["text_config"]["attention_dropout"] = written["vision_config"]["attention_dropout"] = 0.5
    (folder / "config.json").write_text(json.dumps(written))
    wild = model(path=str(folder), gradient_checkpointing=True)
    torch.testing.assert_close(log_probs(wild, batch), log_probs(model(), batch), atol=1e-5, rtol=1e-5)


def engine() -> TransformersEngine:
    sampler = TransformersEngine(settings(), "cpu", {END}, PAD, data=data())
    sampler.load_weights(0, dict(model().model.named_parameters()))
    return sampler


def requests(shown: pd.DataFrame, samples: int = 1) -> list[Request]:
    return [
        Request(prompt, derive_seed("vision", row, sample), tuple(media))
        for row, (prompt, media) in enumerate(zip(shown["prompt_token_ids"], shown["media_references"], strict=True))
        for sample in range(samples)
    ]


def test_the_engines_log_probs_are_the_learners(shown: pd.DataFrame) -> None:
    sampler = engine().generate(requests(shown), SamplingSettings(1.0, 1.0, 16))
    batch = of(shown, [each.token_ids for each in sampler], [each.log_probs for each in sampler])
    expected = batch.tensor("engine_log_probs")[batch.tensor("response_mask").bool()]
    torch.testing.assert_close(log_probs(model(), batch), expected, atol=1e-5, rtol=1e-5)


def test_a_mark_is_never_sampled_and_has_no_probability(shown: pd.DataFrame, batch: DataProto) -> None:
    drawing = engine()
    assert drawing.vision is not None
    marks = (drawing.vision.never < 0).nonzero()[:, 0]
    names = set(tokenizer().convert_ids_to_tokens(marks.tolist()))
    assert names == {"<|image_pad|>", "<|video_pad|>", "<|vision_start|>", "<|vision_end|>"}
    with torch.no_grad():  # all logits alike but the placeholders', which are larger: they would nearly always be drawn
        drawing.model.lm_head.weight.fill_(0.0)
        drawing.model.lm_head.weight[marks] = 1.0
    answers = drawing.generate(requests(shown, samples=4), SamplingSettings(1.0, 1.0, 8))
    assert not any(set(each.token_ids.tolist()) & set(marks.tolist()) for each in answers)
    policy = model()
    batch.batch["responses"][0, 0] = marks[0]
    assert log_probs(policy, batch)[0] < -1000


def test_an_image_that_changed_under_a_run_is_noticed(tmp_path: Path) -> None:
    row = {"prompt": "<image>?", "images": [str(image(tmp_path, "a.png"))]}
    (reference,) = problems(tmp_path, row).frame["media_references"][0]
    image(tmp_path, "a.png", colour="blue")
    with pytest.raises(MediaError, match=r"a\.png: its content has changed since the run was started"):
        model().inputs.reader.patches(reference)


@pytest.mark.parametrize("trained", [False, True])
def test_the_tower_is_trained_where_the_settings_say_so(batch: DataProto, trained: bool) -> None:
    policy = model(train_vision=trained)
    policy.token_log_probs(policy.on_device(batch), 1.0).log_probs.sum().backward()
    tower = [parameter.grad for name, parameter in policy.model.named_parameters() if "visual" in name]
    others = [parameter.grad for name, parameter in policy.model.named_parameters() if "visual" not in name]
    assert all(gradient is not None for gradient in others)
    assert all((gradient is not None and bool(gradient.any())) == trained for gradient in tower)


@pytest.mark.parametrize("trained", [False, True])
def test_adapters_of_the_decoder_alone_or_of_the_tower_too(batch: DataProto, trained: bool) -> None:
    policy = model(train_vision=trained)
    base = log_probs(policy, batch)
    targets = ("q_proj", "v_proj", "qkv")
    add_adapters(policy.model, settings(train_vision=trained, lora=LoraConfig(rank=2, targets=targets)))
    adapted = {name for name, parameter in policy.model.named_parameters() if parameter.requires_grad}
    assert any("visual" in name for name in adapted) == trained
    assert any("q_proj" in name for name in adapted)
    with torch.no_grad():
        for name, parameter in policy.model.named_parameters():
            if "lora_B" in name:
                parameter.fill_(0.1)
    assert (log_probs(policy, batch) - base).abs().max() > 1e-3
    with torch.no_grad():
        reference = without_adapters(policy).token_log_probs(policy.on_device(batch), 1.0).log_probs
    assert torch.equal(reference, base)


def test_frames_are_laid_together_as_transformers_own_video_processor_does(tmp_path: Path) -> None:
    pytest.importorskip(
        "torchvision",
        reason="needs torchvision, whose registered builds are for a CUDA torch",
        exc_type=(ImportError, RuntimeError),
    )
    video = importlib.import_module("transformers.models.qwen2_vl.video_processing_qwen2_vl")
    reader = model().inputs.reader
    for number, colour in enumerate(("red", "blue", "green", "white")):
        image(tmp_path / "frames", f"{number}.png", (32, 24), colour)
    reference, tokens = reader.described(f"video:{tmp_path / 'frames'}")
    patches = reader.patches(reference)
    theirs = video.Qwen2VLVideoProcessor(patch_size=4, merge_size=2, do_resize=False)
    frames = torch.stack([torch.tensor(value).view(3, 1, 1).expand(3, 24, 32) for value in
                          ((255, 0, 0), (0, 0, 255), (0, 128, 0), (255, 255, 255))]).to(torch.uint8)  # fmt: skip
    expected = theirs([frames], return_tensors="pt", do_sample_frames=False)
    assert patches.grid == tuple(expected["video_grid_thw"][0].tolist()) == (2, 6, 8)
    assert tokens == 2 * 6 * 8 // 4
    torch.testing.assert_close(patches.pixels, expected["pixel_values_videos"], atol=1e-5, rtol=1e-5)


def test_an_odd_last_frame_stands_still(tmp_path: Path) -> None:
    for number, colour in enumerate(("red", "blue", "green")):
        image(tmp_path / "three", f"{number}.png", (32, 32), colour)
    for number, colour in enumerate(("red", "blue", "green", "green")):
        image(tmp_path / "four", f"{number}.png", (32, 32), colour)
    reader = model().inputs.reader
    three, four = (reader.patches(reader.described(f"video:{tmp_path / name}")[0]) for name in ("three", "four"))
    assert three.grid == four.grid == (2, 8, 8)
    assert torch.equal(three.pixels, four.pixels)


def test_a_video_file_is_sampled_at_the_rate_that_was_asked_for(tmp_path: Path) -> None:
    cv2 = pytest.importorskip("cv2")
    writer = cv2.VideoWriter(str(tmp_path / "a.avi"), cv2.VideoWriter_fourcc(*"MJPG"), 8, (32, 32))
    for number in range(16):  # two seconds, darker and darker
        writer.write(torch.full((32, 32, 3), 240 - 15 * number, dtype=torch.uint8).numpy())
    writer.release()
    reader = model().inputs.reader
    assert reader.fps == 2.0
    patches = reader.patches(reader.described(f"video:{tmp_path / 'a.avi'}")[0])
    assert patches.grid == (2, 8, 8)  # four frames, by twos
    moments = patches.pixels.view(2, 64, 3, 2, 16).mean((1, 2, 4)).flatten()
    assert (moments.diff() < -0.1).all()


def test_qwen2_5_vl_passes_too_its_moments_apart_as_in_time(batch: DataProto, tmp_path: Path) -> None:
    policy = model()
    known = policy.model.config
    text = known.text_config.to_dict() | {"model_type": "qwen2_5_vl_text"}
    vision = {"depth": 1, "hidden_size": 32, "intermediate_size": 64, "num_heads": 2, "out_hidden_size": 64,
              "patch_size": 4, "spatial_merge_size": 2, "window_size": 16, "fullatt_block_indexes": [0],
              "tokens_per_second": 4}  # fmt: skip
    marks = {name: getattr(known, name) for name in ("image_token_id", "video_token_id", "vision_start_token_id",
                                                     "vision_end_token_id")}  # fmt: skip
    with torch.random.fork_rng():
        torch.manual_seed(0)
        other = Qwen2_5_VLForConditionalGeneration(
            Qwen2_5_VLConfig(text_config=text, vision_config=vision, tie_word_embeddings=True, **marks)
        ).eval()
    loaded = VisionLanguageModel(other, settings(), data())
    alone = torch.cat([log_probs(loaded, batch[[row]]) for row in range(len(batch))])
    torch.testing.assert_close(log_probs(loaded, batch), alone, atol=1e-5, rtol=1e-5)
    shown = loaded.on_device(batch[[3]])
    ids = shown["prompts"][0][shown["attention_mask"][0, : shown["prompts"].shape[1]].bool()]
    times = loaded.inputs.positions(ids, shown["pictures"], 0)[0][
        (ids == loaded.inputs.image_token) | (ids == loaded.inputs.video_token)
    ]
    assert times.unique().diff().tolist() == [4]  # two frames a second, two a moment, four places a second
