"""Reverse proxies of the tests that end TLS, with a certificate of their own for 127.0.0.1.

Covered: one that forwards bytes, and nginx with deploy/nginx.conf. Not covered: other proxies, certificates of others.
"""

import asyncio
import ssl
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

CONFIGURATION = Path(__file__).resolve().parents[1] / "deploy" / "nginx.conf"


def write_certificate(directory: Path) -> tuple[Path, Path]:
    """A self-signed certificate for 127.0.0.1, and its key: their files."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    files = directory / "certificate.pem", directory / "key.pem"
    files[0].write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    form = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    files[1].write_bytes(key.private_bytes(serialization.Encoding.PEM, *form))
    return files


@contextmanager
def nginx(ports: dict[int, tuple[int, int]], certificate: Path, key: Path) -> Iterator[None]:
    """nginx as deploy/nginx.conf has it. ports: of each that is named there, the server's here and the proxy's."""
    text = CONFIGURATION.read_text()
    for named, (inside, outside) in ports.items():
        before, line, after = text.partition(f"proxy_pass http://127.0.0.1:{named};")
        listening = before.rpartition("listen 443 ssl;")
        text = (
            f"{listening[0]}listen 127.0.0.1:{outside} ssl;{listening[2]}{line.replace(str(named), str(inside))}{after}"
        )
    directory = certificate.parent
    text = text.replace("/etc/ares/certificate.pem", str(certificate)).replace("/etc/ares/key.pem", str(key))
    places = "".join(f"{kind}_temp_path {directory / kind};" for kind in
                     ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))  # fmt: skip
    (directory / "nginx.conf").write_text(
        f"daemon off; user root; pid {directory / 'nginx.pid'}; events {{}} http {{ access_log off; {places}\n{text} }}"
    )
    command = ["nginx", "-p", str(directory), "-c", str(directory / "nginx.conf"), "-e", str(directory / "nginx.log")]
    process = subprocess.Popen(command)
    try:
        yield
    finally:
        process.terminate()
        process.wait()


@contextmanager
def tls_proxy(port: int, certificate: Path, key: Path, outside: int = 0) -> Iterator[int]:
    """A port at which a server on loopback is reached over TLS; `outside`: which one, 0 for any."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    loop = asyncio.new_event_loop()

    async def forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):  # the server is away
            its_reader, its_writer = await asyncio.open_connection("127.0.0.1", port)
            await asyncio.gather(_copy(reader, its_writer), _copy(its_reader, writer))
        writer.close()

    server = loop.run_until_complete(asyncio.start_server(forward, "127.0.0.1", outside, ssl=context))
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    try:
        yield int(server.sockets[0].getsockname()[1])
    finally:
        loop.call_soon_threadsafe(server.close)  # from here it would race with a connection that ends
        loop.call_soon_threadsafe(loop.stop)
        thread.join()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    writer.close()
