"""A double of a log server: it serves a folder with index pages, and fails on request.

It is no Apache and no nginx, but a double that speaks HTTP as they do: index pages in either's style,
ranges, conditions, ETags. A path below ``/fault/NAME/`` is that file with a fault. Each request is a
line of JSON in the log: path, status, the range that was asked for, when it came by the clock that all
processes share, and how many bytes of the body were sent. Run as a program, it prints its port::

    python archive_server.py FOLDER LOG [--chunk BYTES] [--pause SECONDS]
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import html
import json
import os
import re
import socket
import struct
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote, urlsplit


@dataclass
class Behaviour:
    """What the server does."""

    folder: Path
    log: Path | None = None
    style: str = "nginx"
    chunk: int = 1 << 16
    pause_s: float = 0.0
    requests: list[dict[str, Any]] = field(default_factory=list)
    pages: dict[str, bytes] = field(default_factory=dict)
    """Pages that are served as they are, by path."""
    seen: Counter[str] = field(default_factory=Counter)
    headers: list[dict[str, str]] = field(default_factory=list)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: Server

    def do_GET(self) -> None:
        self.sent = 0
        self.status = 0
        self.came_s = self.server.come(self)
        self.path = unquote(urlsplit(self.path).path)
        try:
            self._answer()
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True
        finally:
            self.server.note(self)

    def _answer(self) -> None:
        behaviour = self.server.behaviour
        path = self.path
        if found := re.fullmatch(r"/fault/([\w-]+)(/.*)", path):
            behaviour.seen[path] += 1
            path = found[2]
            fault = getattr(self, f"fault_{found[1].replace('-', '_')}")
            if fault(path, behaviour.seen[self.path]):
                return
        if path in behaviour.pages:
            self.plain(200, behaviour.pages[path], "text/html")
            return
        file = (behaviour.folder / path.lstrip("/")).resolve()
        if not file.is_relative_to(behaviour.folder.resolve()) or not file.exists():
            self.plain(404, b"not here")
        elif file.is_dir():
            if not path.endswith("/"):
                self.redirect(quote(self.path) + "/")
            else:
                self.plain(200, index(file, path, behaviour.style).encode(), "text/html")
        else:
            self.file(file)

    def plain(self, status: int, body: bytes, kind: str = "text/plain", **headers: str) -> None:
        self.begin(status, {"Content-Type": kind, "Content-Length": str(len(body)), **headers})
        self.body(body)

    def redirect(self, location: str, status: int = 301) -> None:
        self.plain(status, b"moved", Location=location)

    def begin(self, status: int, headers: dict[str, str]) -> None:
        self.status = status
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()

    def body(self, content: bytes) -> None:
        behaviour = self.server.behaviour
        for start in range(0, len(content), behaviour.chunk):
            self.wfile.write(content[start : start + behaviour.chunk])
            self.sent += len(content[start : start + behaviour.chunk])
            # A client that is killed must not find all of a small file in its buffers.
            if behaviour.pause_s:
                time.sleep(behaviour.pause_s / (40 if start else 1))

    def file(self, file: Path, *, cut: int | None = None, **more: str) -> None:
        """Send a file, with ranges and conditions; ``cut``: reset the connection after so many bytes."""
        content = file.read_bytes()
        etag = f'"{hashlib.md5(content, usedforsecurity=False).hexdigest()}"'
        headers = {
            "ETag": etag,
            "Last-Modified": formatdate(file.stat().st_mtime, usegmt=True),
            "Accept-Ranges": "bytes",
            **more,
        }
        headers = {name: value for name, value in headers.items() if value}
        same = [value for name in ("ETag", "Last-Modified") if (value := headers.get(name))]
        asked, known = self.headers.get("Range", ""), self.headers.get("If-None-Match", "")
        since = self.headers.get("If-Modified-Since", "")
        if (known and known in same) or (not known and since and since in same):
            self.begin(304, headers)
            return
        start = 0
        if asked and self.headers.get("If-Range", same[0] if same else "") in (*same, ""):
            start = int(asked.removeprefix("bytes=").removesuffix("-"))
            if start >= len(content):
                self.plain(416, b"", Content_Range=f"bytes */{len(content)}")
                return
            headers["Content-Range"] = f"bytes {start}-{len(content) - 1}/{len(content)}"
        headers.setdefault("Content-Length", str(len(content) - start))
        self.begin(206 if start else 200, headers)
        self.body(content[start:] if cut is None else content[start : start + cut])
        if cut is not None and start + cut < len(content):
            self.reset()

    def reset(self) -> None:
        """Break the connection off as a crash does."""
        self.wfile.flush()
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.connection.close()
        self.close_connection = True

    # ---- faults: return True when the answer was given

    def fault_twice_500(self, path: str, count: int) -> bool:
        return count <= 2 and (self.plain(500, b"out of order"), True)[1]

    def fault_always_500(self, path: str, count: int) -> bool:
        self.plain(500, b"out of order")
        return True

    def fault_busy(self, path: str, count: int) -> bool:
        return count == 1 and (self.plain(429, b"later", Retry_After="1"), True)[1]

    def fault_busy_for_long(self, path: str, count: int) -> bool:
        self.plain(503, b"later", Retry_After="86400")
        return True

    def fault_unauthorized(self, path: str, count: int) -> bool:
        self.plain(401, b"who?", WWW_Authenticate='Basic realm="x"')
        return True

    def fault_forbidden(self, path: str, count: int) -> bool:
        self.plain(403, b"no")
        return True

    def fault_reset(self, path: str, count: int) -> bool:
        """Break off after 20,000 bytes, each time."""
        self.file(self.server.behaviour.folder / path.lstrip("/"), cut=20_000)
        return True

    def fault_always_reset(self, path: str, count: int) -> bool:
        self.file(self.server.behaviour.folder / path.lstrip("/"), cut=0)
        return True

    def fault_reset_without_ranges(self, path: str, count: int) -> bool:
        del self.headers["Range"]
        cut = 20_000 if count == 1 else None
        self.file(self.server.behaviour.folder / path.lstrip("/"), cut=cut)
        return True

    def fault_changed(self, path: str, count: int) -> bool:
        """Break off; then it is another version, which the server does not notice for the range."""
        file = self.server.behaviour.folder / path.lstrip("/")
        if count == 1:
            self.file(file, cut=20_000, ETag='"before"')
        else:
            self.file(file)
        return True

    def fault_short(self, path: str, count: int) -> bool:
        """Promise more than there is."""
        content = (self.server.behaviour.folder / path.lstrip("/")).read_bytes()
        self.begin(200, {"Content-Length": str(len(content) + 1000)})
        self.body(content)
        self.close_connection = True
        return True

    def fault_drip(self, path: str, count: int) -> bool:
        content = (self.server.behaviour.folder / path.lstrip("/")).read_bytes()
        self.begin(200, {"Content-Length": str(len(content))})
        for byte in content:
            self.body(bytes([byte]))
            self.wfile.flush()
            time.sleep(0.02)
        return True

    def fault_drip_head(self, path: str, count: int) -> bool:
        """Send a head that has no end, a letter now and then."""
        self.wfile.write(b"HTTP/1.1 200 OK\r\nX-Slow: ")
        with contextlib.suppress(OSError):
            for _ in range(2000):
                self.wfile.write(b"a")
                self.wfile.flush()
                time.sleep(0.03)
        self.close_connection = True
        return True

    def fault_endless(self, path: str, count: int) -> bool:
        self.begin(200, {"Connection": "close"})
        self.close_connection = True
        for _ in range(1000):
            self.body(b"x" * 65536)
        return True

    def fault_circle(self, path: str, count: int) -> bool:
        self.redirect(self.path + ("b" if not self.path.endswith("b") else ""))
        return True

    def fault_longer_and_longer(self, path: str, count: int) -> bool:
        self.redirect(self.path + "x")
        return True

    def fault_to_file(self, path: str, count: int) -> bool:
        self.redirect("file:///etc/passwd")
        return True

    def fault_huge_redirect(self, path: str, count: int) -> bool:
        self.begin(302, {"Location": path, "Content-Length": str(10**12)})
        self.close_connection = True
        return True

    def fault_elsewhere(self, path: str, count: int) -> bool:
        """Send to the same file under another name of this server."""
        self.redirect(f"http://localhost:{self.server.server_port}{path}")
        return True

    def fault_login_page(self, path: str, count: int) -> bool:
        self.plain(200, b"<!DOCTYPE html>\n<html><body>Please log in</body></html>", "text/html")
        return True

    def fault_empty(self, path: str, count: int) -> bool:
        self.plain(200, b"")
        return True

    def fault_wrong_md5(self, path: str, count: int) -> bool:
        file = self.server.behaviour.folder / path.lstrip("/")
        self.file(file, Content_MD5="1B2M2Y8AsgTpgAmY7PhCfg==" if count == 1 else "")
        return True

    def fault_always_wrong_md5(self, path: str, count: int) -> bool:
        file = self.server.behaviour.folder / path.lstrip("/")
        self.file(file, Content_MD5="1B2M2Y8AsgTpgAmY7PhCfg==")
        return True

    def fault_wrong_range(self, path: str, count: int) -> bool:
        file = self.server.behaviour.folder / path.lstrip("/")
        if "Range" not in self.headers:
            self.file(file, cut=20_000 if count == 1 else None)
        else:
            content = file.read_bytes()
            size = len(content)
            self.plain(206, content[1:], Content_Range=f"bytes 1-{size - 1}/{size}")
        return True

    def fault_garbage(self, path: str, count: int) -> bool:
        self.wfile.write(b"\x00\xff no HTTP at all\r\n\r\n")
        self.close_connection = True
        return True

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        """Say nothing: the log says it."""


def index(folder: Path, path: str, style: str) -> str:
    """Return an index page as Apache or nginx writes it."""
    rows = []
    for entry in sorted(folder.iterdir()):
        name = entry.name + ("/" if entry.is_dir() else "")
        link = f'<a href="{quote(name)}">{html.escape(name)}</a>'
        moment = time.gmtime(entry.stat().st_mtime)
        size = "-" if entry.is_dir() else str(entry.stat().st_size)
        if style == "nginx":
            rows.append(f"{link} {time.strftime('%d-%b-%Y %H:%M', moment)} {size:>20}")
        else:
            rounded = size if len(size) < 4 else f"{int(size) / 1024:.1f}K"
            rows.append(
                f'<tr><td valign="top"><img src="/icons/x.gif" alt="[ ]"></td><td>{link}</td>'
                f'<td align="right">{time.strftime("%Y-%m-%d %H:%M", moment)}  </td>'
                f'<td align="right">{rounded}</td><td>&nbsp;</td></tr>'
            )
    title = f"Index of {html.escape(path)}"
    if style == "nginx":
        listing = "\n".join(['<a href="../">../</a>', *rows])
        head = f"<head><title>{title}</title></head>"
        return f"<html>{head}<body><h1>{title}</h1><hr><pre>{listing}</pre><hr></body></html>"
    sort = '<tr><th><a href="?C=N;O=D">Name</a></th><th><a href="?C=M;O=A">Last modified</a></th></tr>'
    parent = '<tr><td><a href="/">Parent Directory</a></td></tr>'
    return (
        '<!DOCTYPE HTML PUBLIC "-//W3C//DTD HTML 3.2 Final//EN">\n'
        f"<html><head><title>{title}</title></head><body><h1>{title}</h1><table>{sort}{parent}\n"
        + "\n".join(rows)
        + "</table></body></html>"
    )


class Server(ThreadingHTTPServer):
    """The double, listening on a port of its own."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, behaviour: Behaviour) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.behaviour = behaviour
        self.active = 0
        self._lock = threading.Lock()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/"

    @property
    def requests(self) -> list[dict[str, Any]]:
        """What was requested, in the order in which it came, once all of it is answered.

        A client may know the answer a little earlier.
        """
        while self.active:
            time.sleep(0.001)
        return sorted(self.behaviour.requests, key=lambda each: float(each["came_s"]))

    def come(self, request: Handler) -> float:
        """Note that a request came; return when."""
        with self._lock:
            self.active += 1
            self.behaviour.headers.append(dict(request.headers))
            return time.monotonic()

    def note(self, request: Handler) -> None:
        """Note what became of a request."""
        line = {
            "path": request.path,
            "status": request.status,
            "range": request.headers.get("Range", ""),
            "came_s": request.came_s,
            "sent": request.sent,
        }
        with self._lock:
            self.behaviour.requests.append(line)
            if self.behaviour.log:
                with self.behaviour.log.open("a") as log:
                    log.write(json.dumps(line) + "\n")
            self.active -= 1

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of a client that went away."""


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("log", type=Path)
    parser.add_argument("--chunk", type=int, default=1 << 16)
    parser.add_argument("--pause", type=float, default=0.0)
    given = parser.parse_args()
    server = Server(Behaviour(given.folder, given.log, chunk=given.chunk, pause_s=given.pause))
    print(server.server_port, flush=True)  # noqa: T201 - who started it reads this
    threading.Thread(target=_end_with_parent, args=(os.getppid(),), daemon=True).start()
    server.serve_forever()


def _end_with_parent(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(0)


if __name__ == "__main__":
    main()
