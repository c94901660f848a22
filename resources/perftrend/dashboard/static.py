"""Static files of the dashboard, and plotly's JavaScript from its wheel.

The URL of a file contains a hash of all files, so browsers can cache it permanently, and request it again
after any file has changed. Since the hash is a folder, scripts can import one another by relative names.
"""

from __future__ import annotations

import gzip
import hashlib
import mimetypes
import re
from dataclasses import dataclass
from functools import cache
from importlib import resources

from fastapi import APIRouter, HTTPException, Request, Response
from plotly.offline import get_plotlyjs_version

router = APIRouter(include_in_schema=False)

_FOLDER = resources.files("perftrend.dashboard") / "static"
_FOR_GOOD = "public, max-age=31536000, immutable"
_ONCE = "no-cache"
_SMALLEST = 500
"""Size in bytes below which files are not compressed."""
_PLOTLY = f"plotly-{get_plotlyjs_version()}.min.js"
_MAP_STYLE = re.compile(rb'getElementById\("([0-9a-f]{64})"\)')


@dataclass(frozen=True, slots=True)
class StaticFile:
    """A file to serve."""

    kind: str
    content: bytes
    packed: bytes
    """The content in gzip format; empty if it is too short to be worth compressing."""


def url(name: str) -> str:
    """Return the URL of a static file of the dashboard.

    :raises LookupError: if the file does not exist.
    """
    if not (_FOLDER / name).is_file():
        raise LookupError(f"static/{name} does not exist")
    return f"/static/{_version()}/{name}"


def plotly_url() -> str:
    """Return the URL of plotly's JavaScript."""
    return f"/static/{_PLOTLY}"


@cache
def plotly_style_id() -> str:
    """Return the id of the style element that plotly adds for its maps; another one if it adds none.

    The policy of pages forbids this element. plotly does not add it if another one has its id.
    """
    found = _MAP_STYLE.search(_plotly().content)
    return found[1].decode() if found else "plotly"


def prepare() -> None:
    """Read and compress all files in advance, so that requests do not wait for it."""
    _version()
    plotly_style_id()


@router.get("/static/{name}")
def plotly_file(request: Request, name: str) -> Response:
    """Return plotly's JavaScript."""
    if name != _PLOTLY:
        raise HTTPException(404, "this file does not exist")
    return _answer(request, _plotly(), cache_control=_FOR_GOOD)


@router.get("/static/{version}/{name}")
def our_file(request: Request, version: str, name: str) -> Response:
    """Return a static file; an outdated version in the URL returns the current file."""
    found = _files().get(name)
    if found is None:
        raise HTTPException(404, "this file does not exist")
    return _answer(request, found, cache_control=_FOR_GOOD if version == _version() else _ONCE)


def _answer(request: Request, file: StaticFile, *, cache_control: str) -> Response:
    headers = {"Cache-Control": cache_control, "Vary": "Accept-Encoding"}
    if file.packed and "gzip" in request.headers.get("accept-encoding", ""):
        return Response(file.packed, media_type=file.kind, headers={**headers, "Content-Encoding": "gzip"})
    return Response(file.content, media_type=file.kind, headers=headers)


@cache
def _files() -> dict[str, StaticFile]:
    return {
        entry.name: _file(entry.name, entry.read_bytes()) for entry in _FOLDER.iterdir() if entry.is_file()
    }


@cache
def _version() -> str:
    digest = hashlib.sha256()
    for name, file in sorted(_files().items()):
        digest.update(f"{name} {len(file.content)} ".encode() + file.content)
    return digest.hexdigest()[:16]


@cache
def _plotly() -> StaticFile:
    return _file(_PLOTLY, (resources.files("plotly") / "package_data" / "plotly.min.js").read_bytes())


def _file(name: str, content: bytes) -> StaticFile:
    kind = "text/javascript" if name.endswith(".js") else mimetypes.guess_type(name)[0]
    packed = gzip.compress(content, 6, mtime=0) if len(content) >= _SMALLEST else b""
    return StaticFile(kind or "application/octet-stream", content, packed)
