"""The outline of an output.xml: all of it but the keywords, which are nearly all of it.

What a test measured stands in its message, its tags and its suites' metadata. Keywords and
control structures, with their arguments and log messages, make up more than 99 % of a file and
are never looked at, so they are skipped as text before the XML parser sees them. That is exact,
not a guess: in XML a ``<`` outside comments and CDATA sections begins markup, so an element can
be followed to its end by its tags alone. Skipped are the elements that Robot Framework 3 to 7
writes into the bodies of tests and suites; they nest, and their end tags must match.

Line breaks are kept, so that the parser counts lines as they are in the file.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Generator, Iterator
from io import BufferedIOBase

from perftrend.errors import ArchiveError

CHUNK_BYTES = 1 << 18
MARKUP_LIMIT_BYTES = 1 << 20
"""Longer markup is taken for damage: it would have to be held in memory."""

_SKIPPED = rb"(?:kw|for|while|if|try|group)"
_MARKUP = re.compile(
    # Every branch begins with the same character outside any group: that lets the search leap from
    # one to the next. The most frequent come first; what the text does not end comes last.
    rb"</(?P<end>%b)\s*>" % _SKIPPED
    + rb"|<(?P<start>%b)(?=[\s/>])(?>[^<>\"']+|\"[^<\"]*\"|'[^<']*')*+>" % _SKIPPED
    + rb"|<!--.*?-->|<!\[CDATA\[.*?\]\]>|<\?.*?\?>"
    + rb"|<(?P<doctype>!DOCTYPE)"
    + rb"|<(?P<begun>[!?]|/?%b(?=[\s/>]))" % _SKIPPED,
    re.DOTALL,
)
_SLASH = ord("/")
_BEGUN_AT_END = re.compile(rb"<[^<>\s]{0,8}\Z")


class Outline:
    """Reads XML in chunks and passes on what is not within a keyword."""

    def __init__(self, stream: BufferedIOBase) -> None:
        self._stream = stream
        self._open: list[bytes] = []
        self._line = 1

    def __iter__(self) -> Iterator[bytes]:
        """Yield the outline piece by piece; what comes before damage is yielded before it is raised.

        :raises ArchiveError: for what is not UTF-8, declares a document type (and so may define
            entities), or ends within a keyword. The message begins with the line.
        :raises OSError, EOFError, zlib.error: as the stream does.
        """
        decoder = codecs.getincrementaldecoder("utf-8")()
        rest = b""
        # read1: what a damaged stream gave before the damage must not be lost in a buffer.
        while chunk := self._stream.read1(CHUNK_BYTES):
            text = rest + chunk
            sound = len(rest) + _sound_length(decoder, chunk)
            stop = yield from self._outside(text[:sound])
            if sound < len(text):
                raise self._damage("what follows is not UTF-8", text[stop:sound])
            rest = text[stop:]
            if len(rest) > MARKUP_LIMIT_BYTES:
                raise self._damage("markup does not end within a megabyte", b"")
        if self._open:
            raise self._damage(f"the file is cut off within <{self._open[-1].decode()}>", rest)
        yield self._passed(rest)

    def _outside(self, text: bytes) -> Generator[bytes, None, int]:
        """Yield what lies outside keywords; return where markup begins that does not end in the text."""
        start = 0
        for found in _MARKUP.finditer(text):
            kind = found.lastgroup
            if kind == "start" and text[found.end() - 2] != _SLASH:
                if not self._open:
                    yield self._passed(text[start : found.start()])
                    start = found.start()
                self._open.append(found["start"])
            elif kind == "end" and self._open:
                if self._open.pop() != found["end"]:
                    before = text[start : found.start()]
                    raise self._damage(f"{found[0].decode()} ends nothing", before)
                if not self._open:
                    yield self._skipped(text, start, found.end())
                    start = found.end()
            elif kind == "doctype":
                before = text[start : found.start()]
                raise self._damage("a document type is declared, as in no output of Robot Framework", before)
            elif kind == "begun":
                stop = found.start()
                break
        else:
            begun = _BEGUN_AT_END.search(text, max(0, len(text) - 16))
            stop = begun.start() if begun else len(text)
        yield self._skipped(text, start, stop) if self._open else self._passed(text[start:stop])
        return stop

    def _passed(self, text: bytes) -> bytes:
        self._line += text.count(b"\n")
        return text

    def _skipped(self, text: bytes, start: int, stop: int) -> bytes:
        lines = text.count(b"\n", start, stop)
        self._line += lines
        return b"\n" * lines

    def _damage(self, what: str, text_before: bytes) -> ArchiveError:
        line = self._line + text_before.count(b"\n")
        return ArchiveError(f"line {line}: {what}")


def _sound_length(decoder: codecs.IncrementalDecoder, chunk: bytes) -> int:
    """Return how many bytes of the chunk are UTF-8: all of them, unless it is damaged."""
    before = len(decoder.getstate()[0])
    if not before and chunk.isascii():
        return len(chunk)
    try:
        decoder.decode(chunk)
    except UnicodeDecodeError as error:
        return max(0, error.start - before)
    return len(chunk)
