"""The page, served on this machine or written as a folder to send.

Both give the page the same answers: from a server as JSON, in a folder as scripts, which a browser also loads from a
file. Only this machine is served, under its own names (another site's page would send its name as Host), and only
files of assets/ and runs that were named. Not covered: what is answered (runs.py, samples.py).
"""

import json
import shutil
import socket
from collections.abc import Callable, Iterator
from contextlib import suppress
from http import HTTPStatus
from pathlib import Path
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from ares.browse import runs, samples
from ares.errors import UserError
from ares.store import RunStore, StoreError

ASSETS = Path(__file__).parent / "assets"
ANSWERS: dict[str, Callable[..., Any]] = {
    "curves": runs.curves,
    "samples": samples.samples,
    "texts": samples.texts,
    "group": samples.group,
    "tests": samples.tests,
    "verdicts": samples.verdicts,
    "problems": samples.problems,
    "problem": samples.problem,
}
"""What the page may ask about a run, with the arguments of the function."""
NUMBERS = ("step", "number")


def app_of(stores: list[RunStore]) -> Starlette:
    """The page over some runs, and what it asks: `answer?of=…`, which is JSON."""
    named = {store.name: store for store in stores}

    def answer(request: Request) -> Response:
        try:
            found, status = _told(_answer, named, dict(request.query_params)), HTTPStatus.OK
        except (TypeError, ValueError) as error:
            found, status = {"error": f"the page asked what nothing answers: {error}"}, HTTPStatus.BAD_REQUEST
        return Response(_as_json(found), status, media_type="application/json")

    only_here = Middleware(TrustedHostMiddleware, allowed_hosts=["127.0.0.1", "localhost"])
    return Starlette(
        routes=[Route("/answer", answer), Mount("/", StaticFiles(directory=ASSETS, html=True))],
        middleware=[only_here],
    )


def _answer(stores: dict[str, RunStore], asked: dict[str, str]) -> Any:
    """Raises StoreError, and TypeError or ValueError for what is no question."""
    name = asked.pop("of", "")
    if name == "runs":
        return [runs.describe(store) for store in stores.values()]
    arguments = {key: int(value) if key in NUMBERS else value for key, value in asked.items()}
    store = stores.get(str(arguments.pop("run", "")))
    if store is None or name not in ANSWERS:
        raise ValueError(f"no such question: {name}")
    return ANSWERS[name](store, **arguments)


def serve(stores: list[RunStore], port: int, started: Callable[[str], None]) -> None:
    """Serve the page until interrupted; `started` is told its address. Raises StoreError."""
    try:
        listening = socket.create_server(("127.0.0.1", port))
    except (OSError, OverflowError) as error:
        raise StoreError(f"--port {port}: cannot be listened on: {error}") from error
    with listening, suppress(KeyboardInterrupt):
        started(f"http://127.0.0.1:{listening.getsockname()[1]}/")
        uvicorn.Server(uvicorn.Config(app_of(stores), log_config=None)).run(sockets=[listening])


def write_folder(stores: list[RunStore], folder: Path, progress: Callable[[str], None]) -> None:
    """Write the page with everything about some runs; it opens from the disk.

    `progress` is told each run, and what cannot be read: the rest is written. Raises StoreError: also if the
    folder has files already.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise StoreError(f"--out {folder}: not an empty folder")
    try:
        shutil.copytree(ASSETS, folder, dirs_exist_ok=True)
        index = (ASSETS / "index.html").read_text(encoding="utf-8")
        index = index.replace("<html", "<html data-folder", 1).replace("-src 'self';", "-src 'self' file:;")
        (folder / "index.html").write_text(index, encoding="utf-8")
        _write_answer(folder, "runs", [runs.describe(store) for store in stores])
        for store in stores:
            progress(f"{store.name} …")
            for key, answer in _answers_about(store):
                _write_answer(folder, key, answer)
                if isinstance(answer, dict) and "error" in answer:
                    progress(answer["error"])
    except OSError as error:
        raise StoreError(f"--out {folder}: cannot be written: {error.strerror}") from error


def _answers_about(store: RunStore) -> Iterator[tuple[str, Any]]:
    """Every answer about a run that the page may ask for, under its key; a run that cannot be read has none."""
    try:
        curves = runs.curves(store)
    except StoreError:  # the tree of runs says why
        return
    yield f"curves/{store.name}", curves
    for table, steps in curves["tables"].items():
        for step in steps:
            place = f"{store.name}/{step}/{table}"
            rows = _told(samples.samples, store, step, table)
            yield f"samples/{place}", rows
            if "error" in rows:
                continue
            yield f"texts/{place}", samples.texts(store, step, table)
            for number in dict.fromkeys(rows["columns"]["group"]):
                found = samples.group(store, step, table, number)
                yield f"group/{place}/{number}", found
                if "test_outcomes" in found["samples"][0]:
                    yield f"tests/{place}/{number}", _told(samples.tests, store, step, table, number)
    for rescore in curves["rescores"]:
        for one in rescore["steps"]:
            about = rescore["name"], one["step"]
            yield "/".join(["verdicts", store.name, *map(str, about)]), _told(samples.verdicts, store, *about)
    met = samples.problems(store)
    yield f"problems/{store.name}", met
    for number, about in enumerate(zip(met["set"], met["id"], strict=True)):  # an id need not be a file's name
        yield f"problem/{store.name}/{number}", _told(samples.problem, store, *about)


def _told(ask: Callable[..., Any], *about: Any) -> Any:
    """An answer, or why there is none."""
    try:
        return ask(*about)
    except UserError as error:
        return {"error": str(error)}


def _write_answer(folder: Path, key: str, answer: Any) -> None:
    file = folder / "data" / f"{key}.js"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"answered({_as_json(key)},{_as_json(answer)});\n", encoding="utf-8")


def _as_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
