"""A masked-diffusion model whose code lies beside its weights, with the interface of Dream's and no other arguments:
attention_mask "full" or [B, 1, N, N], num_logits_to_keep."""

from .configuration_remote import RemoteConfig
from .masked_model import MaskedDecoder, MaskedModel  # type: ignore[import-not-found]  # beside its weights


class Decoder(MaskedDecoder):
    def forward(self, input_ids, attention_mask=None, position_ids=None):
        return super().forward(input_ids, attention_mask, position_ids)


class RemoteModel(MaskedModel):
    config_class = RemoteConfig

    def __init__(self, config):
        super().__init__(config)
        self.model = Decoder(config)
        self.post_init()

    @classmethod
    def from_pretrained(cls, *model_args, **settings):
        """As Dream's, which sets something on what it has loaded."""
        model = super().from_pretrained(*model_args, **settings)
        model.generation_config = None
        return model

    def forward(self, input_ids, attention_mask="full", position_ids=None, num_logits_to_keep=0):
        return super().forward(input_ids, attention_mask, position_ids, num_logits_to_keep=num_logits_to_keep)
