"""Where requests begin and end, however their bytes come in pieces."""

from __future__ import annotations

import random

import pytest

from refaug.service.process.guarded_config import ConnectionLimits
from refaug.service.web.guard.request_reader import OversizedRequest, RequestReader, UnreadableRequest

LIMITS = ConnectionLimits()
REQUESTS = (
    b"GET /a HTTP/1.1\r\nHost: x\r\n\r\n",
    b"\r\n\r\nGET /b HTTP/1.1\r\nhost:\r\n\r\n",
    b"POST /c HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\na\r\n\r\n\r\n\r\n",
    b"POST /d HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n",
    b"POST /e HTTP/1.1\r\nHost:x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n8;x=y\r\n0\r\n\r\n0\r\n\r\n0\r\n\r\n",
    b"POST /f HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\nX: y\r\nZ: w\r\n\r\n",
    b"POST /g HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
)


@pytest.mark.parametrize("seed", range(30))
def test_each_read_ends_where_a_request_ends_for_any_pieces(seed: int) -> None:
    drawn = random.Random(seed)
    requests = [drawn.choice(REQUESTS) for _ in range(20)]
    stream, ends, position = b"".join(requests), set[int](), 0
    reader = RequestReader(LIMITS)
    while position < len(stream):
        piece = stream[position : position + drawn.choice((1, 2, 3, 5, 17, 400))]
        start = 0
        while start < len(piece):
            start = reader.read(piece, start)
            if reader.is_complete:
                ends.add(position + start)
        position += len(piece)
    assert ends == {sum(map(len, requests[: number + 1])) for number in range(len(requests))}


@pytest.mark.parametrize("seed", range(200))
def test_altered_bytes_are_read_or_refused(seed: int) -> None:
    drawn = random.Random(seed)
    stream = bytearray(b"".join(drawn.choice(REQUESTS) for _ in range(5)))
    for _ in range(drawn.randint(1, 4)):
        stream[drawn.randrange(len(stream))] = drawn.choice(b"\r\n\0 :;0aZ\xff")
    reader, start = RequestReader(LIMITS), 0
    try:
        while start < len(stream):
            before, start = start, reader.read(bytes(stream), start)
            assert start > before
    except (UnreadableRequest, OversizedRequest):
        pass


def _read(*pieces: bytes) -> RequestReader:
    reader = RequestReader(LIMITS)
    for piece in pieces:
        start = 0
        while start < len(piece):
            start = reader.read(piece, start)
    return reader


CHUNKED = b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
LARGE = {
    "line ends": [b"\r\n" * 600],
    "an address": [b"GET /" + b"a" * 70_000, b"a" * 70_000],
    "a header": [b"GET / HTTP/1.1\r\nA: ", b"a" * 70_000],
    "headers": [b"GET / HTTP/1.1\r\n", *[b"Name: " + b"a" * 1_000 + b"\r\n"] * 70],
    "a whole head": [b"GET / HTTP/1.1\r\nHost: x\r\n" + (b"Name: " + b"a" * 1_000 + b"\r\n") * 70 + b"\r\n"],
    "trailers": [CHUNKED, b"0\r\n", *[b"Name: " + b"a" * 1_000 + b"\r\n"] * 20],
    "trailers in one piece": [CHUNKED + b"0\r\n" + (b"Name: " + b"a" * 1_000 + b"\r\n") * 20],
    "a trailer": [CHUNKED, b"0\r\nA: ", *[b"a" * 1_000] * 70],
    "an extension of a chunk": [CHUNKED, b"1;", *[b"a" * 1_000] * 70],
    "extensions": [CHUNKED, *[b"1;" + b"a" * 1_000 + b"\r\nx\r\n"] * 70],
    "tiny chunks": [CHUNKED, *[b"1\r\nx\r\n" * 1_000] * 20],
}


@pytest.mark.parametrize("pieces", LARGE.values(), ids=LARGE)
def test_no_part_is_longer_than_its_limit(pieces: list[bytes]) -> None:
    with pytest.raises(OversizedRequest):
        _read(*pieces)


def test_chunks_of_usual_size_are_no_trouble() -> None:
    reader = _read(CHUNKED, *[b"14\r\n" + b"x" * 20 + b"\r\n"] * 10_000, b"0\r\n\r\n")
    assert (reader.is_complete, reader.body_bytes) == (True, 200_000)


@pytest.mark.parametrize(
    ("request_bytes", "is_last"),
    [
        (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", False),
        (b"GET / HTTP/1.0\r\n\r\n", True),
        (b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", True),
        (b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", True),
        (b"GET / HTTP/1.1\r\nHost: x\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n", True),
    ],
)
def test_the_last_request_of_a_connection_is_known(request_bytes: bytes, is_last: bool) -> None:
    assert _read(request_bytes).is_last == is_last


HEAD = b"POST / HTTP/%b\r\n%b\r\n"
REFUSED = {
    (b"1.1", b""): "the request has 0 Host headers: send one",
    (b"1.1", b"Host: x\r\nHost: x\r\n"): "the request has 2 Host headers: send one",
    (b"1.0", b"Host: x\r\nHost: y\r\n"): "the request has 2 Host headers: send one",
    (b"1.1", b"Host: x\r\nTransfer-Encoding: gzip, chunked\r\n"): (
        "Transfer-Encoding is 'gzip, chunked': send chunked or a Content-Length"
    ),
    (b"1.0", b"Transfer-Encoding: chunked\r\n"): (
        "HTTP/1.0 has no Transfer-Encoding: send HTTP/1.1, or a Content-Length"
    ),
}


@pytest.mark.parametrize(("version", "lines"), REFUSED)
def test_requests_that_proxies_may_read_otherwise_are_refused_with_the_reason(version: bytes, lines: bytes) -> None:
    reader = RequestReader(LIMITS)
    with pytest.raises(UnreadableRequest):
        reader.read(HEAD % (version, lines), 0)
    assert reader.fault == REFUSED[version, lines]
    assert not reader.has_head
