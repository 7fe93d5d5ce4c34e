"""Local stand-ins for the HTTP interfaces of e2b and morph; their commands run in a shell here."""

import json
import struct
import subprocess
import sys
import tempfile
import threading
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any


class Provider:
    """What the stand-ins share: a shell, a count of machines, and outages on demand."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.started = 0
        self.ended = 0
        self.failures: list[str] = []  # kinds of request to fail next: start, execute, truncate
        (folder / "bin").mkdir()
        (folder / "bin" / "python3").symlink_to(sys.executable)

    def fails(self, kind: str) -> bool:
        if self.failures and self.failures[0] == kind:
            self.failures.pop(0)
            return True
        return False

    def shell(self, command: str) -> tuple[int, str, str]:
        command = command.replace("/tmp/ares-sandbox", str(self.folder / "machine"))
        environment = {"PATH": f"{self.folder}/bin:/usr/bin:/bin"}
        done = subprocess.run(["/bin/bash", "-c", command], capture_output=True, text=True, env=environment, timeout=60)
        stdout = (
            done.stdout[: len(done.stdout) // 2]
            if ".json" in command and "remote_job" in command and self.fails("truncate")
            else done.stdout
        )
        return done.returncode, stdout, done.stderr


class Handler(BaseHTTPRequestHandler):
    provider: Provider
    protocol_version = "HTTP/1.1"

    def log_message(self, *args: object) -> None:
        pass

    def body(self) -> bytes:
        return (
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            if "Content-Length" in self.headers
            else self.chunks()
        )

    def chunks(self) -> bytes:
        pieces = []
        while "chunked" in self.headers.get("Transfer-Encoding", ""):
            size = int(self.rfile.readline(), 16)
            pieces.append(self.rfile.read(size))
            self.rfile.readline()
            if size == 0:
                break
        return b"".join(pieces)

    def answer(self, status: int, content: bytes, kind: str = "application/json") -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def answer_json(self, status: int, message: Any) -> None:
        self.answer(status, json.dumps(message).encode())


class MorphHandler(Handler):
    """POST /instance?snapshot_id=, GET and DELETE /instance/ID, POST /instance/ID/exec."""

    def instance(self) -> dict[str, Any]:
        return {
            "id": "morphvm_1", "object": "instance", "created": 1, "status": "ready", "ttl": {},
            "spec": {"vcpus": 1, "memory": 512, "disk_size": 1000},
            "refs": {"snapshot_id": "snapshot_1", "image_id": "image_1"},
            "networking": {"internal_ip": None, "http_services": []}, "metadata": {},
        }  # fmt: skip

    def do_GET(self) -> None:
        self.answer_json(200, self.instance())

    def do_DELETE(self) -> None:
        self.provider.ended += 1
        self.answer_json(200, {})

    def do_POST(self) -> None:
        body = self.body()
        if self.headers["Authorization"] != "Bearer a-key":
            self.answer_json(401, {"detail": "bad key"})
        elif self.path.endswith("/exec"):
            if self.provider.fails("execute"):
                self.answer_json(503, {"detail": "away"})
                return
            code, stdout, stderr = self.provider.shell(json.loads(body)["command"][2])
            self.answer_json(200, {"exit_code": code, "stdout": stdout, "stderr": stderr})
        elif self.provider.fails("start"):
            self.answer_json(503, {"detail": "away"})
        else:
            self.provider.started += 1
            self.answer_json(200, self.instance())


class E2BHandler(Handler):
    """POST /sandboxes, DELETE /sandboxes/ID, and envd's Connect stream /process.Process/Start."""

    def do_GET(self) -> None:
        self.answer(204, b"")

    def do_DELETE(self) -> None:
        self.provider.ended += 1
        self.answer(204, b"")

    def do_POST(self) -> None:
        body = self.body()
        if self.path in ("/sandboxes", "/v2/sandboxes"):
            if self.headers["X-API-Key"] != "e2b_" + "0" * 40:
                self.answer_json(401, {"code": 401, "message": "bad key"})
            elif self.provider.fails("start"):
                self.answer_json(503, {"code": 503, "message": "away"})
            else:
                self.provider.started += 1
                names = {"templateID": "base", "sandboxID": "sandbox1", "clientID": "client", "envdVersion": "0.4.0"}
                self.answer_json(201, {**names, "envdAccessToken": "token", "domain": None})
        elif self.path == "/process.Process/Start":
            if self.provider.fails("execute"):
                self.answer_json(503, {"code": "unavailable", "message": "away"})
                return
            (size,) = struct.unpack(">xI", body[:5])
            code, stdout, stderr = self.provider.shell(json.loads(body[5 : 5 + size])["process"]["args"][2])
            events: list[dict[str, Any]] = [{"start": {"pid": 7}}]
            events += [
                {"data": {name: b64encode(text.encode()).decode()}}
                for name, text in (("stdout", stdout), ("stderr", stderr))
                if text
            ]
            events.append({"end": {"exitCode": code, "exited": True, "status": f"exit status {code}"}})
            frames = [(0, {"event": event}) for event in events] + [(2, {})]
            encoded = [(flag, json.dumps(message).encode()) for flag, message in frames]
            stream = b"".join(struct.pack(">BI", flag, len(message)) + message for flag, message in encoded)
            self.answer(200, stream, "application/connect+json")
        else:
            self.answer_json(404, {"message": self.path})


@contextmanager
def serve(kind: type[Handler]) -> Iterator[tuple[Provider, str]]:
    """A stand-in on a loopback port: (provider, URL)."""
    with tempfile.TemporaryDirectory() as folder:
        provider = Provider(Path(folder))
        handler = type("BoundHandler", (kind,), {"provider": provider})
        server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield provider, f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            server.server_close()
