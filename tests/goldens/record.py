"""What the commands and the service answered before the rooms were built: recorded once, compared ever since.

    python tests/goldens/record.py          compare this code with what was recorded, and list what differs
    python tests/goldens/record.py --write  record anew: only where an answer changes on purpose

home.tar.zst holds a home that version 0.1.0 made: a log of 260 demo dialogues, word vectors, an index of three
versions, a rater and a ruber with networks of a few kilobytes, a frozen set, and a database with a key, a schedule and
a job. It is never made anew: that later code opens it is half of what is tested. The other half are the answers.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import sys
import tarfile
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import chdir, contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any
from unittest.mock import patch

import zstandard

FOLDER = Path(__file__).parent
TOLERANCE = 1e-6  # libraries add up in another order on another machine
SET = "f5a069ecd990005c"
_MOST_SHOWN = 40
_FRACTION = re.compile(r"-?\d+\.\d+")
_HASH = re.compile(r"[0-9a-f]{12,64}")
_THEN = (  # what pages and reports said of the defaults of then, wherever they say it now
    (re.compile(r"(--parrot .*?\[default: )off\]  ", re.DOTALL), r"\1rated]"),
    (re.compile(r"\bbleu:smooth=add-k"), "bleu"),  # a name that a metric has where its smoothing is asked for
)
_STAMPS = (
    (re.compile(r"refaug:\d+\.\d+\.\d+"), "refaug:VERSION"),
    (re.compile(r"\|full:[0-9a-f]{12}"), "|full:HASH"),  # of a signature that holds the version, and is compared itself
    (re.compile(r"refaug \d+\.\d+\.\d+"), "refaug VERSION"),
)


# ── the only imports of what is recorded ──────────────────────────────────────────────────────────────────────────


def run_command(arguments: list[str]) -> int:
    """Run `refaug` in this process."""
    from refaug.cli.main import main  # noqa: PLC0415

    return main(arguments)


def command_tree() -> Any:
    """The command as an object of typer's."""
    from typer.main import get_command  # noqa: PLC0415

    from refaug.cli.main import app  # noqa: PLC0415

    return get_command(app)


def web_app(home: Path) -> Any:
    """The service over a home, as FastAPI has it."""
    from refaug.core.home import Settings  # noqa: PLC0415
    from refaug.service.server_settings import ServeSettings  # noqa: PLC0415
    from refaug.service.web.app import create_app  # noqa: PLC0415

    return create_app(Settings(home=home), ServeSettings(allowed_hosts="testserver"))


# ── the commands ──────────────────────────────────────────────────────────────────────────────────────────────────


@contextmanager
def unpacked() -> Iterator[Path]:
    """A folder with the home and its test file, which is the working directory meanwhile."""
    with tempfile.TemporaryDirectory(prefix="refaug-goldens-") as folder:
        archive = zstandard.ZstdDecompressor().decompress(
            (FOLDER / "home.tar.zst").read_bytes(), max_output_size=1 << 24
        )
        with tarfile.open(fileobj=io.BytesIO(archive)) as files:
            files.extractall(folder, filter="data")
        environment = {name: text for name, text in os.environ.items() if not name.startswith("REFAUG_")}
        environment |= {"COLUMNS": "100", "TERM": "dumb", "NO_COLOR": "1"}
        with chdir(folder), patch.dict(os.environ, environment, clear=True):
            yield Path(folder)


def said(folder: Path, *arguments: str, run: Callable[[list[str]], int] = run_command) -> dict[str, Any]:
    """How a command ends and what it prints, without what belongs to this run."""
    out, err = io.TextIOWrapper(io.BytesIO(), "utf-8"), io.TextIOWrapper(io.BytesIO(), "utf-8")
    with redirect_stdout(out), redirect_stderr(err), _as_the_script():
        code = run(list(arguments))
    texts = {}
    for name, stream in (("out", out), ("err", err)):
        stream.flush()
        texts[name] = _timeless(stream.buffer.getvalue().decode(), folder)  # type: ignore[attr-defined]
    return {"code": code, **texts}


@contextmanager
def _as_the_script() -> Iterator[None]:
    """The help names the program as it was started: here always `refaug`, not pytest."""
    with patch.object(sys, "argv", ["refaug"]), patch.object(sys.modules["__main__"], "__package__", None):
        yield


def _timeless(text: str, folder: Path) -> str:
    for place in (str(folder.resolve()), str(folder)):
        text = text.replace(place, "FOLDER")
    for stamp, name in (*_STAMPS, *_THEN):
        text = stamp.sub(name, text)
    return text


def help_pages(folder: Path) -> dict[str, Any]:
    """The help of every command; how a few of each depth end when they are misspelt."""
    tree, answers = command_tree(), {}

    def run(arguments: list[str]) -> int:  # making the tree anew for each would take most of the time
        return tree.main(arguments, prog_name="refaug", standalone_mode=False) or 0

    for path in _commands(tree, ()):
        answers[" ".join(("refaug", *path, "--help"))] = said(folder, *path, "--help", run=run)
    for path in ((), ("score",), ("index",), ("index", "search")):
        answers[" ".join(("refaug", *path, "--no-such-option"))] = said(folder, *path, "--no-such-option")
    answers["refaug -h"] = said(folder, "-h")
    answers["refaug --version"] = said(folder, "--version")
    return answers


def _commands(command: Any, path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    yield path
    for name, inner in getattr(command, "commands", {}).items():
        yield from _commands(inner, (*path, name))


FAILURES = (
    (),
    ("index",),
    ("no-such-command",),
    ("log", "list", "--home", "home"),
    ("score", "--json"),
    ("score", "no-such-file.jsonl", "--json"),
    ("score", "broken.jsonl", "--json"),
    ("score", "items.jsonl", "--metric", "no-such-metric", "--json"),
    ("score", "items.jsonl", "--metric", "bleu:n=9", "--json"),
    ("score", "items.jsonl", "--index", "none", "--rater", "demo", "--json"),
    ("score", "items.jsonl", "--rater", "demo", "--json"),
    ("score", "items.jsonl", "--metric", "rater", "--json"),
    ("score", "items.jsonl", "--draws", "many"),
    ("refs", "items.jsonl", "--index", "demo@2020-01-01.1"),
    ("ingest", "no-such-file.jsonl", "--log", "new", "--json"),
    ("ingest", "broken.jsonl", "--log", "new", "--json"),
    ("ingest", "items.jsonl", "--log", "No Name", "--json"),
    ("log", "show", "none", "--json"),
    ("vectors", "show", "none", "--json"),
    ("vectors", "train", "none", "--json"),
    ("index", "show", "none", "--json"),
    ("index", "search", "none", "hello", "--json"),
    ("index", "build", "none", "--json"),
    ("index", "check", "demo", "--least", "1.5", "--json"),
    ("index", "publish", "demo", "2020-01-01.1", "--json"),
    ("rater", "show", "none", "--json"),
    ("rater", "train", "demo", "--preset", "small", "--json"),
    ("ruber", "show", "none", "--json"),
    ("sets", "show", "0000", "--json"),
    ("sets", "show", "000000", "--json"),
    ("sets", "freeze", "items.jsonl", "--purpose", "fun", "--json"),
    ("jobs", "show", "none", "--json"),
    ("jobs", "start", "no-such-kind", "--json"),
    ("schedules", "show", "none", "--json"),
    ("schedules", "put", "bad", "--cron", "61 * * * *", "--order", "order.json", "--json"),
    ("keys", "revoke", "none", "--json"),
    ("metrics", "describe", "none", "--json"),
    ("metrics", "baseline", "bleu", "--json"),
    ("import", "broken.jsonl", "--json"),
    ("export", "index", "none", "none.tar.zst", "--json"),
    ("meta", "broken.jsonl", "--json"),
    ("diagnose", "--json"),
)


def explicit(arguments: tuple[str, ...]) -> tuple[str, ...]:
    """The same command with the defaults of version 0.1.0 as options: add-k smoothing, and the parrot, rated.

    What was recorded stands under the command as it was then.
    """
    if arguments[0] == "metrics" or not {"score", "refs", "freeze", "meta"} & set(arguments[:2]):
        return arguments
    parrot = ("--parrot", "rated") if "--index" in arguments and "--rater" in arguments else ()
    return (*(_smoothed(word) for word in arguments), *parrot)


def _smoothed(metric: str) -> str:
    name, _, settings = metric.partition(":")
    if not name.endswith("bleu") or "smooth" in settings:
        return metric
    return f"{name}:{settings}{',' * bool(settings)}smooth=add-k"


def explicit_body(path: str, body: Any) -> Any:
    """The same request with the defaults of version 0.1.0 as fields."""
    if path not in ("/v1/references", "/v1/scores", f"/v1/reference-sets/{SET}/scores"):
        return body
    metrics = {"metrics": [_smoothed(name) for name in body["metrics"]]} if "metrics" in body else {}
    return {**body, **metrics, **({"settings": {"parrot": "rated"}} if "index" in body else {})}


def failures(folder: Path) -> dict[str, Any]:
    """How commands fail."""
    (folder / "broken.jsonl").write_text('{"id": "a", "utterance":\n')
    (folder / "order.json").write_text('{"kind": "gc", "artefact": "index", "name": "demo"}')
    answers = {"refaug --home items.jsonl log list": said(folder, "--home", "items.jsonl", "log", "list")}
    for arguments in FAILURES:
        answers[" ".join(("refaug", *arguments))] = said(folder, "--quiet", "--home", "home", *arguments)
    return answers


AUGMENTED = ("items.jsonl", "--index", "demo", "--rater", "demo", "--threads", "1")
WEIGHTED = ("--metric", "upsilon-bleu", "--metric", "upsilon-chrf", "--metric", "rater", "--metric", "bleu")
VECTORS = "vectors=vectors.txt"
QUESTION = "Where can I buy a ticket for the bus?"
ANSWERS = (
    ("metrics", "list", "--json"),
    ("metrics", "describe", "upsilon-bleu", "--json"),
    ("tokenizer", "list", "--json"),
    ("tokenizer", "run", "word", "It's half past two, isn't it?", "--json"),
    ("log", "list", "--json"),
    ("log", "show", "demo", "--json"),
    ("log", "stats", "demo", "--json"),
    ("log", "sample", "demo", "--count", "5", "--json"),
    ("log", "shared", "demo", "--count", "3"),
    ("log", "verify", "demo", "--json"),
    ("vectors", "list", "--json"),
    ("vectors", "show", "demo", "--json"),
    ("vectors", "write", "demo", "vectors.txt"),
    ("index", "list", "--json"),
    ("index", "show", "demo", "--json"),
    ("index", "check", "demo", "--queries", "100", "--threads", "1", "--json"),
    *(
        ("index", "search", where, QUESTION, *more, "-k", "5", "--threads", "1", "--json")
        for where, more in (
            ("demo", ()),
            ("demo@2026-11-23.1", ()),
            ("demo", ("--mode", "bm25-utterance")),
            ("demo", ("--mode", "bm25-dialog", "--gold", "At the machine beside the stop.")),
            ("demo", ("--mode", "embedding-dialog", "--gold", "At the machine beside the stop.")),
        )
    ),
    ("rater", "list", "--json"),
    ("rater", "show", "demo", "--json"),
    ("rater", "rate", "demo", "how are you", "fine", "so so", "the bus is late", "--to", "and you", "--json"),
    ("ruber", "list", "--json"),
    ("ruber", "show", "demo", "--json"),
    ("ruber", "score", "demo", "how are you", "fine", "the bus is late", "--json"),
    ("sets", "list", "--json"),
    ("sets", "show", SET, "--json"),
    ("sets", "verify", SET, "--json"),
    ("sets", "score", SET, "items.jsonl", "--metric", "upsilon-bleu", "--metric", "chrf", "--draws", "100", "--json"),
    ("sets", "derive", SET, "-k", "3", "--parrot", "off", "--json"),
    ("sets", "freeze", *AUGMENTED, "--mode", "bm25-utterance", "-k", "4", "--purpose", "validation", "--json"),
    ("refs", *AUGMENTED),
    ("refs", *AUGMENTED, "--gold", "rated", "--combine", "mean", "--calibrated", "--mode", "embedding-dialog"),
    ("score", *AUGMENTED, *WEIGHTED, "--baseline", "generic", "--draws", "100", "--json"),
    ("score", *AUGMENTED, "--metric", "upsilon-rouge-l", "--draws", "0", "--json"),
    ("score", "--replies", "replies.txt", "--references", "first.txt", "--references", "second.txt", "--weights",
     "ones.txt", "--weights", "weights.txt", "--metric", "delta-bleu", "--metric", "multi-bleu", "--json"),
    ("score", "items.jsonl", "--metric", "multi-bleu:n=4,smooth=floor", "--metric", "bleu", "--explain", "--json"),
    *(
        ("score", "items.jsonl", *(part for name in names for part in ("--metric", name)), "--draws", "50", "--json")
        for names in (
            ("rouge-1", "rouge-2", "rouge-l", "ter", "cider", "chrf", "chrf++"),
            (f"embedding-average:{VECTORS}", f"vector-extrema:{VECTORS}", f"greedy:{VECTORS}"),
        )
    ),
    ("score", "items.jsonl", "--metric", f"ruber:{VECTORS}", "--ruber", "demo", "--sample", "demo", "--json"),
    ("score", "items.jsonl", "--metric", "bleu", "--level", "reply", "--tsv"),
    ("score", "items.jsonl", "--metric", "bleu", "--percent"),
    ("meta", "items.jsonl", "--metric", "bleu", "--metric", "chrf", "--metric", "rater", "--rater", "demo", "--draws",
     "200", "--json"),
    ("diagnose", "items.jsonl", "--json"),
    ("metrics", "baseline", "upsilon-rouge-l", "--index", "demo", "--pairs", "300", "--json"),
    ("jobs", "list", "--json"),
    ("schedules", "list", "--json"),
    ("keys", "list", "--json"),
    *(("export", kind, "demo", f"{kind}.tar.zst", "--json") for kind in ("index", "rater", "ruber", "vectors")),
)  # fmt: skip
LINES = {
    "replies.txt": "the bus is late\nI like green tea\n",
    "first.txt": "the tram is late again\nI prefer tea\n",
    "second.txt": "it is the bus that is late\ngreen tea is what I like\n",
    "ones.txt": "1\n1\n",
    "weights.txt": "0.5\n-0.75\n",
}
MAKING = (("sets", "derive"), ("sets", "freeze"))


def answers(folder: Path) -> dict[str, Any]:
    """What the commands print about the home, and the files that they write."""
    recorded: dict[str, Any] = {}
    for name, text in LINES.items():
        (folder / name).write_text(text)
    for arguments in ANSWERS:
        answer = said(folder, "--quiet", "--home", "home", *explicit(arguments))
        answer["out"] = _parsed(answer["out"])
        if arguments[:2] in MAKING:
            answer["out"].pop("created")
        recorded[" ".join(("refaug", *arguments))] = answer
    for path in sorted(folder.glob("*.tar.zst")):
        content = zstandard.ZstdDecompressor().decompress(path.read_bytes(), max_output_size=1 << 24)
        recorded[path.name] = hashlib.sha256(content).hexdigest()
    recorded["vectors.txt"] = [
        line.split(" ")[:3] for line in (folder / "vectors.txt").read_text("utf-8").splitlines()[:20]
    ]
    return recorded


def _parsed(text: str) -> Any:
    """JSON, or a list of lines of it, as what it says."""
    try:
        return json.loads(text)
    except ValueError:
        pass
    try:
        return [json.loads(line) for line in text.splitlines()]
    except ValueError:
        return text


# ── the service ───────────────────────────────────────────────────────────────────────────────────────────────────


def openapi(folder: Path) -> Any:
    """The document of the HTTP API with every model written out where it is used, so that no model needs its name."""
    document = json.loads(json.dumps(web_app(folder / "home").openapi()))
    models = document.pop("components", {}).pop("schemas", {})
    document["info"].pop("version", None)
    return _inlined(document, models, ())


def _inlined(part: Any, models: dict[str, Any], within: tuple[str, ...]) -> Any:
    if isinstance(part, list):
        return [_inlined(inner, models, within) for inner in part]
    if not isinstance(part, dict):
        return part
    if "$ref" in part:
        name = part["$ref"].rpartition("/")[2]
        if name in within:
            return {"again": len(within) - within.index(name)}
        model = {key: inner for key, inner in models[name].items() if (key, inner) != ("title", name)}
        beside = {key: inner for key, inner in part.items() if key != "$ref"}
        return _inlined({**model, **beside}, models, (*within, name))
    if isinstance(part.get("mapping"), dict) and "propertyName" in part:
        return {**part, "mapping": sorted(part["mapping"])}
    return {key: _inlined(inner, models, within) for key, inner in part.items()}


ITEM = {
    "id": "one",
    "utterance": QUESTION,
    "references": ["At the machine beside the stop."],
    "replies": {"a": "At the stop.", "b": "The bus is late."},
}
PAIR = {"utterance": "how are you", "golds": ["fine"], "candidates": [{"text": "so so"}]}
REPLIES = {"items": ["demo-item-0001"], "replies": {"a": ["At the stop."]}, "metrics": ["upsilon-bleu"]}
REQUESTS: tuple[tuple[str, str, Any], ...] = (
    ("GET", "/v1/metrics", None),
    ("GET", "/v1/indexes", None),
    ("GET", "/v1/indexes/demo", None),
    ("GET", "/v1/indexes/demo/versions", None),
    ("GET", "/v1/raters", None),
    ("GET", "/v1/raters/demo", None),
    ("GET", "/v1/logs", None),
    ("GET", "/v1/logs/demo", None),
    ("GET", "/v1/reference-sets", None),
    ("GET", f"/v1/reference-sets/{SET}", None),
    ("GET", "/v1/schedules", None),
    ("GET", "/v1/jobs", None),
    ("POST", "/v1/references", {"items": [ITEM], "index": "demo", "rater": "demo"}),
    ("POST", "/v1/scores", {"items": [ITEM], "index": "demo", "rater": "demo", "metrics": ["upsilon-bleu"]}),
    ("POST", "/v1/scores", {"items": [ITEM], "metrics": ["bleu", "chrf"], "references": "given", "draws": 20}),
    ("POST", "/v1/scores", {"items": [ITEM], "metrics": ["bleu"], "references": "given", "return": "stats"}),
    ("POST", f"/v1/reference-sets/{SET}/scores", REPLIES),
    ("POST", "/v1/scores", {"items": [ITEM], "metrics": ["none"]}),
    ("POST", "/v1/scores", {"items": [], "metrics": ["bleu"]}),
    ("POST", "/v1/ratings", {"rater": "demo", "pairs": [PAIR]}),
    ("GET", "/v1/indexes/none", None),
    ("GET", "/no-such-page", None),
    ("GET", "/healthz", None),
    ("GET", "/readyz", None),
)  # fmt: skip


def http(folder: Path) -> dict[str, Any]:
    """What the service answers over the home."""
    from serving import wait_until_ready  # noqa: PLC0415
    from starlette.testclient import TestClient  # noqa: PLC0415

    recorded = {}
    with TestClient(web_app(folder / "home")) as client:
        wait_until_ready(client)
        for method, path, body in REQUESTS:
            answer = client.request(method, path, json=explicit_body(path, body), headers={"X-Request-Id": "golden"})
            name = f"{method} {path}" + (f" {json.dumps(body)}" if body is not None else "")
            text = _timeless(answer.text, folder)
            recorded[name] = {
                "status": answer.status_code,
                "type": answer.headers.get("content-type"),
                "body": _parsed(text),
            }
    return recorded


# ── the comparison ────────────────────────────────────────────────────────────────────────────────────────────────

KINDS: dict[str, Callable[[Path], Any]] = {
    "openapi": openapi,
    "help": help_pages,
    "failures": failures,
    "http": http,
    "answers": answers,  # the last: they write into the home
}


def read(kind: str) -> Any:
    """What was recorded."""
    return json.loads(zstandard.ZstdDecompressor().decompress((FOLDER / f"{kind}.json.zst").read_bytes()))


def write(kind: str, recorded: Any) -> None:
    """Record it from now on."""
    text = json.dumps(recorded, ensure_ascii=False, indent=1)
    (FOLDER / f"{kind}.json.zst").write_bytes(zstandard.ZstdCompressor(level=19).compress(text.encode()))


# What answers otherwise on purpose: the lines of `differences` that say so, and what was decided.
CHANGED: tuple[tuple[str, str], ...] = (
    (r"openapi/.*/sources/description: .*besides what was posted.*", "the nightly job takes both"),
    (r"openapi/paths//readyz/get/description: .*", "not ready while a published version has a changed file"),
    (
        r"help/refaug (index|rater|ruber|vectors)( (publish|rollback))? --help/out: .*",
        "rollback returns to what was published before; --even-refused",
    ),
    (
        r"openapi/paths//v1/(indexes|raters)/{name}/current/put/.*(description: .*|even_refused: new)",
        "refused versions are published only with even_refused",
    ),
    (r"help/refaug reproduce --help/out: .*", "all sets that are there by default, and --no-ruber"),
    (r"help/refaug meta probe --help/out: .*", "it has --search and --steps; docs/reference/cli.md has the whole page"),
    (
        r"openapi/.*/properties/(items|metrics|dialogues|pairs|replies)(/anyOf/0|/additionalProperties)?/max\w+: new",
        "lists of requests have a greatest length",
    ),
    (r"openapi/paths//v1/reference-sets/{id}/delete/(summary|description): .*", "the same, in plain words"),
    (r"openapi/paths//v1/scores/post/requestBody/.*/judge: new", "a server may ask judges"),
    (r"help/refaug adem( \w+)? --help: new", "adem is a command"),
    (r"openapi/.*/adem: new", "the metric adem asks an adem"),
    (r"openapi/paths//v1/(jobs|schedules)/.*/artefact/enum: .*", "jobs remove old vhreds and adems, too"),
    (r"(http|answers|openapi)/.*metrics.*adem.*", "adem is a metric"),
    (r"(openapi|answers)/.*/resampling/.*baseline: new", "what was compared with the baseline names it"),
    (r"openapi/.*/unsuitable: new", "sums say that the references do not suit their metric"),
    (
        r"openapi/paths//v1/scores/combine/post/.*/(on_error|problems): new",
        "metrics that suit no batch may be reported",
    ),
    (
        r"openapi/paths//v1/scores/combine/post/description: .*",
        "a metric counts as suitable if the references of any batch suit it",
    ),
    (r"openapi/.*/gold/(enum|description): .*none.*", "golds may play no part"),
    (r"openapi/.*/references/items/.*properties/unused: new", "a gold that plays no part says so"),
    (r"openapi/.*/copies: new", "answers name the replies that copy the utterance"),
    (r"openapi/.*/examples?(/.*)?: .*", "examples are recorded by tests/api_answers.py, and held to answers there"),
    (r"openapi/.*/parrot/default: 'rated' was .*, 'off' was found", "the utterance is no reference by default"),
    (r"(http/GET /v1/|answers/refaug )metrics.*/default: 'add-k' was recorded, 'exp' was found", "exp by default"),
    (r"(openapi|http|answers)/.*/provenance: new", "items say how their references were made"),
    (r"help/refaug (score|sets score) --help/out: .*", "metrics may be named by signatures, and --signature sets all"),
    (r"openapi/.*/properties/preset: new", "a preset is one switch: tsuta20"),
    (r"help/refaug (refs|meta|sets freeze|index build) --help/out: .*", "they have --preset"),
    (r"help/refaug (--help|-h)/out: .*", "signature is a command"),
    (r"help/refaug (index|vectors|rater|ruber) gc --help/out: .*", "--even-pinned: frozen sets pin versions"),
    (r"(help|failures)/refaug (index|vectors|rater|ruber)( --help)?/out: .*", "the line of gc names frozen sets"),
    (r"openapi/.*/even_pinned: new", "the same, as a job"),
    (r"openapi/.*/description: 'Remove old versions; .*", "the same, in words"),
    (r"help/refaug serve --help/out: .*", "servers may have a default metric"),
    (r"openapi/(paths//v1/audit: new|tags: .*)", "the audit log"),
    (r"openapi/.*/(threads|workers)/description: .*", "jobs have as many threads as cores are free"),
    (r"openapi/paths//v1/scores/post/.*/metrics/description: .*default_metric.*", "servers may have a default metric"),
    (r"help/refaug signature( diff)? --help: new", "signature is a command"),
    (r"help/refaug cite --help: new", "cite is a command"),
    (r"help/refaug index copies --help: new", "copies of shards on a cluster are listed"),
    (r"help/refaug render --help: new", "render is a command"),
    (r"help/refaug (export|import) --help/out: .*", "frozen sets go from one machine to another, too"),
    (r"help/refaug (backup|restore) --help: new", "backup and restore are commands"),
    (r"help/refaug audit --help: new", "audit is a command"),
    (r"failures/refaug/(err|out): .*", "signature is a command"),
    (r"openapi/.*/speaker: new", "the same, of speakers; the index of then has none"),
    (r"(openapi|http|answers)/.*/time: new", "references that are found have the time of the log"),
    (r"openapi/.*/requestBody/.*/oneOf/7/properties/(index|settings): new", "meta finds references itself"),
    (
        r"openapi/.*/oneOf/7/properties/(metrics|rater)/description: .*(with an index|weighs references).*",
        "the same, in words",
    ),
    (r"openapi/.*/unknown_fields: new", "every 422 names the fields that no item has"),
    (r"(http|answers)/.*/references/0/weight: new", "golds come with the weight that they count"),
    (r"help/refaug replies --help: new", "replies is a command"),
    (r"openapi/paths//v1/replies: new", "bots reply over HTTP"),
    (r"openapi/paths//v1/hybrids/.*: new", "hybrids score over HTTP"),
    (r"openapi/.*/reply_provenance: new", "items and answers say which bots made replies"),
    (
        r"answers/refaug (score|sets score) .*/out/(utterances|replies|inputs|format_version|checksum): new",
        "score files say of which texts they are, and are sealed: refaug verify",
    ),
    (r"http/POST /v1/.*scores .*/body/(utterances|replies|format_version|checksum): new", "the same over HTTP"),
    (r"openapi/paths//v1/scores/post/.*/(utterances|replies|format_version|checksum): new", "the same in its schema"),
    (r"help/refaug verify --help: new", "verify is a command"),
    (r"openapi/paths//v1/verifications: new", "the same over HTTP"),
    (
        r"openapi/paths//v1/references/.*/required: \"\['id', 'references', 'evidence'\]\" was recorded,.*",
        "the same, of the field's description",
    ),
    (
        r"answers/refaug meta .*/(p_independent|by_annotator_pearson|pairs|kappa_shares): new",
        "p, Pearson beside Spearman, annotators with each other, and pairs by κ",
    ),
    (r"help/refaug judge( \w+)? --help: new", "judge is a command"),
    (r"help/refaug index reshard --help: new", "reshard is a command"),
    (r"help/refaug index (plan|compact) --help/out: .*", "plans for machines; compaction shard by shard"),
    (r"answers/refaug index show .*/(sampling|trained_utterances): new", "of indexes in shards"),
    (r"help/refaug store( \w+)? --help: new", "store is a command"),
    (r"help/refaug ingest --help/out: .*", "Arrow files and saved datasets are read"),
    (r"help/refaug diagnose --help/out: .*", "tables of any kind are items: --map, --shape, --utterances"),
    (r"help/refaug (compare|items|items convert|sets history|sets leaderboard) --help: new", "they are commands"),
    (r"help/refaug sets --help/out: .*", "it has history and leaderboard"),
    (r"openapi/paths//v1/(keys?|keys/{id}|jobs/{id}/retry|logs/{name}/ingests): new", "keys, retry, growth of logs"),
    (r"openapi/tags: .*", "keys have a tag"),
    (r"openapi/.*/show_excluded: new", "excluded pairs come along, each with the reason"),
    (r"openapi/.*/excluded_references: new", "the same, in the answer"),
    (r"openapi/.*/explain/description: .*", "soft matches are explained, too"),
    (r"(answers|http)/.*/words: new", "explanations have the words of the reply in order"),
    (r"help/refaug jobs( retry)? --help(/out)?: .*", "jobs are tried again"),
    (r"help/refaug refs --help/out: .*", "it has --show-excluded"),
    (r"(answers/refaug metrics list --json/out|http/GET /v1/metrics/body)/metrics: .*", "judge is a metric"),
    (r"help/refaug judge-fit( \w+)? --help: new", "judge-fit is a command"),
    (r"help/refaug selfplay( \w+)? --help: new", "selfplay is a command"),
    (r"openapi/paths//v1/jobs/post/responses/404: new", "jobs name bots, which may not be there"),
    (r"help/refaug (rater|ruber) train --help/out: .*", "--network: a rater may be a Transformer"),
    (r"(openapi|http|answers)/.*/network: new", "the same in lists, over HTTP, and as a job"),
    (r"openapi/paths//v1/raters.*/required: .*'network'.*", "the same, of the field's description"),
    (r"openapi/.*RaterTrainJob.*", "the same: options whose defaults the network decides"),
    (r"openapi/.*/oneOf/\d+/properties/(preset|negatives|min_words|learning_rate)/.*", "the same"),
    (
        r"(openapi/paths/|http/GET )/v1/(indexes|raters).*/(was_published|refused|published_at|created): new",
        "versions say whether they were published, and why a check refused them",
    ),
    (
        r"openapi/paths//v1/(indexes|raters).*/(required|problem/description): .*(published_at|published|about its).*",
        "the same, of the field's description",
    ),
    (r"openapi/paths//v1/jobs/get/parameters: .*", "jobs are listed by what they write"),
    (
        r"openapi/paths//v1/(jobs/post|schedules).*/(mapping|oneOf): .*",
        "score is a kind of job; builds have shards",
    ),
    (r"failures/refaug jobs start no-such-kind --json/err: .*score.*", "the same"),
    (r"openapi/paths//v1/(bots|uploads|evaluations)(/.*)?: new", "bots by name; files that are scored in jobs"),
    (r"help/refaug (bots|hybrid|conversations|studies)( \w+)? --help: new", "they are commands"),
    (r"answers/refaug index show .*/shards: new", "an index may be built in shards"),
    (r"help/refaug sets derive --help/out: .*", "it has --people"),
    (
        r"openapi/paths//v1/reference-sets/\{id\}/derive/post/.*",
        "sets are derived with weights by people over HTTP, too",
    ),
    (r"help/refaug studies( \w+)? --help/out: .*", "studies are rehearsed, and tasks come from studies tasks"),
    (r"help/refaug render --help/out: .*studies report.*", "reports of studies have pages"),
    (r"openapi/paths//v1/(studies|take)(/.*)?: new", "studies with people"),
    (
        r"help/refaug (vectors train|rater resume|rater train|ingest|refs|score|meta|sets freeze) --help/out: .*",
        "they work on a cluster with --on",
    ),
    (r"openapi/.*/missing_shards: new", "answers name the shards of a cluster that were missing"),
    (r"openapi/.*/partial: new", "the same, where a request allows it"),
    (r"openapi/.*/properties/(on|workers): new", "jobs work on a cluster that the operator named"),
)


def undecided(lines: Iterable[str]) -> list[str]:
    """The differences that no decision explains."""
    patterns = [re.compile(pattern, re.DOTALL) for pattern, _ in CHANGED]
    return [line for line in lines if not any(pattern.fullmatch(line) for pattern in patterns)]


def differences(expected: Any, found: Any, at: str = "") -> Iterator[str]:
    """Where two recordings differ: numbers by more than the tolerance, everything else at all."""
    if isinstance(expected, dict) and isinstance(found, dict):
        for key in [*expected, *(key for key in found if key not in expected)]:
            if key not in found or key not in expected:
                yield f"{at}/{key}: {'gone' if key in expected else 'new'}"
            else:
                yield from differences(expected[key], found[key], f"{at}/{key}")
        if expected.keys() == found.keys() and list(expected) != list(found):
            yield f"{at}: {list(expected)} come in another order: {list(found)}"
    elif isinstance(expected, list) and isinstance(found, list) and len(expected) == len(found):
        for number, (before, now) in enumerate(zip(expected, found, strict=True)):
            yield from differences(before, now, f"{at}/{number}")
    elif isinstance(expected, float) and isinstance(found, float | int):
        if not abs(expected - found) <= TOLERANCE * max(1.0, abs(expected)):
            yield f"{at}: {expected} was recorded, {found} was found"
    elif isinstance(expected, str) and isinstance(found, str):
        if "/signature" in at and _DROPPED.search(expected):
            expected, found = (_FULL.sub("|full:HASH", _DROPPED.sub("", text)) for text in (expected, found))
        if not (_alike(expected, found) or (_of_ratings(at) and _same_hash_shape(expected, found))):
            yield f"{at}: {expected[:300]!r} was recorded, {found[:300]!r} was found"
    elif expected != found or isinstance(expected, bool) is not isinstance(found, bool):
        yield f"{at}: {str(expected)[:300]!r} was recorded, {str(found)[:300]!r} was found"


# Keys that signatures do not have any more: one score has one signature, whether its references were frozen or not, and
# whether its b was measured or given.
_DROPPED = re.compile(r"\|(set|parent|b-index\.|b-pairs\.|b-seed\.):[^|]*")
_FULL = re.compile(r"\|full:[0-9a-f]{12}")


def _alike(expected: str, found: str) -> bool:
    """Return whether two texts differ at most in decimal fractions, and in those within the tolerance."""
    if _FRACTION.split(expected) != _FRACTION.split(found):
        return False
    pairs = zip(map(float, _FRACTION.findall(expected)), map(float, _FRACTION.findall(found)), strict=True)
    return all(abs(before - now) <= TOLERANCE * max(1.0, abs(before)) for before, now in pairs)


def _of_ratings(at: str) -> bool:
    """Return whether a place holds a hash over ratings, whose last bits depend on the processor."""
    return "rater" in at and at.rsplit("/", 1)[-1] in ("references", "content", "id")


def _same_hash_shape(expected: str, found: str) -> bool:
    return bool(_HASH.fullmatch(expected) and _HASH.fullmatch(found)) and len(expected) == len(found)


def main(arguments: list[str]) -> int:
    """Compare, or record."""
    sys.path.insert(0, str(FOLDER.parent))
    total = 0
    with unpacked() as folder:
        for kind, record in KINDS.items():
            found = json.loads(json.dumps(record(folder)))
            if arguments == ["--write"]:
                write(kind, found)
            else:
                listed = undecided(differences(read(kind), found, kind))
                total += len(listed)
                sys.stdout.writelines(f"{line}\n" for line in listed[:_MOST_SHOWN])
    return 1 if total else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
