"""The client for a model behind an OpenAI-compatible URL: a judge (judge.py), a teacher (teacher.py)."""

import os
from typing import TYPE_CHECKING

from ares.config import ConfigError

if TYPE_CHECKING:
    from openai import OpenAI

RETRIES = 2
"""Times that a request is repeated, with growing pauses, if the server is away or busy, or does not answer in time."""


def openai_client(setting: str, url: str, timeout: float) -> "OpenAI":
    """A client that waits `timeout` seconds for an answer. Its key is OPENAI_API_KEY.

    Raises ConfigError, which names the setting that asks for it, without the package openai.
    """
    try:
        import openai
    except ImportError as error:
        raise ConfigError(f"{setting} needs the package openai: pip install -e '.[judge]' ({error})") from error
    # The servers that people run for themselves want some key, and do not look at it.
    key = os.environ.get("OPENAI_API_KEY", "none")
    return openai.OpenAI(base_url=url, api_key=key, timeout=timeout, max_retries=RETRIES)
