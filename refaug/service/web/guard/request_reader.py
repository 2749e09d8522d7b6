"""Where the requests in the bytes of a connection begin and end, by the same parser that uvicorn has."""

from __future__ import annotations

from typing import Final, NoReturn

import httptools

from refaug.service.process.guarded_config import ConnectionLimits

_END: Final = b"\r\n\r\n"  # of every head, and of every chunked body
_MAX_FALSE_ENDS: Final = 256  # blank lines in a chunked body that are looked at
_MAX_SHOWN: Final = 40  # bytes of a refused header that the client reads again


class UnreadableRequest(Exception):
    """The bytes are no request, or one whose end or host others may read differently."""


class OversizedRequest(Exception):
    """A part of the request is longer than its limit."""


class RequestReader:
    """The request that a connection is sending."""

    def __init__(self, limits: ConnectionLimits) -> None:
        self._limits = limits
        self._parser: httptools.HttpRequestParser | None = httptools.HttpRequestParser(self)
        self._unfinished_bytes = 0  # of the line that is being read, or before a request
        self._tail = b""  # of what was read last: the end of a head may come in two pieces
        self._start_over()

    def _start_over(self) -> None:
        self.has_begun = self.has_head = self.has_trailer = self.is_complete = False
        self.is_chunked = self.is_last = False
        self.url = b""
        self.fault = ""  # for the client: why a request that can be parsed is refused
        self.header_count = self._host_count = 0
        self.body_bytes = 0
        self._length = self._head_bytes = self._trailer_bytes = self._read_bytes = self._false_ends = 0
        self._has_news = False

    @property
    def has_old_http(self) -> bool:
        """Whether the client speaks HTTP/1.0, which knows no interim answers."""
        return self._parser is None or self._parser.get_http_version() != "1.1"

    def release(self) -> None:
        """Let go of the parser, which refers to this object."""
        self._parser = None

    def read(self, piece: bytes, start: int) -> int:
        """Read on from this place to the end of the request or of the piece, and return where that is."""
        if self.is_complete:
            self._start_over()
        while start < len(piece) and not self.is_complete:
            end = self._part_end(piece, start)
            self._read_part(piece if end - start == len(piece) else piece[start:end])
            start = end
        return start

    def _part_end(self, piece: bytes, start: int) -> int:
        """Return where to stop, so that no part holds bytes of two requests."""
        if self.has_head and not self.is_chunked:
            return min(len(piece), start + self._length - self.body_bytes)
        if self._false_ends > _MAX_FALSE_ENDS:
            return len(piece)
        at = (self._tail + piece[start : start + 3]).find(_END)
        if at >= 0:
            return start + at + 4 - len(self._tail)
        at = piece.find(_END, start)
        return at + 4 if at >= 0 else len(piece)

    def _read_part(self, part: bytes) -> None:
        had_head, self._has_news = self.has_head, False
        try:
            assert self._parser is not None
            self._parser.feed_data(part)
        except httptools.HttpParserUpgrade:  # no other protocol is spoken here: the rest is thrown away
            self.is_last = True
        except httptools.HttpParserError as error:
            raise UnreadableRequest from error
        self._tail = (self._tail + part[-3:])[-3:]
        self._unfinished_bytes = 0 if self._has_news else self._unfinished_bytes + len(part)
        if had_head:
            self._read_bytes += len(part)
            self._false_ends += self.is_chunked
        self._require_small()

    def _require_small(self) -> None:
        limits = self._limits
        if not self.has_head:
            limit = limits.head_bytes if self.has_begun else limits.stray_bytes
            is_large = self._head_bytes + self._unfinished_bytes > limit
        else:
            framing_bytes = self._read_bytes - self.body_bytes
            is_large = (
                self._head_bytes > limits.head_bytes
                or self._trailer_bytes > limits.trailer_bytes
                or self._unfinished_bytes > limits.framing_bytes
                or (self.is_chunked and framing_bytes > limits.framing_bytes + self.body_bytes // 4)
            )
        if is_large:
            raise OversizedRequest

    # ── what the parser calls ─────────────────────────────────────────────────────────────────────────────────────────

    def on_message_begin(self) -> None:
        """Note the first byte of a request; a second one in a part would be one too many."""
        if self.has_begun:
            raise UnreadableRequest
        self.has_begun = self._has_news = True

    def on_url(self, url: bytes) -> None:
        """Keep the address, which may come in parts."""
        self.url += url
        self._head_bytes += len(url)
        self._has_news = True

    def on_header(self, name: bytes, content: bytes) -> None:
        """Count a header or trailer, and keep what says how long the body is."""
        self._has_news = True
        if self.has_head:
            self.has_trailer = True
            self._trailer_bytes += len(name) + len(content) + 4
            return
        self.header_count += 1
        self._head_bytes += len(name) + len(content)
        if len(name) == 14 and name.lower() == b"content-length":
            self._length = int(content)
        elif len(name) == 4 and name.lower() == b"host":
            self._host_count += 1
        elif len(name) == 17 and name.lower() == b"transfer-encoding":
            if content.strip().lower() != b"chunked":  # proxies differ in where such a body ends
                shown = content[:_MAX_SHOWN].decode("latin-1")
                self._refuse(f"Transfer-Encoding is {shown!r}: send chunked or a Content-Length")
            self.is_chunked = True

    def on_headers_complete(self) -> None:
        """Note the end of the head; refuse one that proxies may read otherwise (RFC 9112, 3.2 and 6.1)."""
        assert self._parser is not None
        is_old = self._parser.get_http_version() == "1.0"
        if self._host_count > 1 or (self._host_count == 0 and not is_old):
            self._refuse(f"the request has {self._host_count} Host headers: send one")
        if self.is_chunked and is_old:
            self._refuse("HTTP/1.0 has no Transfer-Encoding: send HTTP/1.1, or a Content-Length")
        self.has_head = self._has_news = True
        self.is_last = is_old or not self._parser.should_keep_alive()

    def _refuse(self, fault: str) -> NoReturn:
        self.fault = fault
        raise UnreadableRequest

    def on_body(self, content: bytes) -> None:
        """Count the content of the body."""
        self.body_bytes += len(content)
        self._has_news = True

    def on_chunk_header(self) -> None:
        """Note that the line was no endless one."""
        self._has_news = True

    def on_message_complete(self) -> None:
        """Note the end of the request."""
        self.is_complete = self._has_news = True
