"""`ares browse` in a real browser: what a person clicks and presses, from a server and from a folder."""

import json
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from queue import Queue
from typing import Any

import pandas as pd
import pytest

from ares.browse import serve, write_folder
from ares.store import RunStore
from tests.ares.store_builders import commit
from tests.e2e.test_form import browser  # noqa: F401 - a fixture
from tests.short_runs import told, train
from tests.waiting import wait_for

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not (shutil.which("chromium") and shutil.which("chromedriver")), reason="needs chromium"),
]
HOSTILE = "<img src=x onerror=\"document.title='taken'\"><script>document.title='taken'</script></pre>"


@pytest.fixture(scope="module")
def stores(runs: Path, tmp_path_factory: pytest.TempPathFactory) -> list[RunStore]:
    """The shared run, with a response of step 4 that is a page's text, and a fork of it that was trained."""
    folder = tmp_path_factory.mktemp("runs")
    shutil.copytree(runs / "uninterrupted", folder / "first")
    assert told(folder, "fork", "first", "--at", "2", "--run", "faster", "learner.lr=1e-3").returncode == 0
    assert train(folder, "faster", "learner.lr=1e-3") == 0
    verifier = folder / "verifier.py"
    verifier.write_text("def right(completions, **columns):\n    return [0.0 for _ in completions]\n")
    again = told(folder, "rescore", "first", f"reward.kind={verifier}:right", "--steps", "1:3")
    assert again.returncode == 0, again.stderr
    file = folder / "first" / "steps" / "000004" / "samples.parquet"
    rows = pd.read_parquet(file)
    rows.loc[0, ["response", "prompt", "ground_truth"]] = HOSTILE
    rows.to_parquet(file)
    return [*(RunStore(folder / name) for name in ("first", "faster")), made_up(RunStore(folder / "made"))]


def made_up(store: RunStore) -> RunStore:
    """A run of one sample: a program of two tests, written in an episode of two turns."""
    turns = [{"said": "print(1)", "heard": "one test fails"}, {"said": "print(2)", "heard": None}]
    sample = {
        "slot": 0, "sample": 0, "id": "task-0", "prompt": "Print 2.", "response": "print(1)print(2)", "accuracy": 0.0,
        "test_outcomes": ["accepted", "wrong_answer"], "error_type": "wrong_answer", "transcript": json.dumps(turns),
        "tokens": 8, "reward": 0.25, "reward_code": 0.35, "reward_length": -0.1,
    }  # fmt: skip
    store.write_run({"config": {"model": {"path": "nowhere"}}})
    rows = store.write_rows("bootstrap/samples.parquet", pd.DataFrame([sample]))
    store.write_commit(commit(0, None, artifacts={"samples": rows}))
    return store


@pytest.fixture(scope="module")
def served(stores: list[RunStore]) -> str:
    address: Queue[str] = Queue()
    threading.Thread(target=serve, args=(stores, 0, address.put), daemon=True).start()
    return address.get(timeout=60)


@pytest.fixture(scope="module")
def written(stores: list[RunStore], tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("page")
    write_folder(stores, folder, lambda line: None)
    return (folder / "index.html").as_uri()


@pytest.fixture(params=["served", "written"])
def page(request: pytest.FixtureRequest, browser: Any) -> "Page":  # noqa: F811
    return Page(browser, request.getfixturevalue(request.param))


class Page:
    """What a person does with the page."""

    def __init__(self, browser: Any, address: str) -> None:  # noqa: F811
        self.browser, self.address = browser, address
        browser.get("about:blank")
        self.open("run=first")

    def open(self, shown: str) -> None:
        self.browser.get(f"{self.address}#{shown}")
        self.wait(lambda: self.all(".sample .response"), "a sample is shown")

    def all(self, selector: str) -> list[Any]:
        return list(self.browser.find_elements("css selector", selector))

    def texts(self, selector: str) -> list[str]:
        found = "[...document.querySelectorAll(arguments[0])].map((each) => each.innerText.trim())"
        return list(self.browser.execute_script(f"return {found}", selector))

    def point_at(self, element: Any, *, clicking: bool = False) -> None:
        """Move the mouse to the middle of an element."""
        from selenium.webdriver import ActionChains

        moved = ActionChains(self.browser).move_to_element(element)
        (moved.click() if clicking else moved).perform()

    def click(self, selector: str, text: str = "") -> None:
        found = self.wait(lambda: [each for each in self.all(selector) if text in each.text], f"{selector} {text}")
        found[0].click()

    def choose(self, name: str, value: str) -> None:
        self.click(f"[name={name}] option[value='{value}']")

    def press(self, key: str) -> None:
        self.browser.find_element("tag name", "body").send_keys(key)

    def wait(self, condition: Callable[[], Any], what: str) -> Any:
        return wait_for(condition, what, 20)

    def errors(self) -> list[str]:
        return [each["message"] for each in self.browser.get_log("browser") if each["level"] == "SEVERE"]


def test_the_newest_step_opens_with_curves_samples_and_coloured_tokens(page: Page) -> None:
    assert len(page.all(".plot canvas")) == 4
    assert page.texts(".list .chosen td:nth-child(3)") == ["0"]
    page.press("j")
    page.wait(lambda: page.texts(".list .chosen td:nth-child(3)") == ["1"], "the next sample")
    page.wait(lambda: len(page.all(".token")) > 5, "its tokens")
    assert len({token.value_of_css_property("background-color") for token in page.all(".token")}) > 2
    assert page.errors() == []


def test_what_a_response_contains_is_shown_as_text(page: Page) -> None:
    page.click("[role=tab]", "text")
    page.wait(lambda: page.texts(".sample pre.response") == [HOSTILE], "the response as it stands")
    assert page.texts(".sample pre.prompt") == [HOSTILE]
    assert page.texts(".sample .key") == [HOSTILE]
    assert page.browser.title == "ares browse"
    assert page.all("#page img") == []


def test_a_click_on_a_curve_shows_the_samples_behind_it(page: Page) -> None:
    chart = page.all(".plot[data-metric='val/accuracy'] .u-over")[0]
    page.point_at(chart, clicking=True)
    page.wait(lambda: "step=2" in page.browser.current_url and "table=evaluation" in page.browser.current_url, "step 2")
    page.wait(lambda: "held out" in page.texts("select[name=table]")[0], "held-out samples")
    page.wait(lambda: "no tokens" in " ".join(page.texts(".sample .trouble")), "why they have no colours")


def test_a_program_is_shown_by_its_tests_its_rewards_parts_and_an_episode_turn_by_turn(page: Page) -> None:
    page.open("run=made")
    assert page.texts(".tests .mark") == ["✓ accepted", "✗ wrong_answer"]
    parts = page.all(".sample .facts .parts i")
    assert [part.get_attribute("title") for part in parts] == ["length −0.1000", "code +0.3500"]
    page.click(".views [role=tab]", "turns")
    page.wait(lambda: page.texts(".sample .masked") == ["one test fails"], "what the environment said, apart")
    assert page.texts(".sample pre.response")[0].split() == ["1▸", "print(1)", "one", "test", "fails", "2▸", "print(2)"]


def test_filters_and_search_leave_what_fits(page: Page) -> None:
    total = int(page.texts("output")[0].split(" of ")[1])
    page.choose("verdict", "right")
    page.wait(lambda: set(page.texts(".list td .mark")) == {"✓"}, "right ones alone")
    right = int(page.texts("output")[0].split(" of ")[0])
    page.choose("verdict", "wrong")
    page.wait(lambda: page.texts("output") == [f"{total - right} of {total}"], "the others")
    page.click(".filters button", "clear")
    page.press("/")
    page.all("[name=text]")[0].send_keys("ONERROR")
    page.wait(lambda: page.texts("output") == [f"1 of {total}"], "the one with the text")


def test_a_search_that_fails_says_why(page: Page) -> None:
    """It looked as if no response had the text."""
    asked = ["texts/first/4/samples"]
    fail = "arguments[0].forEach((key) => answers.set(key, Promise.resolve({ error: 'the table is gone' })))"
    page.browser.execute_script(fail, asked)
    page.all("[name=text]")[0].send_keys("zzz")
    page.wait(lambda: "the table is gone" in page.texts(".trouble"), "why nothing was searched")


def test_hovering_a_token_tells_what_was_measured(page: Page) -> None:
    page.press("j")
    page.wait(lambda: len(page.all(".token")) > 5, "tokens")
    page.point_at(page.all(".token")[2])
    told = page.wait(lambda: page.texts(".tip"), "the tip")[0]
    assert all(name in told for name in ("token 3", "entropy", "log-prob", "KL", "advantage"))


def test_a_problem_is_followed_through_training_in_two_runs(page: Page) -> None:
    page.click("[aria-label='compare faster']")
    page.wait(lambda: page.texts("main > details > summary") == ["first and faster: what differs"], "the comparison")
    assert "learner.lr" in " ".join(page.texts(".tree .differences"))
    page.press("o")
    page.click(".problems tbody tr", "heldout-0000")
    page.wait(lambda: len(page.all(".through .moments")) == 2, "both runs")
    steps = [page.texts(f"[data-run={run}] .moment a") for run in ("first", "faster")]
    assert steps == [[f"step {step}" for step in (0, 2, 4)]] * 2
    assert page.all(".answer.right, .answer.wrong")
    page.click("[data-run=faster] .moment a", "step 4")
    page.wait(lambda: "run=faster" in page.browser.current_url and page.texts("select[name=table]"), "its samples")


def test_verdicts_that_another_reward_changed_are_listed(page: Page) -> None:
    page.click("[role=tab]", "judged again")
    page.click(".judged tbody tr:nth-child(3)")
    page.wait(lambda: page.texts("h6") == ["step 3: verdicts that changed"], "the step")
    page.wait(lambda: page.texts(".verdicts tbody tr"), "its verdicts")
    assert {*page.texts(".verdicts tbody td:nth-child(3)")} == {"✓ → ✗"}


def test_the_keys_step_and_turn_the_light(page: Page) -> None:
    page.press("\ue012")  # ←
    page.wait(lambda: "step=3" in page.browser.current_url, "the step before")
    before = page.browser.execute_script("return getComputedStyle(document.documentElement).backgroundColor")
    page.press("d")
    after = page.browser.execute_script("return getComputedStyle(document.documentElement).backgroundColor")
    assert before != after
    page.press("?")
    page.wait(lambda: page.all("dialog[open]"), "the list of keys")
    page.press("\ue00c")  # Escape
    page.wait(lambda: not page.all("dialog[open]"), "it is closed")
