"""What every test shares: no telemetry, no hub, one thread, and no trace in the user's own Prefect, MLflow or runs."""

import atexit
import gc
import os
import shutil
import signal
import sys
import tempfile
from pathlib import Path

import certifi

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["RAY_TQDM_PATCH_PRINT"] = "0"  # `print` stays Python's, which a judged test may name
_home = tempfile.mkdtemp(prefix="ares-tests-")
atexit.register(shutil.rmtree, _home, ignore_errors=True)
os.environ["PREFECT_HOME"] = os.path.join(_home, "prefect")
os.environ["ARES_RUNS"] = os.path.join(_home, "runs")
# Prefect's client loads all certificates, 50 ms, several times per flow run: one is enough, as none is checked.
_last = "-----END CERTIFICATE-----\n"
os.environ["PREFECT_API_SSL_CERT_FILE"] = os.path.join(_home, "certificate.pem")
Path(os.environ["PREFECT_API_SSL_CERT_FILE"]).write_text(certifi.contents().partition(_last)[0] + _last)
for _name in ("PREFECT_API_URL", "MLFLOW_TRACKING_URI", "RAY_ADDRESS"):
    os.environ.pop(_name, None)

from collections.abc import Callable, Generator, Iterator  # noqa: E402
from typing import Any  # noqa: E402

import pytest  # noqa: E402

import flows.environment  # noqa: E402, F401
from tests.golden import recorded_cases  # noqa: E402


def pytest_configure(config: pytest.Config) -> None:
    """The controller of xdist starts the services that all its workers share, and the workers as forked processes."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # So a shell starts what it starts in the background, and all that tests start would inherit it: a worker of
        # Prefect's, which ends by a SIGINT to itself, would never end.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if config.getoption("numprocesses", None) and "PYTEST_XDIST_WORKER" not in os.environ:
        from tests import fork_server, prefect_server, shared_run

        if config.args_source is config.ArgsSource.TESTPATHS:  # all tests
            shared_run.start()
        prefect_server.start()
        fork_server.start()
        config.option.tx = [f"popen//python={fork_server.python()}"] * len(config.option.tx)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """What pytest has collected stays: Python need not search it for garbage."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Under `--dist loadgroup` a file is one worker's; tests that need `runs` come first, all on one worker.

    Otherwise each worker would train the run that these tests share.
    """

    def shares(item: pytest.Item) -> bool:
        return "runs" in getattr(item, "fixturenames", ())

    for item in items:
        item.add_marker(pytest.mark.xdist_group("runs" if shares(item) else str(item.path)))
    items.sort(key=lambda item: not shares(item))


@pytest.fixture(scope="session")
def runs() -> Path:
    """A directory of runs with one, `uninterrupted`, that ran from start to end with a Prefect server of its own."""
    from tests import shared_run

    return shared_run.directory()


@pytest.fixture(scope="module", autouse=True)
def _ray_ends_with_the_file() -> Iterator[None]:
    """Otherwise tests of later files would join the Ray that a file left behind, or fail to connect to their own."""
    yield
    if "ray" in sys.modules:
        sys.modules["ray"].shutdown()


@pytest.fixture
def prefect() -> Iterator[None]:
    """Flows of this test run on the Prefect server that all tests share."""
    from tests.prefect_server import connected

    with connected():
        yield


@pytest.fixture
def golden() -> Callable[[str], list[dict[str, Any]]]:
    """The cases of one file of recorded numbers (tests/golden)."""
    return recorded_cases
