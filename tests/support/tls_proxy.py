"""Reverse proxies that speak TLS, in front of a server on the loopback: as a page sets one up, and nginx itself."""

from __future__ import annotations

import asyncio
import datetime
import re
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

NAME = "tools.example.com"
_FORWARDED = {"X-Forwarded-For": "192.0.2.7", "X-Forwarded-Proto": "https", "X-Forwarded-Host": NAME}
"""What Caddy adds to each request, of its own accord."""


def make_certificate(folder: Path) -> tuple[Path, Path]:
    """Make a certificate for `NAME` and for the loopback; returns its file and that of the key."""
    x509 = pytest.importorskip("cryptography.x509")
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.datetime.now(datetime.UTC)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, NAME)])
    names = x509.SubjectAlternativeName([x509.DNSName(NAME), x509.DNSName("localhost")])
    builder = x509.CertificateBuilder(subject_name=name, issuer_name=name, public_key=key.public_key())
    builder = builder.serial_number(1).add_extension(names, critical=False)
    builder = builder.not_valid_before(now).not_valid_after(now + datetime.timedelta(days=1))
    certificate, secret = folder / "fullchain.pem", folder / "privkey.pem"
    certificate.write_bytes(builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
    secret.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )  # fmt: skip
    return certificate, secret


def read_nginx_headers(snippet: str) -> dict[str, str]:
    """Return the headers that a configuration of nginx sets, as the server behind it gets them."""
    found = dict(re.findall(r'proxy_set_header (\S+) "?([^";]*)"?;', snippet))
    return {name: value.replace("$host", NAME) for name, value in found.items()}


@contextmanager
def run_python_proxy(port: int, headers: Mapping[str, str], folder: Path) -> Iterator[tuple[int, Path]]:
    """Run a proxy in a thread that sets *headers*; gives its port and the certificate."""
    certificate, key = make_certificate(folder)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    loop, listener = asyncio.new_event_loop(), socket.create_server(("127.0.0.1", 0))

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.IncompleteReadError):
            await _pass_on(reader, writer, port, headers)
        writer.close()

    async def main() -> None:
        async with await asyncio.start_server(handle, sock=listener, ssl=context):
            await asyncio.get_running_loop().create_future()

    def serve() -> None:
        with suppress(asyncio.CancelledError):
            loop.run_until_complete(task)

    task = loop.create_task(main())
    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield listener.getsockname()[1], certificate
    finally:
        loop.call_soon_threadsafe(task.cancel)
        thread.join(30)
        for other in asyncio.all_tasks(loop):
            other.cancel()
            with suppress(asyncio.CancelledError):
                loop.run_until_complete(other)
        loop.run_until_complete(asyncio.sleep(0))  # connections that were closed last are closed in the next step
        loop.close()


async def _pass_on(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, port: int, headers: Mapping[str, str]
) -> None:
    """Pass one request on, and its answer back piece by piece; the connection is closed after it."""
    first, *lines = (await reader.readuntil(b"\r\n\r\n")).decode().rstrip().split("\r\n")
    sent = dict(line.split(": ", 1) for line in lines)
    body = await reader.readexactly(int(sent.get("content-length") or sent.get("Content-Length") or 0))
    changed = {name.lower() for name in headers} | {"connection"}
    kept = {name: value for name, value in sent.items() if name.lower() not in changed}
    kept |= {name: value for name, value in headers.items() if value} | {"Connection": "close"}
    upstream_reader, upstream = await asyncio.open_connection("127.0.0.1", port)
    try:
        head = "".join(f"{name}: {value}\r\n" for name, value in kept.items())
        upstream.write(f"{first}\r\n{head}\r\n".encode() + body)
        gone = asyncio.ensure_future(reader.read(1))  # the client has nothing more to send: it went away
        while True:
            piece = asyncio.ensure_future(upstream_reader.read(65_536))
            await asyncio.wait([piece, gone], return_when=asyncio.FIRST_COMPLETED)
            if gone.done() or not piece.result():
                piece.cancel()
                gone.cancel()
                return
            writer.write(piece.result())
            await writer.drain()
    finally:
        upstream.close()


@contextmanager
def run_caddy_like_proxy(port: int, snippet: str, folder: Path) -> Iterator[tuple[int, Path]]:
    """Run a proxy that does what Caddy does with each request."""
    assert f"{NAME} {{" in snippet and "reverse_proxy" in snippet
    with run_python_proxy(port, _FORWARDED, folder) as place:
        yield place


@contextmanager
def run_nginx_like_proxy(port: int, snippet: str, folder: Path) -> Iterator[tuple[int, Path]]:
    """Run a proxy that sets the headers which a configuration of nginx sets."""
    with run_python_proxy(port, read_nginx_headers(snippet), folder) as place:
        yield place


@contextmanager
def run_nginx(program: str, port: int, snippet: str, folder: Path) -> Iterator[tuple[int, Path]]:
    """Run nginx itself with a page's configuration; only the ports and the paths of the certificate are others."""
    certificate, key = make_certificate(folder)
    with socket.create_server(("127.0.0.1", 0)) as free:
        own_port = free.getsockname()[1]
    for old, new in (
        ("listen 443 ssl", f"listen 127.0.0.1:{own_port} ssl"), ("127.0.0.1:8765", f"127.0.0.1:{port}"),
        (f"/etc/letsencrypt/live/{NAME}/fullchain.pem", str(certificate)),
        (f"/etc/letsencrypt/live/{NAME}/privkey.pem", str(key)),
    ):  # fmt: skip
        assert old in snippet
        snippet = snippet.replace(old, new)
    paths = "".join(f"{kind}_temp_path {folder};\n" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
    http = f"http {{\naccess_log off;\n{paths}{snippet}}}\n"
    text = f"daemon off;\npid {folder}/pid;\nerror_log stderr;\nevents {{}}\n{http}"
    (folder / "nginx.conf").write_text(text, encoding="utf-8")
    with subprocess.Popen([program, "-p", str(folder), "-c", str(folder / "nginx.conf")]) as process:
        try:
            deadline = time.monotonic() + 20
            while process.poll() is None and time.monotonic() < deadline:
                with suppress(ConnectionError), socket.create_connection(("127.0.0.1", own_port)):
                    break
                time.sleep(0.05)
            yield own_port, certificate
        finally:
            process.terminate()
