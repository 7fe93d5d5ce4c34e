"""The page, served on this machine or written as a folder to send.

Both give the page the same answers: from a server as JSON, in a folder as scripts, which a browser also loads from a
file. Only this machine is served, under its own names (another site's page would send its name as Host), and only
files of assets/ and runs that were named. Not covered: what is answered (runs.py, samples.py).
"""

import json
import shutil
from collections.abc import Callable, Iterator
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from ares.browse import runs, samples
from ares.errors import UserError
from ares.store import RunStore, StoreError

ASSETS = Path(__file__).parent / "assets"
KINDS = {".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".md": "text/plain"}
POLICY = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:"
ANSWERS: dict[str, Callable[..., Any]] = {
    "curves": runs.curves,
    "samples": samples.samples,
    "matching": samples.matching,
    "group": samples.group,
    "tests": samples.tests,
    "verdicts": samples.verdicts,
    "problems": samples.problems,
    "problem": samples.problem,
}
"""What the page may ask about a run, with the arguments of the function."""
NUMBERS = ("step", "number", "place")


class Pages(ThreadingHTTPServer):
    """A server of the page for some runs, on 127.0.0.1. port: 0 for any that is free. Raises StoreError."""

    daemon_threads = True

    def __init__(self, stores: list[RunStore], port: int) -> None:
        self.stores = {store.name: store for store in stores}
        try:
            super().__init__(("127.0.0.1", port), _Handler)
        except (OSError, OverflowError) as error:
            raise StoreError(f"--port {port}: cannot be listened on: {error}") from error
        self.address = f"http://127.0.0.1:{self.server_port}/"

    def answer(self, asked: dict[str, str]) -> Any:
        """Raises StoreError, and TypeError or ValueError for what is no question."""
        name = asked.pop("of", "")
        if name == "runs":
            return [runs.describe(store) for store in self.stores.values()]
        arguments = {key: int(value) if key in NUMBERS else value for key, value in asked.items()}
        store = self.stores.get(str(arguments.pop("run", "")))
        if store is None or name not in ANSWERS:
            raise ValueError(f"no such question: {name}")
        return ANSWERS[name](store, **arguments)


class _Handler(BaseHTTPRequestHandler):
    server: Pages
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        asked = urlsplit(self.path)
        host = self.headers.get("Host", "").rpartition(":")[0]
        asset = ASSETS / (asked.path.strip("/") or "index.html")
        if host not in ("127.0.0.1", "localhost"):
            self._reply(HTTPStatus.FORBIDDEN, b"only from this machine", "text/plain")
        elif asked.path == "/answer":
            self._answer(dict(parse_qsl(asked.query, keep_blank_values=True)))
        elif asset in _assets():
            self._reply(HTTPStatus.OK, asset.read_bytes(), KINDS[asset.suffix])
        else:
            self._reply(HTTPStatus.NOT_FOUND, b"no such page", "text/plain")

    def _answer(self, asked: dict[str, str]) -> None:
        try:
            found, status = _as_json(_told(self.server.answer, asked)), HTTPStatus.OK
        except (TypeError, ValueError) as error:
            status = HTTPStatus.BAD_REQUEST
            found = _as_json({"error": f"the page asked what nothing answers: {error}"})
        self._reply(status, found.encode(), "application/json")

    def _reply(self, status: HTTPStatus, content: bytes, kind: str) -> None:
        self.send_response(status)
        for name, value in {
            "Content-Type": f"{kind}; charset=utf-8", "Content-Length": str(len(content)), "Cache-Control": "no-store",
            "Content-Security-Policy": POLICY, "X-Content-Type-Options": "nosniff",
        }.items():  # fmt: skip
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *values: object) -> None:
        """Requests are not logged: a page asks for many things."""


def serve(stores: list[RunStore], port: int, started: Callable[[str], None]) -> None:
    """Serve the page until interrupted; `started` is told its address. Raises StoreError."""
    with Pages(stores, port) as pages:
        started(pages.address)
        try:
            pages.serve_forever()
        except KeyboardInterrupt:
            return


def write_folder(stores: list[RunStore], folder: Path, progress: Callable[[str], None]) -> None:
    """Write the page with everything about some runs; it opens from the disk. `progress` is told each run.

    Raises StoreError: also if the folder has files already.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise StoreError(f"--out {folder}: not an empty folder")
    try:
        shutil.copytree(ASSETS, folder, dirs_exist_ok=True)
        index = (ASSETS / "index.html").read_text(encoding="utf-8")
        (folder / "index.html").write_text(index.replace("<html", "<html data-folder", 1), encoding="utf-8")
        _write_answer(folder, "runs", [runs.describe(store) for store in stores])
        for store in stores:
            progress(f"{store.name} …")
            for key, answer in _answers_about(store):
                _write_answer(folder, key, answer)
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
            rows = samples.samples(store, step, table)
            yield f"samples/{place}", rows
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
    for number in range(len(met["id"])):
        yield f"problem/{store.name}/{number}", samples.problem(store, number)


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


def _assets() -> set[Path]:
    return {file for file in ASSETS.rglob("*") if file.suffix in KINDS}


def _as_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
