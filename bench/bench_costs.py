"""What the worst bodies do to others, by metric and by route: ratios to an idle server, and memory.

For every metric and every route that takes a body, bodies of 64 KiB, 1 MiB and the limit are searched for the worst:
texts of several shapes for metrics; for routes each part of the documented example, grown in several ways until the
body has its size. The slowest of a size are kept, grown further, and measured: while their client waits and after it
has left, others ask for `/healthz` and for a small `bleu`.
"""

from __future__ import annotations

import argparse
import copy
import http.client
import json
import random
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from common import ROOT, free_port, pss_of, tree_of, write_result
from service_load import stop, wait_until_ready

sys.path.append(str(ROOT / "tests"))

from studying import chat_protocol, new_study

KIB: Final = 1024
LOG: Final = "everyday-en"
ENCODER: Final = "all-minilm-l6-v2"
LARGEST: Final = "limit"
SIZES: Final = {"64 KiB": 64 * KIB, "1 MiB": 1024 * KIB, LARGEST: 31 * 1024 * KIB}
KEPT: Final = {"64 KiB": 3, "1 MiB": 2, LARGEST: 1}  # bodies of each size that are measured beside others
HOME: Final = (  # commands that make what is measured: real sizes, of few dialogues
    "start --conversations 600",
    f"train vectors {LOG}",
    "log demo --output FOLDER/demo.jsonl --items-output FOLDER/demo-items.jsonl",
    "log ingest FOLDER/demo.jsonl --log demo --language en",  # in which many answer the same
    "train rater demo --name base --preset base --epochs 1",
    f"train ruber {LOG} --name base --preset base --epochs 1",
    f"train vhred {LOG} --name base --preset base --steps 20",
    "train adem FOLDER/rated.jsonl --encoder base --name base",
    "train judge-fit FOLDER/rated.jsonl --name base --metric chrf --metric rouge-l",
)
OF_WORDS: Final = ("rouge-1", "rouge-2", "rouge-l", "chrf", "chrf++", "ter", "meteor")
OF_VECTORS: Final = tuple(
    f"{name}:vectors={model}"
    for names, model in (
        (("embedding-average", "vector-extrema", "pooled", "greedy"), LOG),
        (("bertscore", "sentence-cosine"), ENCODER),
    )
    for name in names
)
METRICS: Final = (  # all but judges, whose work others do
    "bleu", "multi-bleu", "delta-bleu", "cider", "chrf:char-order=10", *OF_WORDS, *OF_VECTORS, "refaug-1",
    "rater:model=base", f"ruber:model=base,norm=none,vectors={LOG}", "likelihood:model=base", "adem:model=base",
    "judge-fit:model=base", "panel:of=chrf+rouge-l",
    *(f"upsilon-{name}" for name in ("bleu", *OF_WORDS, *OF_VECTORS)),
)  # fmt: skip
IDLE_REQUESTS: Final = 50
LOADS: Final = 3  # requests within which a busy machine has loaded what a metric needs
QUIET_S: Final = 0.3  # that the server rests between two bodies
SMALL: Final = json.dumps(
    {"items": [{"id": "1", "references": ["we open at nine"], "replies": {"a": "at nine"}}], "metrics": ["bleu"]}
).encode()
JSON: Final = "application/json"


# ── Requests, and what they do to others ──────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, kw_only=True)
class Sent:
    """A request."""

    method: str
    path: str
    body: bytes = field(repr=False)
    of: str = ""  # what is special about it
    kind: str = JSON


@dataclass
class MeasuredServer:
    """A running server with something of everything."""

    process: subprocess.Popen[bytes]
    port: int
    cookies: str = ""

    def send(self, sent: Sent, timeout_s: float = 60.0) -> tuple[int, float, bytes]:
        """Return status (0: the client left before the answer), seconds and body of an answer."""
        begun = time.perf_counter()
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout_s)
        headers = {"Content-Type": sent.kind, "X-Action": f"bench-{time.time_ns()}", "Cookie": self.cookies}
        status, content = 0, b""
        try:
            connection.request(sent.method, sent.path, sent.body or None, headers)
            answer = connection.getresponse()
            status, content = answer.status, answer.read()
            self.cookies = (answer.getheader("Set-Cookie") or self.cookies).partition(";")[0]
        except (OSError, http.client.HTTPException):
            pass
        finally:
            connection.close()
        return status, time.perf_counter() - begun, content

    def json(self, method: str, path: str, body: Any = None) -> Any:
        """Return an answer that has to be a good one."""
        status, _, content = self.send(Sent(method=method, path=path, body=json.dumps(body).encode() if body else b""))
        if status not in (200, 201, 202):
            sys.exit(f"{method} {path}: {status} {content[:300]!r}")
        return json.loads(content) if content else None

    def memory(self) -> int:
        """Return the proportional memory of all processes."""
        return sum(pss_of(pid) for pid in tree_of(self.process.pid))


HEALTH: Final = Sent(method="GET", path="/healthz", body=b"")
BLEU: Final = Sent(method="POST", path="/v1/scores", body=SMALL)


def measure(server: MeasuredServer, sent: Sent, seconds: float, memory: int) -> dict[str, Any]:
    """Send a request whose client waits so many seconds, and ask for small things until it is over, and after."""
    over, answers = threading.Event(), list[tuple[int, float, bytes]]()
    took: dict[str, list[float]] = {"healthz": [], "bleu": []}
    failed, peak = [0], [0]

    def others(name: str, small: Sent) -> None:
        while not over.is_set() or not took[name]:
            status, passed, _ = server.send(small)
            took[name].append(passed)
            failed[0] += status != 200
            peak[0] = max(peak[0], server.memory()) if name == "healthz" else peak[0]
            time.sleep(0.01)

    threads = [threading.Thread(target=others, args=pair) for pair in (("healthz", HEALTH), ("bleu", BLEU))]
    for thread in threads:
        thread.start()
    answers.append(server.send(sent, seconds))
    time.sleep(QUIET_S)
    over.set()
    for thread in threads:
        thread.join()
    status, passed, _ = answers[0]
    figures = {f"{name}_most_s": round(max(seconds_of), 4) for name, seconds_of in took.items()}
    grown = round((peak[0] - memory) / (KIB * KIB), 1)
    return {"of": sent.of, "status": status, "seconds": round(passed, 3), "failed": failed[0], **figures, "mib": grown}


def worst(server: MeasuredServer, found: Sequence[Sent], keep: int, settings: argparse.Namespace) -> dict[str, Any]:
    """Return the figures of the worst of these requests: the slowest are measured beside others."""
    by_time = sorted(found, key=lambda sent: -server.send(sent, settings.seconds)[1])
    memory = server.memory()
    rows = [measure(server, sent, settings.seconds, memory) for sent in by_time[:keep]]
    slowest = max(rows, key=lambda row: max(row["bleu_most_s"], row["healthz_most_s"]))
    return {**slowest, "kept": [row["of"] for row in rows]}


# ── Bodies of metrics ─────────────────────────────────────────────────────────────────────────────────────────────────


SAID: Final = "the of and to a in is it you i we he do go so no my me at be on or if up as yes not are was but"


def _words(characters: int, draw: random.Random) -> str:
    said = SAID.split()  # short words that have vectors
    return " ".join(draw.choice(said) for _ in range(characters // 4))


def _words_that_differ(count: int, draw: random.Random) -> str:
    return " ".join(f"w{draw.getrandbits(28)}" for _ in range(count))


# The texts of a pair, of so many characters each; 20,000 are the most that a text may have.
SHAPES: Final[dict[str, tuple[int, Callable[[int, random.Random], str]]]] = {
    "one word repeated": (20_000, lambda characters, _: "the " * (characters // 4)),
    "one long word": (20_000, lambda characters, _: "a" * characters),
    "words in any order": (10_000, _words),
    "500 words in any order": (1_900, _words),
    "20 words in any order": (75, _words),
    "words that differ": (19_000, lambda characters, draw: _words_that_differ(characters // 10, draw)),
    "combining characters": (20_000, lambda characters, _: "e\u0301" * (characters // 2)),
    "punctuation": (20_000, lambda characters, _: ".,!?" * (characters // 4)),
}


def body_of(metric: str, size: int, shape: str) -> bytes:
    """Return a request of about so many bytes."""
    characters, text = SHAPES[shape]
    draw, items, length = random.Random(size), list[dict[str, Any]](), 0
    while length < size and len(items) < 1_000:
        part = min(characters, size // 4)
        number, said = str(len(items)), text(part, draw)
        references = [{"text": said, "weight": 1.0} if metric == "delta-bleu" else said]
        item = {"id": number, "utterance": text(75, draw), "references": references, "replies": {"a": text(part, draw)}}
        length += len(json.dumps(item, ensure_ascii=False).encode())
        items.append(item)
    return json.dumps({"items": items, "metrics": [metric]}, ensure_ascii=False).encode()


# ── Bodies of routes ──────────────────────────────────────────────────────────────────────────────────────────────────


def parts_of(example: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Yield where each part of an example stands."""
    yield path
    if isinstance(example, dict):
        for name, inner in example.items():
            yield from parts_of(inner, (*path, name))
    elif isinstance(example, list) and example:
        yield from parts_of(example[0], (*path, 0))


def grown(part: Any, size: int) -> Iterator[tuple[str, Any]]:
    """Yield a part of an example in the forms that it may have with about so many bytes."""
    if isinstance(part, list) and part:
        count = size // (len(json.dumps(part[0])) + 8) + 1
        copies = [copy.deepcopy(part[0]) for _ in range(count)]
        for number, one in enumerate(copies):
            if isinstance(one, dict) and "id" in one:
                one["id"] = f"{number}"
        yield "more elements", copies
    if isinstance(part, dict) and part:
        name, inner = next(iter(part.items()))
        count = size // (len(json.dumps(inner)) + len(name) + 16) + 1
        yield "more fields", {**part, **{f"{name}{number}": inner for number in range(count)}}
    if isinstance(part, str):
        yield "long words", "a" * size
        yield "many words", "a " * (size // 2)
        yield "brackets", "[" * size
    yield "numbers", [1] * (size // 2)
    yield "lists", [[]] * (size // 3)
    yield (
        "depth",
        json.loads("[" * 900 + "]" * 900) if size < 4_096 else [json.loads("[" * 300 + "]" * 300)] * (size // 600),
    )


def bodies_of(example: Any, size: int, wanted: Sequence[str]) -> Iterator[tuple[str, bytes]]:
    """Yield bodies of about so many bytes, each with one part of the example grown: the wanted ones, or else all."""
    for path in parts_of(example):
        part = example
        for step in path:
            part = part[step]
        for way, larger in grown(part, size):
            of = f"{'.'.join(map(str, path)) or 'body'}: {way}"
            if wanted and of not in wanted:
                continue
            body = copy.deepcopy(example)
            if not path:
                body = larger
            else:
                inner = body
                for step in path[:-1]:
                    inner = inner[step]
                inner[path[-1]] = larger
            yield of, json.dumps(body).encode()


def routes_of(server: MeasuredServer, names: dict[str, str]) -> Iterator[tuple[str, str, list[Any]]]:
    """Yield method, path and examples of each route that takes JSON."""
    for path, methods in server.json("GET", "/openapi.json")["paths"].items():
        for method, route in methods.items():
            content = route.get("requestBody", {}).get("content", {}).get(JSON)
            if content is None:
                continue
            place = path
            for name, text in names.items():
                place = place.replace(name, text)
            examples = content.get("examples", {"one": {"value": content.get("example", {})}})
            yield method.upper(), place.replace("{", "").replace("}", ""), [one["value"] for one in examples.values()]


def table_of(shape: str, size: int) -> bytes:
    """Return a table to upload of about so many bytes."""
    head = b"id,prompt,gold,new\n"
    match shape:
        case "rows":
            return head + b"".join(b"%d,how are you,fine,well\n" % number for number in range(size // 24))
        case "columns":
            columns = size // 16
            return b",".join(b"c%d" % at for at in range(columns)) + b"\n" + b",".join([b"1"] * columns) + b"\n"
        case "cells":
            return head + b'1,how are you,"[' + b"1+1j," * (size // 5) + b'1]",well\n'
        case "lists":
            line = b'{"id": "1", "gold": ' + b"[" * 200 + b"]" * 200 + b"}\n"
            return line * (size // len(line))
        case "quotes":
            return head + b'1,"' + b'""' * (size // 2) + b'",a,b\n'
    return b'{"a":' * (size // 5)


TABLES: Final = ("rows", "columns", "cells", "lists", "quotes", "depth")


def previews_of(server: MeasuredServer, size: int) -> Iterator[Sent]:
    """Upload tables of this size, and yield requests to preview them."""
    for shape in TABLES:
        end = "jsonl" if shape in ("lists", "depth") else "csv"
        path = f"/v1/uploads?name=bench-{shape}.{end}"
        status, _, content = server.send(
            Sent(method="POST", path=path, body=table_of(shape, size), kind="application/octet-stream")
        )
        if status == 201:
            mapping = ["utterance=prompt", "reference=gold", "reply:new=new"] if end == "csv" else []
            order = {"items": f"upload:{json.loads(content)['id']}", "map": mapping}
            yield Sent(method="POST", path="/v1/uploads/preview", body=json.dumps(order).encode(), of=shape)


def uploads_of(size: int) -> Iterator[Sent]:
    """Yield files to upload."""
    for shape in TABLES:
        path = f"/v1/uploads?name=bench-{shape}.csv"
        yield Sent(method="POST", path=path, body=table_of(shape, size), of=shape, kind="application/octet-stream")


# ── The server ────────────────────────────────────────────────────────────────────────────────────────────────────────


def rated(folder: Path) -> None:
    """Write items of the home again, with ratings that are drawn."""
    draw = random.Random(1)
    with (folder / "rated.jsonl").open("w", encoding="utf-8") as file:
        for line in (folder / "home" / f"{LOG}-items.jsonl").read_text("utf-8").splitlines()[:100]:
            item = json.loads(line)
            item |= {"references": [item["replies"]["human"]], "scale": [1, 5]}
            item |= {"ratings": {name: [draw.randint(1, 5)] for name in item["replies"]}}
            file.write(json.dumps(item) + "\n")


@contextmanager
def running_server(kept: Path | None = None) -> Iterator[MeasuredServer]:
    """Start a server over a home with something of everything, which is made first unless an earlier run kept it."""
    with tempfile.TemporaryDirectory() if kept is None else nullcontext(str(kept)) as folder:
        home, port = Path(folder) / "home", free_port()
        made = [sys.executable, "-m", "refaug", "--home", str(home)]
        for line in HOME if not home.exists() else ():
            if "FOLDER/rated" in line:
                rated(Path(folder))
            subprocess.run([*made, *line.replace("FOLDER", folder).split()], check=True, stdout=subprocess.DEVNULL)
        command = [*made, "serve", "--port", str(port), "--no-job-worker"]
        with (home / "serve.log").open("wb") as log:
            process = subprocess.Popen(command, cwd=ROOT, stdout=log, stderr=log)
            try:
                wait_until_ready(process, port, home)
                yield MeasuredServer(process, port)
            finally:
                stop(process)


class _Caller:
    """What helpers of the tests call a server by."""

    def __init__(self, server: MeasuredServer) -> None:
        self._server = server
        self.cookies: Any = None

    def request(self, method: str, url: str, **given: Any) -> Any:
        body = json.dumps(given["json"]).encode() if "json" in given else b""
        status, _, content = self._server.send(Sent(method=method, path=url, body=body))
        return _Answer(status, content)


@dataclass
class _Answer:
    status_code: int
    content: bytes

    @property
    def text(self) -> str:
        return self.content.decode()

    def json(self) -> Any:
        return json.loads(self.content)


def filled(server: MeasuredServer) -> dict[str, str]:
    """Make something of everything that paths name; return what stands for each name in a path."""
    items = [{"id": "d1", "utterance": "how are you", "references": ["fine"]}]
    made = server.json("POST", "/v1/reference-sets", {"items": items, "purpose": "test", "references": "given"})
    replay = {"specification": {"kind": "replay", "replies": ["one", "two"], "cycle": True}}
    server.json("PUT", "/v1/bots/cheerful", replay)
    study = f"bench-{server.port}"  # a home that an earlier run kept has others
    invitation = new_study(_Caller(server), study, chat_protocol("cheerful"))
    server.json("POST", "/v1/take/session", {"token": invitation})
    names = {"/reference-sets/{id}": f"/reference-sets/{made['id']}", "/studies/{id}": f"/studies/{study}"}
    return {**names, "/bots/{name}": "/bots/cheerful", "/logs/{name}": f"/logs/{LOG}", "{kind}": "index"}


# ── The table ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def requests_of(
    server: MeasuredServer, size: int, settings: argparse.Namespace, names: dict[str, str], kept: dict[str, list[str]]
) -> Iterator[tuple[str, list[Sent]]]:
    """Yield bodies of a size for each metric and route: those whose smaller ones were kept, or else all."""
    if "metrics" in settings.parts:
        for metric in settings.metrics:
            yield (
                metric,
                [
                    Sent(method="POST", path="/v1/scores", body=body_of(metric, size, shape), of=shape)
                    for shape in kept.get(metric) or SHAPES
                ],
            )
    if "routes" in settings.parts:
        for method, path, examples in routes_of(server, names):
            wanted = kept.get(name := f"{method} {path}", [])
            yield (
                name,
                [
                    Sent(method=method, path=path, body=body, of=of)
                    for example in examples
                    for of, body in bodies_of(example, size, wanted)
                ],
            )
        yield "POST /v1/uploads", list(uploads_of(size))
        yield "POST /v1/uploads/preview, tables", list(previews_of(server, size))


def main() -> int:
    """Measure all metrics and routes, with bodies of all sizes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=3.0, help="that the client of a large body waits")
    parser.add_argument("--parts", nargs="*", default=["metrics", "routes"], choices=["metrics", "routes"])
    parser.add_argument("--sizes", nargs="*", default=list(SIZES), choices=list(SIZES))
    parser.add_argument("--metrics", nargs="*", default=METRICS)
    parser.add_argument("--only", default="", help="what the names of metrics and routes begin with")
    parser.add_argument("--kept", type=Path, help="folder whose home is made once, for several runs")
    parser.add_argument("--name", default="costs")
    settings = parser.parse_args()
    table, kept = dict[str, Any](), dict[str, list[str]]()
    with running_server(settings.kept) as server:
        names = filled(server)
        for metric in settings.metrics if "metrics" in settings.parts else ():
            body = body_of(metric, 1_000, "20 words in any order")
            for _ in range(LOADS):
                status, _, content = server.send(Sent(method="POST", path="/v1/scores", body=body))
                if status == 200:
                    break
            else:
                sys.exit(f"{metric} is not measured: {status} {content[:300]!r}")
        idle = {
            name: statistics.median(server.send(small)[1] for _ in range(IDLE_REQUESTS))
            for name, small in (("healthz", HEALTH), ("bleu", BLEU))
        }
        for label in settings.sizes:
            for name, found in requests_of(server, SIZES[label], settings, names, kept):
                if not name.startswith(settings.only):
                    continue
                of_before = [sent for sent in found if sent.of in kept.get(name, [])] or found
                if not of_before:
                    continue
                row = worst(server, of_before, KEPT[label], settings)
                kept[name] = row.pop("kept")
                row["ratios_to_idle"] = {one: round(row[f"{one}_most_s"] / idle[one], 1) for one in idle}
                table.setdefault(name, {})[label] = row
                print(name, label, row, flush=True)
    most = {
        one: max((row["ratios_to_idle"][one] for rows in table.values() for row in rows.values()), default=0)
        for one in idle
    }
    mib = max((row["mib"] for rows in table.values() for row in rows.values()), default=0)
    result = {"idle_s": idle, "client_waits_s": settings.seconds, "most_ratios": most, "most_mib": mib, "worst": table}
    print(write_result(settings.name, result, ["refaug"]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
