from .masked_model import MaskedModelConfig  # type: ignore[import-not-found]  # beside its weights


class RemoteConfig(MaskedModelConfig):
    model_type = "remote_diffusion"
