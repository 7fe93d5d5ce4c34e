"""An S3 server (moto on loopback), and a network in front of it that fails on demand."""

import http.client
import http.server
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

Fault = Callable[[str, str], str | None]
"""Of a request's method and path what goes wrong: `500`, `lost` (it is done, and the answer does not come),
`unconditional` (its conditions are ignored), None."""


class Network:
    """The address of the store as clients see it. `fault` is asked of every request, and may wait."""

    def __init__(self, port: int, address: str = "127.0.0.1") -> None:
        self.fault: Fault = lambda method, path: None
        network = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def handle_one_request(self) -> None:
                self.raw_requestline = self.rfile.readline(65537)
                if not self.raw_requestline or not self.parse_request():
                    self.close_connection = True
                    return
                network.forward(self, port)

            def log_message(self, format: str, *arguments: Any) -> None:
                """Nobody reads it."""

        self.server = http.server.ThreadingHTTPServer((address, 0), Handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = f"http://{address}:{self.server.server_address[1]}"

    def forward(self, request: http.server.BaseHTTPRequestHandler, port: int) -> None:
        if request.headers.get("Expect") == "100-continue":
            request.send_response_only(100)
            request.end_headers()
        length = int(request.headers.get("Content-Length") or 0)
        body = request.rfile.read(length)
        wrong = self.fault(request.command, request.path)
        if wrong == "500":
            request.wfile.write(b"HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\n\r\n")
            return
        headers = {name: value for name, value in request.headers.items() if name.lower() != "expect"}
        if wrong == "unconditional":
            headers = {name: value for name, value in headers.items() if not name.lower().startswith("if-")}
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        connection.request(request.command, request.path, body or None, headers)
        answer = connection.getresponse()
        content = answer.read()
        connection.close()
        if wrong == "lost":
            request.close_connection = True
            return
        request.send_response_only(answer.status, answer.reason)
        for name, value in answer.getheaders():
            if name.lower() not in ("content-length", "transfer-encoding", "connection"):
                request.send_header(name, value)
        size = answer.getheader("Content-Length", "0") if request.command == "HEAD" else str(len(content))
        request.send_header("Content-Length", size)
        request.end_headers()
        request.wfile.write(content)
        request.wfile.flush()


@contextmanager
def object_store(address: str = "127.0.0.1") -> Iterator[tuple[Network, dict[str, str]]]:
    """The network in front of a store with an empty bucket `bucket`, and the environment that leads there."""
    import boto3
    import requests
    from moto.server import ThreadedMotoServer
    from s3fs import S3FileSystem

    S3FileSystem.clear_instance_cache()  # one of an earlier test in this process has that test's address
    store = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    store.start()
    port = store.get_host_and_port()[1]
    network = Network(port, address)
    environment = {"AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "x", "AWS_DEFAULT_REGION": "us-east-1",
                   "AWS_ENDPOINT_URL": network.url, "AWS_EC2_METADATA_DISABLED": "true"}  # fmt: skip
    client = boto3.client("s3", endpoint_url=f"http://127.0.0.1:{port}", region_name="us-east-1",
                          aws_access_key_id="x", aws_secret_access_key="x")  # fmt: skip
    requests.post(
        f"http://127.0.0.1:{port}/moto-api/reset", timeout=60
    )  # an earlier store of this process had the same
    client.create_bucket(Bucket="bucket")
    try:
        yield network, environment
    finally:
        network.server.shutdown()
        network.server.server_close()
        store.stop()
