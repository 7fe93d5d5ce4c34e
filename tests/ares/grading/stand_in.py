"""A stand-in for a model behind OpenAI's protocol: a real server on loopback that keeps what it was asked."""

import json
import threading
from abc import abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self


class StandIn(ThreadingHTTPServer):
    """`status` other than 200 refuses everything, with the message `refusal`."""

    refusal = "no such model"

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.asked: list[dict[str, Any]] = []
        self.keys: set[str | None] = set()
        self.status = 200
        self.url = f"http://127.0.0.1:{self.server_address[1]}/v1"

    @abstractmethod
    def reply(self, request: dict[str, Any]) -> dict[str, Any]:
        """The body of an answer."""

    @contextmanager
    def serving(self) -> Iterator[Self]:
        """Answer, until the context is left."""
        thread = threading.Thread(target=self.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield self
        finally:
            self.shutdown()
            self.server_close()
            thread.join()


class _Handler(BaseHTTPRequestHandler):
    server: StandIn

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.asked.append(request)
        self.server.keys.add(self.headers["Authorization"])
        body, status = self.server.reply(request), self.server.status
        sent = json.dumps(body if status == 200 else {"error": {"message": self.server.refusal}}).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(sent)))
        self.end_headers()
        self.wfile.write(sent)

    def log_message(self, *said: Any) -> None:
        """Nothing."""
