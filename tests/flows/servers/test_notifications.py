"""What `ares up` registers at a Prefect server: deployments, queues, a schedule and automations."""

import asyncio
import http.server
import queue
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from prefect import flow, get_client
from prefect.blocks.notifications import CustomWebhookNotificationBlock
from prefect.events import emit_event
from prefect.events.worker import EventsWorker
from prefect.settings import PREFECT_API_URL, temporary_settings
from prefect.states import Failed, Running

from flows.prefect_conductor import EVENT, RESOURCE
from flows.servers.deployment import AUTOMATIONS, BLOCK, register, register_automations
from tests import prefect_server
from tests.prefect_server import whole_server


@pytest.mark.usefixtures("prefect")
def test_an_address_is_registered_once_replaced_and_taken_away() -> None:
    names = [fields["name"] for fields in yaml.safe_load(AUTOMATIONS.read_text())]

    def registered() -> dict[str, object]:
        with get_client(sync_client=True) as client:
            found = [automation for name in names for automation in client.read_automations_by_name(name)]
        assert len({automation.name for automation in found}) == len(found)
        return {automation.name: automation.id for automation in found}

    with_address = []
    for url in ("http://127.0.0.1:9/first", "http://127.0.0.1:9/second"):
        register_address(url)
        with_address.append(registered())
        assert list(with_address[-1]) == names
        block = CustomWebhookNotificationBlock.load(BLOCK)
        assert isinstance(block, CustomWebhookNotificationBlock)
        assert block.url == url
    register_address(None)
    assert list(registered()) == names[:1]
    assert with_address[0][names[0]] == with_address[1][names[0]] == registered()[names[0]]


@pytest.mark.slow
@pytest.mark.usefixtures("prefect")
def test_deployments_have_their_form_their_queue_and_their_schedule(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flows.parameters.PROFILES", ["tiny-math"])  # in their description; all of them take seconds
    url = prefect_server.url()
    register(url, 2)
    found = {one["name"]: one for one in prefect_server.call_api(url, "POST", "deployments/filter", {})}
    assert found.keys() == {"ares-train", "ares-bootstrap", "ares-eval", "ares-ablate", "ares-gc"}
    (schedule,) = found["ares-gc"]["schedules"]
    assert (schedule["active"], schedule["schedule"]["cron"]) == (True, "0 4 * * *")
    assert found["ares-gc"]["parameters"] == {}  # nothing of a run
    assert found["ares-gc"]["work_queue_name"] == "gc"
    assert "\n- **tiny-math**: " in found["ares-train"]["description"]
    form = found["ares-train"]["parameter_openapi_schema"]
    assert {"tiny-math", "math"} <= set(form["definitions"]["Profile"]["enum"])
    assert form["definitions"]["TrainConfig"]["properties"]["steps"]["minimum"] == 1
    queues = prefect_server.call_api(url, "POST", "work_pools/ares/queues/filter", {})
    assert {queue["name"]: queue["concurrency_limit"] for queue in queues} == {"default": 2, "gc": 1}


def register_address(url: str | None) -> None:
    with get_client(sync_client=True) as client:
        register_automations(client, url)


@flow(name="ares-train")
async def a_flow(run: str = "") -> None:
    """Never started."""


@pytest.fixture
def automated(tmp_path: Path) -> Iterator[None]:
    """The flows of a test run on a Prefect server with its automations."""
    with whole_server(tmp_path) as url, temporary_settings({PREFECT_API_URL: url}):
        EventsWorker.drain_all()  # an earlier test's in this process would still tell that test's server
        yield


@pytest.mark.slow
def test_the_address_is_notified_of_a_failed_run_and_not_of_its_step(automated: None) -> None:
    told: queue.Queue[str] = queue.Queue()

    class Listens(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            told.put(self.rfile.read(int(self.headers["Content-Length"])).decode())
            self.send_response(204)
            self.end_headers()

    listener = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Listens)
    threading.Thread(target=listener.serve_forever, daemon=True).start()
    register_address(f"http://127.0.0.1:{listener.server_address[1]}/hook")

    @flow(name="ares-train-step")
    async def a_step() -> None:
        """Never started."""

    async def fails() -> None:
        async with get_client() as client:
            for failing, name in ((a_step, "first step-000001"), (a_flow, "first")):
                made = await client.create_flow_run(failing, name=name, state=Running())
                await client.set_flow_run_state(made.id, Failed(message="the judge is down"), force=True)

    asyncio.run(fails())
    first = told.get(timeout=120)
    assert "first: Failed" in first
    assert "the judge is down" in first
    with pytest.raises(queue.Empty):
        told.get(timeout=10)
    about = {"prefect.resource.id": f"{RESOURCE}.first", "prefect.resource.name": "first"}
    emit_event(EVENT, resource=about, payload={"text": "step 9: KL 3"})
    alarm = told.get(timeout=120)
    assert "first" in alarm
    assert "step 9: KL 3" in alarm
    listener.shutdown()
