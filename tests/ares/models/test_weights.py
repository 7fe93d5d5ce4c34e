"""Missing and unexpected tensors are one error, from the files' headers and again when weights are read."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from peft import LoraConfig as PeftLoraConfig
from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForSequenceClassification, AutoTokenizer

from ares.config.run import LoraConfig, ModelConfig
from ares.models import FAMILIES
from ares.models.architecture import ModelError
from ares.models.causal import Critic, LanguageModel
from ares.models.lora import adapted_layers, add_adapters
from ares.models.weights import check_vocabulary, check_weight_files
from ares.runs.run import Run
from tests.ares import masked_builders, vision_builders
from tests.ares.builders import MODEL, config
from tests.ares.models.families import CAUSAL, CPU, SIZE, build, settings

Tensors = dict[str, Tensor]
ENTRY = "model.layers.1.mlp.up_proj.weight"


def rewritten(folder: Path, change: Callable[[Tensors], Any]) -> Path:
    """Change a checkpoint's tensors in place."""
    file = folder / "model.safetensors"
    tensors = load_file(file)
    change(tensors)
    save_file(tensors, file, {"format": "pt"})
    return folder


def without_layer(tensors: Tensors) -> None:
    for name in [name for name in tensors if "layers.1." in name]:
        del tensors[name]


BROKEN: dict[str, tuple[Callable[[Tensors], Any], str]] = {
    "a layer": (without_layer, r"missing: model.layers.1.input_layernorm.weight, .*, …$"),
    "one tensor": (lambda tensors: tensors.pop(ENTRY), rf"do not hold a LlamaForCausalLM: missing: {ENTRY}$"),
    "the head": (lambda tensors: tensors.pop("lm_head.weight"), r" missing: lm_head.weight"),
    "too much": (lambda tensors: tensors.update({"v_head.weight": torch.zeros(1)}), r"unexpected: v_head"),
    "a shape": (lambda tensors: tensors.update({ENTRY: torch.zeros(130, 64)}), rf"of another shape: {ENTRY}"),
}


@pytest.mark.parametrize("what", BROKEN)
def test_files_that_do_not_hold_the_architecture_are_refused_by_header_and_by_weight(what: str, tmp_path: Path) -> None:
    change, named = BROKEN[what]
    model = settings(rewritten(build(CAUSAL["Llama"], tmp_path), change))
    with pytest.raises(ModelError, match=named):
        check_weight_files(model)
    for load in (LanguageModel.load, Critic):
        with pytest.raises(ModelError, match=named):
            load(model, CPU)


@pytest.mark.parametrize("family", ["masked_diffusion", "with its own code", "vision_language"])
def test_other_kinds_of_models_are_looked_at_alike(family: str, tmp_path: Path) -> None:
    source = {"masked_diffusion": masked_builders.model_directory, "vision_language": lambda: vision_builders.MODEL}
    folder = shutil.copytree(source.get(family, masked_builders.remote_directory)(), tmp_path / "model")
    kind: Any = "masked_diffusion" if family == "with its own code" else family
    model = ModelConfig(path=str(folder), family=kind, trust_remote_code=kind == "masked_diffusion")
    check_weight_files(model)
    held = load_file(folder / "model.safetensors")
    name = next(name for name in held if name.endswith("norm.weight"))
    rewritten(folder, lambda tensors: tensors.pop(name))
    with pytest.raises(ModelError, match=r"missing: .*norm.weight"):
        check_weight_files(model)
    with pytest.raises(ModelError, match=r"missing: .*norm.weight"):
        FAMILIES[kind].load(model, CPU, vision_builders.data())


def test_no_weight_is_read_and_a_truncated_file_is_named(tmp_path: Path) -> None:
    folder = build(CAUSAL["Llama"], tmp_path)
    file = folder / "model.safetensors"
    header, whole = 8 + int.from_bytes(file.read_bytes()[:8], "little"), file.stat().st_size
    with file.open("r+b") as handle:  # a file with holes where the numbers were
        handle.truncate(header)
        handle.truncate(whole)
    check_weight_files(settings(folder))
    for size in (whole - 100, 50, 0):
        with file.open("r+b") as handle:
            handle.truncate(size)
        with pytest.raises(ModelError, match="its weight files cannot be read: "):
            check_weight_files(settings(folder))


def test_shards_are_looked_at_one_by_one(tmp_path: Path) -> None:
    folder = build(CAUSAL["Llama"], tmp_path / "one")
    model = AutoModelForCausalLM.from_pretrained(folder)
    model.save_pretrained(tmp_path / "shards", max_shard_size="100KB")
    shards = sorted((tmp_path / "shards").glob("*.safetensors"))
    assert len(shards) > 2
    check_weight_files(settings(tmp_path / "shards"))
    whole = load_file(shards[1])
    save_file(dict(list(whole.items())[1:]), shards[1], {"format": "pt"})
    with pytest.raises(ModelError, match="missing: "):
        check_weight_files(settings(tmp_path / "shards"))
    shards[1].unlink()
    with pytest.raises(ModelError, match=rf"its weight files cannot be read: .*{shards[1].name}"):
        check_weight_files(settings(tmp_path / "shards"))


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_weights_that_are_no_numbers_are_noticed_where_they_are_read(bad: float, tmp_path: Path) -> None:
    folder = rewritten(build(CAUSAL["Llama"], tmp_path), lambda tensors: tensors[ENTRY][3, 5:7].fill_(bad))
    check_weight_files(settings(folder))
    for load in (LanguageModel.load, Critic):
        with pytest.raises(ModelError, match=rf"numbers of .*{ENTRY.removeprefix('model.')} are NaN or inf"):
            load(settings(folder), CPU)


def test_a_reward_model_is_no_causal_one(tmp_path: Path) -> None:
    size = SIZE | {"num_labels": 1}
    AutoModelForSequenceClassification.from_config(AutoConfig.for_model("llama", **size)).save_pretrained(tmp_path)
    with pytest.raises(ModelError, match=r"do not hold a LlamaForCausalLM: .*lm_head.*score"):
        check_weight_files(settings(tmp_path))


@pytest.mark.parametrize(
    ("written", "family", "named"),
    [
        ({"model_type": "t5"}, "causal", r"no causal model can be made of its config.json \(model_type t5"),
        ({"model_type": "llama"}, "vision_language", r"no vision_language model can be made .*model_type llama"),
        ({"model_type": "unheard_of"}, "causal", "not a model that transformers can load"),
        ({"model_type": "llama", "hidden_size": 0}, "causal", "no causal model can be made"),
        (
            {"model_type": "llama", "quantization_config": {"quant_method": "fp8"}},
            "causal",
            "weights are quantised",
        ),
    ],
)
def test_other_architectures_are_refused(written: dict[str, Any], family: Any, named: str, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(written))
    with pytest.raises(ModelError, match=named) as caught:
        check_weight_files(ModelConfig(path=str(tmp_path), family=family))
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 500


def test_adapters_beside_a_model_or_alone_are_refused_and_not_trained_on(tmp_path: Path) -> None:
    """transformers puts them into the model, and reports only on their tensors."""
    folder = build(CAUSAL["Llama"], tmp_path)
    adapted = AutoModelForCausalLM.from_pretrained(folder)
    adapted.add_adapter(PeftLoraConfig(r=4, target_modules=["q_proj"]))
    adapted.save_pretrained(folder)  # the adapters alone
    assert (folder / "model.safetensors").exists()
    for load in (check_weight_files, lambda model: LanguageModel.load(model, CPU), lambda model: Critic(model, CPU)):
        with pytest.raises(ModelError, match="holds adapters: merge them"):
            load(settings(folder))
    for file in ("model.safetensors", "config.json"):  # what `ares export` writes has neither
        (folder / file).unlink()
        with pytest.raises(ModelError, match="holds adapters: merge them"):
            check_weight_files(settings(folder))


def test_a_head_that_the_settings_tie_and_the_files_do_not_is_refused(tmp_path: Path) -> None:
    """The engine, which is made of the settings alone, has no such weight."""
    folder = build(CAUSAL["Llama"], tmp_path, tie_word_embeddings=True)
    rewritten(folder, lambda tensors: tensors.update({"lm_head.weight": tensors["model.embed_tokens.weight"] + 1}))
    with pytest.raises(ModelError, match=r"do not agree on what is tied \(tie_word_embeddings\): lm_head.weight"):
        LanguageModel.load(settings(folder), CPU)


def test_what_is_no_fault_of_the_files_is_not_blamed_on_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def load(*given: Any, **how: Any) -> None:
        raise RuntimeError("DefaultCPUAllocator: can't allocate memory")

    monkeypatch.setattr("ares.models.weights.load_with_report", load)
    with pytest.raises(RuntimeError, match="can't allocate memory"):
        LanguageModel.load(settings(build(CAUSAL["Llama"], tmp_path)), CPU)


@pytest.mark.parametrize(
    ("name", "adapted"),
    [
        ("Llama", ", ".join(f"{name} × 2" for name in LoraConfig().targets)),
        ("Phi", "q_proj × 2, k_proj × 2, v_proj × 2"),
    ],
)
def test_what_is_adapted_is_told(name: str, adapted: str, tmp_path: Path) -> None:
    model = settings(build(CAUSAL[name], tmp_path), lora=LoraConfig(rank=4))
    told = adapted_layers(check_weight_files(model), model)
    policy = LanguageModel.load(model, CPU).model
    every = sum(parameter.numel() for parameter in policy.parameters())
    add_adapters(policy, model)
    trained = sum(parameter.numel() for parameter in policy.parameters() if parameter.requires_grad)
    assert told == f"LoRA trains {100 * trained / every:.3g} % of {every:,} parameters: {adapted}"


def test_targets_that_no_layer_has_the_name_of_are_refused(tmp_path: Path) -> None:
    model = settings(build(CAUSAL["GPT-NeoX"], tmp_path), lora=LoraConfig())
    with pytest.raises(ModelError, match=r"model.lora.targets=q_proj.*not found"):
        adapted_layers(check_weight_files(model), model)


def test_a_vocabulary_that_tokenizer_or_end_tokens_exceed_is_refused(tmp_path: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(MODEL)
    end = {tokenizer.eos_token_id}
    added = [number for number in tokenizer.added_tokens_decoder if number > 300]  # behind the tokens of text
    model = check_weight_files(settings(build(CAUSAL["Llama"], tmp_path, vocab_size=min(added))))
    check_vocabulary(model, tokenizer, end, [[5, min(added) - 1], []], "here")
    with pytest.raises(ModelError, match=rf"up to '<think>' .{min(added)}., the model has embeddings for {min(added)}"):
        check_vocabulary(model, tokenizer, end, [[5], [min(added), 7]], "here")
    small = check_weight_files(settings(build(CAUSAL["Llama"], tmp_path, vocab_size=min(added) - 1)))
    with pytest.raises(ModelError, match=rf"embeddings for {min(added) - 1} \(vocab_size\)"):
        check_vocabulary(small, tokenizer, end, [], "here")
    whole = check_weight_files(settings(build(CAUSAL["Llama"], tmp_path, vocab_size=len(tokenizer))))
    check_vocabulary(whole, tokenizer, {1, len(tokenizer) - 1}, [], "here")
    with pytest.raises(ModelError, match=rf"end token {len(tokenizer)} is none of the {len(tokenizer)} tokens"):
        check_vocabulary(whole, tokenizer, {1, len(tokenizer)}, [], "here")


def test_a_run_notices_before_anything_is_written(tmp_path: Path) -> None:
    broken = tmp_path / "model"
    shutil.copytree(MODEL, broken)
    rewritten(broken, without_layer)
    with pytest.raises(ModelError, match=r"missing: model.layers.1"):
        Run.check(config(f"model.path={broken}"), "run", tmp_path / "runs")
    shutil.copy(Path(MODEL) / "model.safetensors", broken)
    written = json.loads((broken / "generation_config.json").read_text()) if (
        broken / "generation_config.json").exists() else {}  # fmt: skip
    (broken / "generation_config.json").write_text(json.dumps(written | {"eos_token_id": 99999}))
    with pytest.raises(ModelError, match=r"the end token 99999 is none of"):
        Run.check(config(f"model.path={broken}"), "run", tmp_path / "runs")
    assert not (tmp_path / "runs").exists()
