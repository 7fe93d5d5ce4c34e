"""Calling Prefect's API without Prefect's client: password and trusted certificates.

Covered: the settings that the client reads (PREFECT_API_AUTH_STRING, PREFECT_API_KEY, PREFECT_API_SSL_CERT_FILE,
PREFECT_API_TLS_INSECURE_SKIP_VERIFY), from the environment or a Prefect profile. Not covered: the requests.
"""

import base64
import ssl
from functools import cache
from typing import Any

import certifi


def as_client(url: str) -> dict[str, Any]:
    """Arguments for httpx to call an address below Prefect's API as Prefect's client would."""
    from prefect.settings import PREFECT_API_AUTH_STRING, PREFECT_API_KEY

    headers = {}
    if password := PREFECT_API_AUTH_STRING.value():
        headers["Authorization"] = f"Basic {base64.b64encode(password.encode()).decode()}"
    elif key := PREFECT_API_KEY.value():
        headers["Authorization"] = f"Bearer {key}"
    return {"headers": headers, "verify": _trusted(url)}


def _trusted(url: str) -> ssl.SSLContext | bool:
    from prefect.settings import PREFECT_API_SSL_CERT_FILE, PREFECT_API_TLS_INSECURE_SKIP_VERIFY

    if not url.startswith("https") or PREFECT_API_TLS_INSECURE_SKIP_VERIFY.value():
        return False
    return _certificates(PREFECT_API_SSL_CERT_FILE.value() or certifi.where())


@cache  # loading takes 40 ms, and a run asks before every step
def _certificates(path: str) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=path)
