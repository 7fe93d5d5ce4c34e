"""A vision-language model (Qwen2-VL, Qwen2.5-VL) as the learner sees it: a LanguageModel whose rows may hold pictures.

Covered: pictures put in place of placeholder tokens, which are never sampled; positions in time, height and width,
packed or not; the tower trained or frozen. A picture that rows of a pass share goes through the tower once. Not
covered: architectures that feed pictures into later layers too (Qwen3-VL), a critic.
"""

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from algorithms.protocol import DataProto
from ares.config import DataConfig, ModelConfig
from ares.data import MediaReader, Patches
from ares.models.architecture import ModelError
from ares.models.causal import LanguageModel
from ares.models.packed_attention import no_mask
from ares.models.packing import Layout, RowSizes
from ares.models.policy_model import Pass

NEVER = -1e4
"""Added to the logit of a placeholder token: its probability is exactly 0 in engine and learner."""
PLACEHOLDERS = ("image_token_id", "video_token_id", "vision_start_token_id", "vision_end_token_id")

LATER_LAYERS = "deepstack_visual_indexes"
"""Setting of towers that feed pictures into later layers too."""


@dataclass(frozen=True)
class Pictures:
    """The pictures of a pass, each once, and the numbers of those that each row shows, in order."""

    patches: list[Patches]
    rows: list[list[int]]


class VisionInputs:
    """Turns tokens and pictures into the embeddings and positions that a model's decoder takes."""

    def __init__(self, model: Any, reader: MediaReader) -> None:
        """Raises ModelError."""
        if not hasattr(model.model, "get_rope_index") or hasattr(model.config.vision_config, LATER_LAYERS):
            raise ModelError(
                f"{model.config.name_or_path}: {type(model).__name__} is none of the vision-language models that ares "
                "knows (Qwen2-VL, Qwen2.5-VL)"
            )
        self.model, self.reader = model, reader
        self.image_token, self.video_token = model.config.image_token_id, model.config.video_token_id
        self.never = torch.zeros(model.config.get_text_config().vocab_size, device=model.device)
        """Added to the logits [V], so that placeholder tokens have no probability."""
        self.never[placeholder_ids(model.config)] = NEVER
        # Qwen2.5-VL spaces moments by their time; Qwen2-VL ignores this.
        self.moment = getattr(model.config.vision_config, "temporal_patch_size", 2) / reader.fps

    def read(self, rows: list[list[str]]) -> Pictures:
        """The pictures of these references. Raises MediaError."""
        places: dict[str, int] = {}
        numbers = [[places.setdefault(reference, len(places)) for reference in row] for row in rows]
        return Pictures([self.reader.patches(reference) for reference in places], numbers)

    def embed(self, ids: Tensor, pictures: Pictures, order: list[int]) -> Tensor:
        """Embeddings [..., H] of ids [...], with the pictures of the rows `order` in place of placeholders."""
        embedded = self.model.get_input_embeddings()(ids)
        if not pictures.patches:
            return embedded
        device = ids.device
        pixels = torch.cat([each.pixels for each in pictures.patches]).to(device)
        grids = torch.tensor([each.grid for each in pictures.patches], device=device)
        features = self.model.model.get_image_features(pixels, grids, return_dict=True).pooler_output
        is_placeholder = (ids == self.image_token) | (ids == self.video_token)
        shown = torch.cat([features[picture] for row in order for picture in pictures.rows[row]])
        return embedded.masked_scatter(is_placeholder[..., None], shown.to(embedded.dtype))

    def positions(self, ids: Tensor, pictures: Pictures, row: int) -> Tensor:
        """Positions in time, height and width [3, N] of the tokens ids [N] of one row."""
        if not pictures.rows[row]:
            return torch.arange(len(ids), device=ids.device).expand(3, -1)
        kinds = (ids == self.image_token).int() + 2 * (ids == self.video_token).int()
        before = torch.nn.functional.pad(kinds[:-1], (1, 0))
        video = kinds[(kinds > 0) & (before == 0)] == 2
        grids = torch.tensor([pictures.patches[picture].grid for picture in pictures.rows[row]], device=ids.device)
        positions, _ = self.model.model.get_rope_index(
            ids[None],
            mm_token_type_ids=kinds[None],
            image_grid_thw=grids[~video],
            video_grid_thw=grids[video],
            second_per_grid_ts=[self.moment] * int(video.sum()),
        )
        return positions[:, 0]

    def padded_positions(self, ids: Tensor, mask: Tensor, pictures: Pictures) -> Tensor:
        """The same of padded rows ids [B, P]: [3, B, P], 0 where mask [B, P] is."""
        positions = torch.zeros(3, *ids.shape, dtype=torch.long, device=ids.device)
        for row, seen in enumerate(mask.bool()):
            positions[:, row, seen] = self.positions(ids[row, seen], pictures, row)
        return positions


class VisionLanguageModel(LanguageModel):
    """A transformers vision-language model: tower, decoder and head."""

    def __init__(self, model: Any, config: ModelConfig, data: DataConfig | None = None) -> None:
        """Raises ModelError and MediaError."""
        assert data is not None
        self.inputs = VisionInputs(model, MediaReader(config.location, data))
        super().__init__(model, config, data)
        if not config.train_vision:
            model.model.visual.requires_grad_(False)

    def on_device(self, rows: DataProto) -> dict[str, Any]:
        """As LanguageModel's, with the rows' pictures."""
        (media,) = rows.require("media_references")
        return {**super().on_device(rows), "pictures": self.inputs.read(list(media))}

    def row_sizes(self, batch: DataProto | Pass) -> RowSizes:
        """As LanguageModel's; the same text with other pictures is another prompt."""
        sizes = super().row_sizes(batch)
        shown = list(batch.require("media_references")[0]) if isinstance(batch, DataProto) else batch["pictures"].rows
        other = torch.tensor([False, *(a != b for a, b in pairwise(map(list, shown)))], device=sizes.group.device)
        return replace(sizes, group=sizes.group + other.cumsum(0))

    def decode(self, ids: Tensor, laid: Layout, batch: Any = None) -> Tensor:
        """Hidden states [sequences, width, H] of laid-out rows with their pictures."""
        pictures = Pictures([], [[] for _ in laid.leads]) if batch is None else batch["pictures"]
        # On the CPU: transformers reads numbers for every picture, and a GPU would be waited for each time.
        tokens, lengths = ids.flatten()[laid.place].cpu(), torch.bincount(laid.row.cpu(), minlength=len(laid.leads))
        of_rows = [
            self.inputs.positions(each, pictures, row) for row, each in enumerate(tokens.split(lengths.tolist()))
        ]
        positions = torch.zeros(3, ids.numel(), dtype=torch.long, device=ids.device)
        positions[:, laid.place] = torch.cat(of_rows, 1).to(ids.device)
        positions = positions.view(3, *ids.shape)
        where = {"attention_mask": no_mask(ids.device), "layout": laid} if laid.blocks else {}
        embedded = self.inputs.embed(ids, pictures, [row for row, leads in enumerate(laid.leads) if leads])
        return self.decoder(inputs_embeds=embedded, position_ids=positions, use_cache=False, **where).last_hidden_state

    def head_bias(self) -> Tensor | None:
        """Added to the logits [V], so that placeholder tokens have no probability."""
        return self.inputs.never.to(self.compute_dtype)


def placeholder_ids(config: Any) -> list[int]:
    """The tokens for patches of pictures and for their bounds."""
    return [getattr(config, name) for name in PLACEHOLDERS if getattr(config, name, None) is not None]
