import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from tensordict import TensorDict
from transformers import (
    AutoModelForCausalLM,
    Gemma3Config,
    Gemma3ForConditionalGeneration,
    Lfm2Config,
    Lfm2Model,
    MambaConfig,
    MambaModel,
    PhiConfig,
    PhiForCausalLM,
)

from ares.config.run import ModelConfig
from ares.engines import Request, SamplingSettings, TransformersEngine
from ares.models.causal import Critic, LanguageModel, ModelError, PackedDecoder
from ares.models.packed_attention import can_regroup
from ares.models.packing import Layout
from ares.models.weights import stored_tensors
from tests.ares.builders import MODEL, PAD, rows, to_batch
from tests.ares.models.families import CAUSAL, Family, build, distributions, naive, random_rows

CPU = torch.device("cpu")
# Groups differ in prompt length, rows in response length; one row has a single token.
LENGTHS = [[1, 8, 3, 5], [4, 2, 8, 6], [7, 7, 1, 8]]


@pytest.fixture(scope="module")
def policy() -> LanguageModel:
    return LanguageModel.load(ModelConfig(path=str(MODEL)), CPU)


@pytest.fixture(scope="module")
def biased(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A model whose output head has a bias."""
    path = tmp_path_factory.mktemp("phi")
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = PhiForCausalLM(
            PhiConfig(vocab_size=320, hidden_size=32, intermediate_size=64, num_hidden_layers=1, num_attention_heads=2)
        )
        model.lm_head.bias.data.normal_()
    model.save_pretrained(path)
    return str(path)


def batch() -> TensorDict:
    return to_batch(rows([[1, 0, 1, 0]] * 3, LENGTHS), PAD).batch.to(CPU)


def kl_over_the_vocabulary(own: LanguageModel, reference: LanguageModel, given: TensorDict, t: float) -> torch.Tensor:
    """The exact KL at each response token, from the models' own logits; it differs from 0."""
    ours, theirs = (distributions(each.model, given, t)[0] for each in (own, reference))
    found = (ours.exp() * (ours - theirs.detach())).sum(-1)
    assert float(found.detach().mean()) > 1e-3
    return found


def test_a_response_mask_leaves_tokens_out_and_shifts_none(policy: LanguageModel) -> None:
    partial = batch()
    partial["response_mask"][0] = 0
    partial["response_mask"][1, 2:4] = 0
    partial["response_mask"][5, 0] = 0
    tokens = policy.token_log_probs(partial, 1.0)
    torch.testing.assert_close(tokens.log_probs, naive(policy.model, partial, 1.0)[0], atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize(("of_bias", "t", "rtol", "of_gradients"), [(False, 0.8, 1e-3, 2e-3), (True, 1.0, 1e-4, 1e-4)])
def test_the_exact_kl_is_the_sum_over_the_vocabulary_with_the_policys_gradient(
    of_bias: bool, t: float, rtol: float, of_gradients: float, biased: str
) -> None:
    """A head's bias counts in it, and in log-probs."""
    path = biased if of_bias else str(MODEL)
    own, reference = (LanguageModel.load(ModelConfig(path=path), CPU) for _ in range(2))
    with torch.no_grad():
        for parameter in [own.head.bias] if of_bias else own.model.parameters():
            parameter.mul_(2.0 if of_bias else 1.05)
    log_probs, _ = naive(own.model, batch(), t)
    torch.testing.assert_close(own.token_log_probs(batch(), t).log_probs, log_probs, atol=1e-4, rtol=1e-4)
    kl = own.exact_kl(reference.frozen(), batch(), t)
    expected = kl_over_the_vocabulary(own, reference, batch(), t)
    torch.testing.assert_close(kl, expected, atol=1e-4, rtol=rtol)
    one, other = (torch.autograd.grad(each.sum(), own.head.bias if of_bias else own.head.weight)
                  for each in (kl, expected))  # fmt: skip
    torch.testing.assert_close(one, other, atol=of_gradients, rtol=max(of_gradients, 1e-3))


def test_a_teacher_that_scales_its_logits_otherwise_is_compared_by_its_own_scale(tmp_path: Path) -> None:
    folder = build(CAUSAL["Granite"], tmp_path / "student")
    shutil.copytree(folder, tmp_path / "teacher")
    settings = json.loads((tmp_path / "teacher/config.json").read_text()) | {"logits_scaling": 2.0}
    (tmp_path / "teacher/config.json").write_text(json.dumps(settings))
    student, teacher = (LanguageModel.load(ModelConfig(path=str(path)), CPU) for path in (folder, tmp_path / "teacher"))
    given = random_rows([3, 5], [[4, 2], [6]])
    expected = kl_over_the_vocabulary(student, teacher.frozen(), given, 0.8)
    torch.testing.assert_close(student.exact_kl(teacher, given, 0.8), expected, atol=1e-5, rtol=1e-3)


@pytest.mark.parametrize("family", [
    Family("qwen2", {"attention_dropout": 0.5}),
    Family("opt", {"layerdrop": 0.9, "word_embed_proj_dim": 64, "ffn_dim": 128}),  # leaves out whole layers
], ids=lambda family: family.model_type)  # fmt: skip
def test_dropout_is_off_so_that_a_policys_log_probs_are_a_number(family: Family, tmp_path: Path) -> None:
    """Gradient checkpointing puts layers in training mode, where dropout works."""
    folder = str(build(family, tmp_path))
    wild, calm = (LanguageModel.load(ModelConfig(path=folder, gradient_checkpointing=on), CPU) for on in (True, False))
    torch.testing.assert_close(
        wild.token_log_probs(batch(), 1.0).log_probs, calm.token_log_probs(batch(), 1.0).log_probs
    )


@pytest.mark.parametrize("path", ["a bias", "none"])
def test_bfloat16_computes_about_the_same(path: str, biased: str) -> None:
    where = biased if path == "a bias" else str(MODEL)
    exact = LanguageModel.load(ModelConfig(path=where), CPU).token_log_probs(batch(), 1.0)
    rounded = LanguageModel.load(ModelConfig(path=where, dtype="bfloat16"), CPU)
    assert rounded.model.dtype == torch.float32  # the weights that are trained
    torch.testing.assert_close(rounded.token_log_probs(batch(), 1.0).log_probs, exact.log_probs, atol=0.3, rtol=0.05)
    before = rounded.token_log_probs(batch(), 1.0).log_probs
    frozen = rounded.frozen().token_log_probs(batch(), 1.0).log_probs
    assert torch.equal(frozen, before)  # a policy that has not moved is at no distance from its reference
    assert rounded.head.weight.dtype == (torch.float32 if where == str(MODEL) else torch.bfloat16)


def test_the_critic_starts_at_zero_and_gives_one_value_a_response_token() -> None:
    critic = Critic(ModelConfig(path=str(MODEL)), CPU)
    values = critic.values(batch())
    assert values.tolist() == [0.0] * sum(map(sum, LENGTHS))
    torch.nn.init.ones_(critic.head.weight)
    values = critic.values(batch())
    # The value before the first response token is a function of the prompt alone: the same for the whole group.
    first = torch.tensor([0, *map(sum, LENGTHS)]).cumsum(0)[:-1]
    for start, lengths in zip(first.tolist(), LENGTHS, strict=True):
        places = torch.tensor([0, *lengths]).cumsum(0)[:-1] + start
        torch.testing.assert_close(values[places], values[places[:1]].expand(len(places)))


def test_the_critic_is_as_wide_as_the_decoders_output(tmp_path: Path) -> None:
    """OPT-350M's is narrower than its layers."""
    folder = build(Family("opt", {"word_embed_proj_dim": 32, "ffn_dim": 64}), tmp_path)
    assert not Critic(ModelConfig(path=str(folder)), CPU).values(batch()).any()


def test_the_critic_computes_in_the_models_type_and_recomputes_activations_where_that_is_asked_for() -> None:
    def passed(**settings: Any) -> tuple[torch.Tensor, list[torch.Tensor], list[torch.dtype]]:
        critic = Critic(ModelConfig(path=str(MODEL), **settings), CPU)
        torch.nn.init.ones_(critic.head.weight)
        dtypes: list[torch.dtype] = []
        critic.decoder.layers[0].mlp.up_proj.register_forward_hook(lambda _, given, out: dtypes.append(out.dtype))
        values = critic.values(batch())
        values.sum().backward()
        return values.detach(), [parameter.grad for parameter in critic.parameters()], dtypes

    values, gradients, once = passed()
    again, of_recomputed, twice = passed(gradient_checkpointing=True)
    assert (once, twice) == ([torch.float32], [torch.float32] * 2)
    torch.testing.assert_close(again, values)
    for one, other in zip(of_recomputed, gradients, strict=True):
        torch.testing.assert_close(one, other)
    rounded, _, dtypes = passed(dtype="bfloat16")
    assert (rounded.dtype, dtypes) == (torch.float32, [torch.bfloat16])
    assert 0 < float((rounded - values).abs().mean()) < 0.05 * float(values.abs().mean())


def test_a_model_with_a_tower_that_is_not_used_is_a_causal_model_with_a_critic(tmp_path: Path) -> None:
    """Gemma 3 is published with one from 4B up."""
    text = {
        "vocab_size": 320, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2,
        "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 16, "sliding_window": 4,
        "layer_types": ["sliding_attention", "full_attention"],
    }  # fmt: skip
    tower = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1, "num_attention_heads": 2,
             "image_size": 28, "patch_size": 14}  # fmt: skip
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = Gemma3ForConditionalGeneration(
            Gemma3Config(text_config=text, vision_config=tower, mm_tokens_per_image=4, image_token_index=300)
        )
    model.save_pretrained(tmp_path)
    policy = LanguageModel.load(ModelConfig(path=str(tmp_path)), CPU)
    assert policy.packs
    with torch.no_grad():
        expected, _ = naive(model.eval(), batch(), 1.0)
        torch.testing.assert_close(policy.token_log_probs(batch(), 1.0).log_probs, expected, atol=1e-5, rtol=1e-5)
    values = Critic(ModelConfig(path=str(tmp_path)), CPU).values(batch())
    assert values.tolist() == [0.0] * sum(map(sum, LENGTHS))


def test_a_model_whose_decoder_cannot_be_told_from_its_head_is_refused(tmp_path: Path) -> None:
    folder = build(Family("modernbert-decoder"), tmp_path)
    with pytest.raises(ModelError, match=r"ModernBertDecoderForCausalLM.get_decoder\(\) does not tell decoder"):
        LanguageModel.load(ModelConfig(path=str(folder)), CPU)


def test_a_model_that_carries_a_state_along_a_line_gets_one_row_a_line(policy: LanguageModel, biased: str) -> None:
    assert policy.packs
    assert LanguageModel.load(ModelConfig(path=biased), CPU).packs
    settings = {"vocab_size": 64, "hidden_size": 16, "num_hidden_layers": 1}
    with torch.random.fork_rng():
        carried = MambaModel(MambaConfig(state_size=4, **settings))
        mixed = Lfm2Model(Lfm2Config(num_attention_heads=2, num_key_value_heads=2, layer_types=["conv"], **settings))
    assert not can_regroup(carried)
    assert not can_regroup(mixed)


class WithoutRows(LanguageModel):
    def decode(self, ids: torch.Tensor, laid: Layout, batch: Any = None) -> torch.Tensor:
        return self.decoder(input_ids=ids, position_ids=laid.position_ids(), use_cache=False).last_hidden_state


def test_a_model_whose_attention_takes_no_notice_of_rows_is_noticed() -> None:
    unaware = WithoutRows.load(ModelConfig(path=str(MODEL)), CPU)
    assert not unaware.packs
    (note,) = unaware.notes
    assert re.fullmatch(r"Qwen2Model: rows are padded .* off by \d+(\.\d+)? % \(allowed: 0.1 %\); .*", note)


@pytest.mark.parametrize(("rounding", "packs"), [(2e-3, True), (0.1, False)])
def test_rounding_of_a_published_model_does_not_switch_packing_off(
    rounding: float, packs: bool, policy: LanguageModel
) -> None:
    """SmolLM2-135M's packed states differ by 3e-3 in a few channels of 576: its updates took 36 instead of 15.5 s."""

    class Published(PackedDecoder):
        decoder = policy.decoder

        def decode(self, ids: torch.Tensor, laid: Layout, batch: Any = None) -> torch.Tensor:
            hidden = 0.01 * ids[..., None] * torch.linspace(-1, 1, 576)
            hidden[..., 7] = 55.7  # beside small ones
            return hidden + (rounding if laid.blocks else 0.0)

    published = Published()
    assert (published.prepare_packing() == []) == published.packs == packs


def test_the_gradient_of_a_shared_prompt_is_the_sum_over_its_rows(policy: LanguageModel) -> None:
    def passed(packs: bool) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        policy.packs = packs
        policy.model.zero_grad()
        of_tokens = policy.token_log_probs(batch(), 1.0).log_probs
        (of_tokens * torch.linspace(-1, 1, len(of_tokens))).sum().backward()
        return of_tokens, {name: parameter.grad for name, parameter in policy.model.named_parameters()}

    try:
        (one_a_line, alone), (packed, together) = passed(False), passed(True)
    finally:
        policy.packs = True
        policy.model.zero_grad()
    torch.testing.assert_close(one_a_line, packed, atol=1e-5, rtol=1e-5)
    for name, gradient in alone.items():
        torch.testing.assert_close(together[name], gradient, atol=1e-5 * float(gradient.abs().max()), rtol=1e-4)


@pytest.mark.parametrize("model_type", ["bert", "roberta"])
def test_a_model_with_layers_between_decoder_and_head_is_refused(model_type: str, tmp_path: Path) -> None:
    """Its log-probs would be those of another model: the head is applied to the decoder's hidden states."""
    folder = build(Family(model_type, {"is_decoder": True}), tmp_path)
    with pytest.raises(ModelError, match="changes its decoder's hidden states before the output head"):
        LanguageModel.load(ModelConfig(path=str(folder)), CPU)


MIXTURE = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32, "num_dense_layers": 1}


@pytest.mark.parametrize("family", [Family("doge"), Family("afmoe", MIXTURE)], ids=lambda family: family.model_type)
def test_a_layer_may_name_the_mask_it_hands_to_attention(family: Family, tmp_path: Path) -> None:
    """Doge's and AFMoE's do, and loading ended with a TypeError."""
    folder, batch = build(family, tmp_path), random_rows([5, 9], [[7, 3], [4, 8]])
    expected, _ = naive(AutoModelForCausalLM.from_pretrained(folder).eval(), batch, 1.0)
    policy = LanguageModel.load(ModelConfig(path=str(folder)), CPU)
    with torch.no_grad():
        torch.testing.assert_close(policy.token_log_probs(batch, 1.0).log_probs, expected, atol=1e-4, rtol=1e-4)
    engine = TransformersEngine(ModelConfig(path=str(folder)), "cpu", set(), 0)
    engine.load_weights(0, stored_tensors(policy.model))
    (completion,) = engine.generate([Request([3, 4, 5], seed=1)], SamplingSettings(1.0, 1.0, 8))
    assert len(completion.token_ids) == 8


def test_a_model_that_looks_at_the_padding_behind_a_row_is_refused(tmp_path: Path) -> None:
    """Its log-probs would depend on the rows beside a row, and so on the micro-batch."""
    sizes = {"dim_ff": 64, "dim_head": 16, "prompt_length": 4, "prompt_types": 4, "segment_types": 4}
    folder = build(Family("cpmant", sizes), tmp_path)
    with pytest.raises(ModelError, match="padding behind a row changes its hidden states"):
        LanguageModel.load(ModelConfig(path=str(folder)), CPU)
