"""Rented machines behind one interface: start, execute a command, end. Their SDKs are extras, imported when used."""

import os
from typing import Any, Protocol


class Outage(RuntimeError):
    """The provider, or the way to it, failed: worth another try, never a verdict."""


class Machine(Protocol):
    """A rented machine with a shell and Python 3.11 or later."""

    def execute(self, command: str, seconds: float) -> str:
        """Standard output of a shell command. Raises Outage, also if it fails or takes longer."""
        ...

    def close(self) -> None:
        """Give the machine back."""
        ...


def _setting(name: str, what: str) -> str:
    value = os.environ.get(name)
    if not value:
        raise ValueError(f"{name} is not set: {what}")
    return value


def _import(name: str, extra: str) -> Any:
    try:
        return __import__(name, fromlist=["*"])
    except ImportError as error:
        raise ImportError(f"the {extra} provider needs its SDK: pip install {extra} ({error})") from error


class E2BMachine:
    """A sandbox of e2b.dev. Reads E2B_API_KEY; E2B_TEMPLATE names a template with Python 3.11 or later."""

    _LIFE_SECONDS = 3600

    def __init__(self) -> None:
        e2b = _import("e2b", "e2b")
        key = _setting("E2B_API_KEY", "make one at https://e2b.dev/dashboard")
        template = os.environ.get("E2B_TEMPLATE", "code-interpreter-v1")
        try:
            self._sandbox = e2b.Sandbox.create(
                template=template, timeout=self._LIFE_SECONDS, api_key=key, allow_internet_access=False
            )
        except Exception as error:  # the SDK's, httpx's and the OS's: all mean that there is no machine
            raise Outage(f"e2b: {type(error).__name__}: {error}") from error

    def execute(self, command: str, seconds: float) -> str:
        """See Machine."""
        try:
            return str(self._sandbox.commands.run(command, timeout=seconds).stdout)
        except Exception as error:  # as above; a failed command is an exception here, too
            raise Outage(f"e2b: {type(error).__name__}: {error}") from error

    def close(self) -> None:
        """See Machine."""
        try:
            self._sandbox.kill()
        except Exception as error:  # it ends by its own time limit
            raise Outage(f"e2b: {type(error).__name__}: {error}") from error


class MorphMachine:
    """An instance of morph.so. Reads MORPH_API_KEY, and MORPH_SNAPSHOT_ID: a snapshot with Python 3.11 or later."""

    _LIFE_SECONDS = 3600
    _BOOT_SECONDS = 120.0

    def __init__(self) -> None:
        api = _import("morphcloud.api", "morphcloud")
        key = _setting("MORPH_API_KEY", "make one at https://cloud.morph.so")
        snapshot = _setting("MORPH_SNAPSHOT_ID", "the snapshot to start instances from")
        try:
            self._client = api.MorphCloudClient(api_key=key, base_url=os.environ.get("MORPH_BASE_URL"))
            self._instance = self._client.instances.start(
                snapshot_id=snapshot, ttl_seconds=self._LIFE_SECONDS, ttl_action="stop"
            )
            self._instance.wait_until_ready(timeout=self._BOOT_SECONDS)
        except Exception as error:  # the SDK's, httpx's and the OS's: all mean that there is no machine
            raise Outage(f"morph: {type(error).__name__}: {error}") from error

    def execute(self, command: str, seconds: float) -> str:
        """See Machine."""
        try:
            result = self._instance.exec(["bash", "-c", command], timeout=seconds)
        except Exception as error:  # as above
            raise Outage(f"morph: {type(error).__name__}: {error}") from error
        if result.exit_code != 0:
            raise Outage(f"morph: status {result.exit_code}: {result.stderr[-300:]}")
        return str(result.stdout)

    def close(self) -> None:
        """See Machine."""
        try:
            self._instance.stop()
        except Exception as error:  # it ends by its own time limit
            raise Outage(f"morph: {type(error).__name__}: {error}") from error
