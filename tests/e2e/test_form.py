"""The form of a deployment in a real browser: what Prefect's UI sends when fields are left open or filled in."""

import shutil
import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from ares.config import load
from flows.parameters import RUNS_OWN, Settings, as_overrides
from flows.servers.deployment import register
from tests.prefect_server import whole_server
from tests.waiting import wait_for

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not (shutil.which("chromium") and shutil.which("chromedriver")),
        reason="needs chromium and chromedriver (Debian: apt-get install chromium chromium-driver)",
    ),
]
ARGUMENTS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
             "--disable-background-networking", "--disable-component-update", "--disable-sync",
             "--window-size=1400,2000")  # fmt: skip
BOX = """
const label = (e) => e.querySelector(':scope > .p-label__label, :scope .p-label__label').innerText
    .replace('(Optional)', '').trim().toLowerCase().replaceAll(' ', '_');
let place = null;
for (const name of arguments[0])
    place = [...document.querySelectorAll('.schema-form-property')].find((each) =>
        each.parentElement.closest('.schema-form-property') === place && label(each) === name);
return place.querySelector('select, textarea, input');
"""

CHOOSE = "arguments[0].value = arguments[1]; arguments[0].dispatchEvent(new Event('change'));"


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A Prefect server with its UI and the deployments, but without a worker."""
    with whole_server(tmp_path_factory.mktemp("prefect")) as url:
        register(url, 1)
        yield url


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = str(shutil.which("chromium"))
    for argument in ARGUMENTS:
        options.add_argument(argument)
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(str(shutil.which("chromedriver"))))
    try:
        yield driver
    finally:
        driver.quit()


def submitted(api: str, browser: Any, fields: dict[tuple[str, ...], str]) -> dict[str, Any]:
    """The parameters of the flow run that the form makes with these fields filled in."""
    deployment = httpx.get(f"{api}/deployments/name/ares-train/ares-train").json()["id"]
    browser.get(f"{api.removesuffix('/api')}/deployments/deployment/{deployment}/run")
    wait_for(lambda: button(browser, "Submit"), "the form", 120)
    for path, value in fields.items():
        box = browser.execute_script(BOX, list(path))
        browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", box)
        if box.tag_name == "select":
            browser.execute_script(CHOOSE, box, value)
        else:
            box.send_keys(value)
    before = {each["id"] for each in runs(api)}
    new: list[dict[str, Any]] = []
    for _ in range(4):
        # Looked up again, as the page redraws it meanwhile; clicked by script, as a notice may cover it.
        if (submit := button(browser, "Submit")) is not None:
            browser.execute_script("arguments[0].click()", submit)
        deadline = time.monotonic() + 30
        while not new and time.monotonic() < deadline:
            time.sleep(0.1)
            new = [one for one in runs(api) if one["id"] not in before]
        if new:
            return dict(new[0]["parameters"])
    pytest.fail(f"not accepted: {browser.find_element('tag name', 'body').text}")


def button(browser: Any, text: str) -> Any:
    return next((each for each in browser.find_elements("tag name", "button") if each.text.strip() == text), None)


def runs(api: str) -> list[dict[str, Any]]:
    return list(httpx.post(f"{api}/flow_runs/filter", json={}).json())


def test_a_form_that_nobody_filled_in_can_be_submitted_and_sends_nothing(api: str, browser: Any) -> None:
    sent = submitted(api, browser, {})
    assert sent["profile"] == RUNS_OWN
    assert as_overrides(Settings.model_validate(sent.get("settings", {}))) == []
    assert (sent.get("run", ""), sent.get("overrides", [])) == ("", [])


@pytest.mark.parametrize(
    ("path", "value", "override"),
    [
        (("algorithm", "aepo", "enabled"), "off", "algorithm.aepo.enabled=false"),
        (("algorithm", "kl", "kind"), "fixed", "algorithm.kl.kind=fixed"),
        (("algorithm", "kl", "coef"), "0.25", "algorithm.kl.coef=0.25"),
        (("train", "steps"), "7", "train.steps=7"),
        (("learner", "lr"), "0.002", "learner.lr=0.002"),
        (("model", "lora", "rank"), "4", "model.lora.rank=4"),
        (("learner", "betas"), "[0.8, 0.95]", "learner.betas=[0.8, 0.95]"),
        (("validation", "max_prompts"), "9", "validation.max_prompts=9"),
        (("tracking", "tags"), "{who: me}", "tracking.tags={who: me}"),
    ],
)
def test_a_field_changes_its_setting(api: str, browser: Any, path: tuple[str, ...], value: str, override: str) -> None:
    sent = submitted(api, browser, {("profile",): "tiny-math", ("settings", *path): value})
    assert sent["profile"] == "tiny-math"
    form = Settings.model_validate(sent["settings"])
    assert load("tiny-math", as_overrides(form)) == load("tiny-math", [override])
