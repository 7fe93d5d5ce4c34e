"""Rented machines behind one interface: start, execute a command, end. Their SDKs are extras, imported when used."""

import contextlib
import importlib
import os
from collections.abc import Iterator
from typing import Any, Protocol

_LIFE_SECONDS = 3600
_BOOT_SECONDS = 120.0


class Outage(RuntimeError):
    """The provider, or the way to it, failed: worth another try, never a verdict."""


class Machine(Protocol):
    """A rented machine with a shell and Python 3.11 or later. Every call raises Outage."""

    def execute(self, command: str, seconds: float) -> str:
        """Standard output of a shell command, which must succeed within these seconds."""
        ...

    def close(self) -> None:
        """Give the machine back; one that cannot be reached ends by its own time limit."""
        ...


def _setting(name: str, what: str) -> str:
    value = os.environ.get(name)
    if not value:
        raise ValueError(f"{name} is not set: {what}")
    return value


def _sdk(module: str, extra: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ImportError(f"the {extra} provider needs its SDK: pip install {extra} ({error})") from error


@contextlib.contextmanager
def _reaching(provider: str) -> Iterator[None]:
    """Whatever the SDK, httpx or the system raise means that the machine cannot be used."""
    try:
        yield
    except Exception as error:
        raise Outage(f"{provider}: {type(error).__name__}: {error}") from error


class E2BMachine:
    """A sandbox of e2b.dev. Reads E2B_API_KEY; E2B_TEMPLATE names a template with Python 3.11 or later."""

    def __init__(self) -> None:
        e2b = _sdk("e2b", "e2b")
        key = _setting("E2B_API_KEY", "make one at https://e2b.dev/dashboard")
        template = os.environ.get("E2B_TEMPLATE", "code-interpreter-v1")
        with _reaching("e2b"):
            self._sandbox = e2b.Sandbox.create(
                template=template, timeout=_LIFE_SECONDS, api_key=key, allow_internet_access=False
            )

    def execute(self, command: str, seconds: float) -> str:
        """See Machine."""
        with _reaching("e2b"):  # a failed command is an exception, too
            return str(self._sandbox.commands.run(command, timeout=seconds).stdout)

    def close(self) -> None:
        """See Machine."""
        with _reaching("e2b"):
            self._sandbox.kill()


class MorphMachine:
    """An instance of morph.so. Reads MORPH_API_KEY, and MORPH_SNAPSHOT_ID: a snapshot with Python 3.11 or later."""

    def __init__(self) -> None:
        api = _sdk("morphcloud.api", "morphcloud")
        key = _setting("MORPH_API_KEY", "make one at https://cloud.morph.so")
        snapshot = _setting("MORPH_SNAPSHOT_ID", "the snapshot to start instances from")
        with _reaching("morph"):
            client = api.MorphCloudClient(api_key=key, base_url=os.environ.get("MORPH_BASE_URL"))
            self._instance = client.instances.start(snapshot_id=snapshot, ttl_seconds=_LIFE_SECONDS, ttl_action="stop")
            self._instance.wait_until_ready(timeout=_BOOT_SECONDS)

    def execute(self, command: str, seconds: float) -> str:
        """See Machine."""
        with _reaching("morph"):
            result = self._instance.exec(["bash", "-c", command], timeout=seconds)
            if result.exit_code != 0:
                raise OSError(f"status {result.exit_code}: {result.stderr[-300:]}")
            return str(result.stdout)

    def close(self) -> None:
        """See Machine."""
        with _reaching("morph"):
            self._instance.stop()
