from transformers import PretrainedConfig


class RemoteConfig(PretrainedConfig):
    model_type = "remote_diffusion"
