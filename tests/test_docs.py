"""README and docs name what exists: links, files, modules, commands with their options, settings, profiles,
metrics, variables of the environment, targets of make.

Not covered: whether a command does what the page says, and figures.
"""

import ast
import importlib.util
import re
import shlex
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml

from ares.config import Config
from ares.config.strict import walk
from flows.cli.main import app

REPOSITORY = Path(__file__).resolve().parents[1]
PAGES = [REPOSITORY / "README.md", REPOSITORY / "CONTRIBUTING.md", *sorted((REPOSITORY / "docs").rglob("*.md"))]
PRODUCT = ("algorithms", "ares", "flows", "rewards", "sandbox", "tasks", "tests", "benchmarks", "deploy")
MAP = REPOSITORY / "docs" / "coming-from-verl-or-trl.md"
"""In its tables only the first column is ours."""
FENCE = re.compile(r"^```(\w*)\n(.*?)^```", re.M | re.S)
LINK = re.compile(r"\]\(([^)\s]+)\)")
FILE = re.compile(
    r"(?<![\w/.~-])((?:ares|flows|tasks|algorithms|rewards|sandbox|examples|profiles|benchmarks|tests|docs)(?:/[\w.-]+)+)"
)
MODULE = re.compile(r"python -m ((?:benchmarks|examples|tests|flows|ares)(?:\.\w+)+)")
VARIABLE = re.compile(r"\b((?:ARES|E2B|MORPH)_[A-Z_]+)\b")
SETTING = re.compile(rf"(?:{'|'.join(Config.model_fields)})(?:\.\w+)+")
MADE = (
    "examples/tiny/checkpoints",
    "examples/smollm2/checkpoint",
    "examples/data_preprocess",
    "rewards/NAME",
)
"""Folders that a command fills or that verl has, and metrics that look like files."""


def name_of(page: Path) -> str:
    return str(page.relative_to(REPOSITORY))


def prose(page: Path) -> str:
    """The page without its code blocks."""
    return FENCE.sub("", page.read_text(encoding="utf-8"))


def blocks(page: Path, *languages: str) -> Iterator[str]:
    for language, text in FENCE.findall(page.read_text(encoding="utf-8")):
        if language in languages:
            yield text


@cache
def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings: lower case, punctuation dropped, blanks to dashes."""
    headings = re.findall(r"^#+ (.+)$", prose(page), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def commands(text: str) -> Iterator[list[str]]:
    """Words of every `ares …` command in a shell block, without comments."""
    for line in text.replace("\\\n", " ").splitlines():
        words = shlex.split(line, comments=True)
        while words and re.fullmatch(r"[A-Z_]+=\S*", words[0]):
            words = words[1:]
        if words[:1] == ["ares"]:
            yield words[1:]


def inline_commands(page: Path) -> Iterator[list[str]]:
    """Words of every `ares …` command within a sentence; a lone `…` or NAME stands for what a user fills in."""
    for span in re.findall(r"`(?:[.\w]+/)*(ares [^`]+)`", prose(page)):
        yield shlex.split(span)[1:]


def all_commands(page: Path) -> list[list[str]]:
    return [*(words for block in blocks(page, "bash") for words in commands(block)), *inline_commands(page)]


@cache
def sources() -> str:
    """The text of the product, its tests and deployments."""
    kinds = {".py", ".yaml", ".sh", ".conf", ".sbatch"}
    paths = (path for folder in PRODUCT for path in sorted((REPOSITORY / folder).rglob("*")))
    return "\n".join(path.read_text(encoding="utf-8") for path in paths if path.suffix in kinds)


def expanded(name: str) -> list[str]:
    """`a/{b,c}/d` as a/b/d and a/c/d."""
    begin, brace, rest = name.partition("{")
    if not brace:
        return [name]
    choices, _, end = rest.partition("}")
    return [each for choice in choices.split(",") for each in expanded(f"{begin}{choice}{end}")]


def metrics_of(page: Path) -> Iterator[str]:
    """Names of metrics at the head of an item: "- `a`, `b/{c,d}`: …"."""
    for head in re.findall(r"^- ((?:`[^`]+`(?:, )?)+):", prose(page), re.M):
        for span in re.findall(r"`([^`]+)`", head):
            yield from expanded(span)


def known(setting: str) -> bool:
    """Whether a setting's name leads through the configuration's models."""
    *_, (reached, _, _) = walk(setting.split("."), Config)
    return reached == setting


def key_paths(settings: Any) -> Iterator[str]:
    for key, value in settings.items():
        if isinstance(value, dict):
            yield from (f"{key}.{rest}" for rest in key_paths(value))
        else:
            yield key


def settings_of(page: Path) -> Iterator[str]:
    """Dotted settings in inline code, in commands and in YAML blocks."""
    text = prose(page)
    if page == MAP:
        text = "\n".join(line.split("|")[1] if line.startswith("|") else line for line in text.splitlines())
    spans = re.findall(r"`([^`\n]+)`", text)
    words = [word for span in spans for word in span.split()]
    words += [word for block in blocks(page, "bash") for command in commands(block) for word in command]
    for word in words:
        name, equals, _ = word.rstrip(",").partition("=")
        if SETTING.fullmatch(name) and (equals or not name.endswith((".jsonl", ".parquet", ".yaml", ".json"))):
            yield name
    for block in blocks(page, "yaml"):
        settings = yaml.safe_load(block)
        if set(settings) <= set(Config.model_fields):
            yield from key_paths(settings)


def wrong_links(page: Path) -> Iterator[str]:
    for target in LINK.findall(prose(page)):
        if "://" in target:
            continue
        file, _, anchor = target.partition("#")
        path = (page.parent / file).resolve() if file else page
        if not path.exists() or (anchor and anchor not in anchors(path)):
            yield target


def absent_files(page: Path) -> Iterator[str]:
    files = {each.rstrip(".") for each in FILE.findall(LINK.sub("", page.read_text(encoding="utf-8")))}
    return (each for each in files if not each.startswith(MADE) and not (REPOSITORY / each).exists())


def absent_modules(page: Path) -> Iterator[str]:
    modules = MODULE.findall(page.read_text(encoding="utf-8"))
    return (each for each in modules if importlib.util.find_spec(each) is None)


def unknown_commands(page: Path) -> Iterator[str]:
    """With options that they do not have, too."""
    root: Any = typer.main.get_command(app)
    for words in all_commands(page):
        command = root
        while words and words[0] in getattr(command, "commands", ()):
            command, words = command.commands[words[0]], words[1:]
        options = {name for each in command.params for name in each.opts} | {"--help"}
        unknown = [word for word in words if word.startswith("--") and word.partition("=")[0] not in options]
        if (hasattr(command, "commands") and words[:1] != ["--help"]) or unknown:
            yield f"ares {command.name} {' '.join(words)}"


def absent_profiles(page: Path) -> Iterator[str]:
    profiles = {path.stem for path in (REPOSITORY / "profiles").glob("*.yaml")}
    ablations = {path.stem for path in (REPOSITORY / "profiles" / "ablations").glob("*.yaml")}
    for command, name, *_ in filter(lambda words: len(words) > 1, all_commands(page)):
        shipped = {"train": profiles, "doctor": profiles, "ablate": ablations}.get(command)
        is_file = (REPOSITORY / name).is_file()
        if shipped is not None and name[0].islower() and name not in shipped and not is_file:
            yield f"ares {command} {name}"


def unread_variables(page: Path) -> Iterator[str]:
    return (each for each in VARIABLE.findall(page.read_text(encoding="utf-8")) if each not in sources())


def absent_targets(page: Path) -> Iterator[str]:
    targets = set(re.findall(r"^([\w-]+):", (REPOSITORY / "Makefile").read_text(encoding="utf-8"), re.M))
    code = [*re.findall(r"`([^`\n]+)`", prose(page)), *blocks(page, "bash")]
    named = [target for text in code for target in re.findall(r"(?:^|[,;:] )make ([\w-]+)", text, re.M)]
    return (each for each in named if each not in targets)


def unknown_settings(page: Path) -> Iterator[str]:
    return (each for each in settings_of(page) if not known(each))


def absent_imports(page: Path) -> Iterator[str]:
    for block in blocks(page, "python"):
        for node in ast.walk(ast.parse(block)):
            if isinstance(node, ast.ImportFrom) and str(node.module).split(".")[0] in PRODUCT:
                module = importlib.import_module(str(node.module))
                yield from (each.name for each in node.names if not hasattr(module, each.name))


CHECKS = (
    *(wrong_links, absent_files, absent_modules, unknown_commands, absent_profiles),
    *(unread_variables, absent_targets, unknown_settings, absent_imports),
)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_a_page_names_what_exists(page: Path, check: Callable[[Path], Iterator[str]]) -> None:
    assert list(check(page)) == []


def test_metrics_are_logged() -> None:
    """By the last part of their names, as most names are put together."""
    names = set(metrics_of(REPOSITORY / "docs" / "metrics.md"))
    assert len(names) > 30
    parts = {name: name.removesuffix("/…").split("/")[-1].rstrip("…_") for name in names}
    assert [name for name, part in parts.items() if not part.isupper() and part not in sources()] == []


def test_images_and_rows_are_shown() -> None:
    """What no page shows or links is left over."""
    text = "\n".join(page.read_text(encoding="utf-8") for page in PAGES)
    files = [*(REPOSITORY / "docs" / "images").iterdir(), *(REPOSITORY / "docs" / "results").glob("*.csv")]
    beside = [path.name for path in files if not path.stem.endswith("-problems")]  # these lie beside a table of rows
    assert [name for name in beside if name not in text] == []


def test_the_pages_that_code_names_are_there() -> None:
    named = re.findall(r"(?<![\w/])(docs/[\w/-]+\.(?:md|csv|svg|png))(?:#([\w-]+))?", sources())
    assert len(named) > 20
    wrong = {
        name
        for name, anchor in named
        if not (REPOSITORY / name).exists() or (anchor and anchor not in anchors(REPOSITORY / name))
    }
    assert wrong == set()


def test_the_checks_see_what_is_wrong() -> None:
    """Otherwise the tests above could pass by seeing nothing."""
    assert sum(len(list(settings_of(page))) for page in PAGES) > 100
    assert sum(len(list(commands(block))) for page in PAGES for block in blocks(page, "bash")) > 40
    assert not known("train.step")
    assert known("model.lora.rank")
    assert not known("model.lora.rnk")
    assert known("data.validation.gsm8k.prompt_key")
    assert not known("data.validation.gsm8k.promt_key")
    assert "what-goes-together" in anchors(REPOSITORY / "README.md")
    assert sum(len(list(inline_commands(page))) for page in PAGES) > 20
    assert expanded("a/{b,c}/d") == ["a/b/d", "a/c/d"]
