"""What a judge that nobody scripted is worth on the open rated sets, with and without references.

    python bench/bench_real_judge.py --data FOLDER --home HOME --python PYTHON [MODEL.gguf]
    python bench/bench_real_judge.py --data FOLDER --home HOME --endpoint URL --model NAME

PYTHON has the packages of tests/llama-requirements.txt and serves the model on loopback, with one thread. FOLDER is
that of benchmarks (docs/internals/benchmarks.md): the sets of `human/` are asked about, and retrieved references come
by BM25 from an index of logs/dailydialog_en, which HOME keeps beside the answers; stopped, it goes on from them. Of
each set --contexts contexts are drawn, and --replies of the replies to each that are not golds. `refaug judge certify`
shows no references, the golds, five retrieved ones, and those of another context; its passports are the result, which
keeps those of an earlier run with the same settings.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any, Final
from urllib.parse import urlsplit

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = "1"

from common import RESULTS, ROOT, write_result

SETS: Final = ("dailydialog_gupta", "dailydialog_zhao", "personachat_zhao", "usr_topicalchat")
JUDGE: Final = "real"
INDEX: Final = "dialogues"
ENCODER: Final = "all-minilm-l6-v2"
RETRIEVED: Final = 5
# A small model hardly ever keeps to a form by itself: the endpoint holds it to the two forms that are asked for.
_FORMS: Final = (
    {"overall": {"enum": [1, 2, 3, 4, 5]}},
    {"better": {"enum": ["A", "B", "tie"]}},
)
_FORM: Final = {
    "type": "json_schema",
    "json_schema": {
        "name": "answer",
        "schema": {
            "anyOf": [
                {"type": "object", "properties": form, "required": list(form), "additionalProperties": False}
                for form in _FORMS
            ]
        },
    },
}


@contextmanager
def served(python: Path, model: Path | None, port: int) -> Iterator[str]:
    """The address of a model of this machine, until the end of the block."""
    command = [
        str(python),
        str(ROOT / "tests" / "llama_server.py"),
        "--port",
        str(port),
        *([str(model)] if model else []),
    ]
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        address = process.stdout.readline().strip()
        if not address:
            sys.exit(f"{' '.join(command)} did not start")
        yield address
    finally:
        process.kill()  # it may be in the midst of an answer, which nothing stops
        process.wait()


def last_port(home: Path) -> int:
    """Return the port of the last run, since answers are stored by the address that gave them; 0 for the first run."""
    path = home / "judges" / f"{JUDGE}.json"
    return urlsplit(json.loads(path.read_text())["url"]).port or 0 if path.exists() else 0


def refaug(home: Path, *arguments: object) -> Any:
    """Run a command, and return what it prints, as JSON where it is."""
    command = [sys.executable, "-m", "refaug", "--home", str(home), *map(str, arguments)]
    done = subprocess.run(command, check=False, stdout=subprocess.PIPE, text=True, cwd=ROOT)
    if done.returncode:
        sys.exit(f"refaug {' '.join(map(str, arguments))} ended with {done.returncode}")
    return json.loads(done.stdout) if "--json" in arguments else done.stdout


def make_index(home: Path, data: Path) -> None:
    """Ingest and index the log, and take the encoder of refaug-1 that is installed, unless the home has them."""
    if (home / "indexes" / INDEX).exists():
        return
    refaug(home, "index", "encoder", "add", ENCODER)
    refaug(home, "log", "ingest", data / "logs" / "dailydialog_en.jsonl.gz", "--log", INDEX, "--language", "en")
    refaug(home, "index", "vectors", "import", INDEX, data / "vectors" / "glove.twitter.27B.25d.top12k.txt.gz")
    refaug(home, "index", "build", INDEX)


def write_items(path: Path, rows: Sequence[Mapping[str, Any]], contexts: int, replies: int) -> None:
    """Write some contexts of a set, each with some rated replies that are no golds."""
    by_context = dict[str, list[Mapping[str, Any]]]()
    for row in rows:
        if row["context"] and row["references"] and 0 not in row["response_in_references"] and row["response"].strip():
            by_context.setdefault(row["context_id"], []).append(row)
    random = Random(1)
    chosen = random.sample([name for name in sorted(by_context) if len(by_context[name]) >= replies], contexts)
    with path.open("w") as out:
        for name in chosen:
            drawn = random.sample(by_context[name], replies)
            item = {
                "id": name,
                "turns": drawn[0]["context"],
                "references": drawn[0]["references"],
                "replies": {row["system"]: row["response"] for row in drawn},
                "ratings": {row["system"]: row.get("scores") or [row["score"]] for row in drawn},
                "scale": drawn[0]["scale"],
            }
            out.write(json.dumps(item) + "\n")


def certified(home: Path, name: str, items: Path, options: argparse.Namespace) -> dict[str, Any]:
    """Return the passport of the judge on a set."""
    with_references = items.with_suffix(".references.jsonl")
    found = refaug(
        home, "sets", "references", items, "--index", INDEX, "-k", RETRIEVED, "--mode", "bm25-utterance",
        "--reference-weights", "one", "--parrot", "off",
    )  # fmt: skip
    with_references.write_text(found)
    passport: dict[str, Any] = refaug(
        home, "judge", "certify", JUDGE, with_references, "--name", name, "--most", options.most, "--settings",
        "score=expected", "--json",
    )["passport"]  # fmt: skip
    kept = ("certified", "why_not", "labels", "unscored", "contexts", "agreement", "ceiling", "beside", "probes")
    return {key: passport[key] for key in (*kept, "spread", "references")}


def main() -> None:
    """Certify the judge on every set, and write bench/results/real_judge.json."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", nargs="?", type=Path, metavar="MODEL.gguf")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--home", type=Path, required=True)
    parser.add_argument("--python", type=Path, help="with the packages of tests/llama-requirements.txt")
    parser.add_argument("--endpoint", help="of a judge that runs already, with /v1")
    parser.add_argument("--model", default="SmolLM2-135M-Instruct")
    parser.add_argument("--sets", action="append", choices=SETS, help="some of the sets; repeat it")
    parser.add_argument("--contexts", type=int, default=30)
    parser.add_argument("--replies", type=int, default=2)
    parser.add_argument("--most", type=int, default=20, help="contexts that are probed")
    parser.add_argument("--result", default="real_judge")
    options = parser.parse_args()
    if (options.python is None) == (options.endpoint is None):
        parser.error("either --python or --endpoint")
    options.home.mkdir(parents=True, exist_ok=True)
    make_index(options.home, options.data)
    if options.endpoint is not None:
        measure(options, options.endpoint)
        return
    with served(options.python, options.file, last_port(options.home)) as address:
        measure(options, f"{address}/v1")


def measure(options: argparse.Namespace, url: str) -> None:
    """Ask the judge at an address about every set."""
    judge = {"url": url, "model": options.model, "concurrency": 1, "timeout_s": 300}
    path = options.home / "judges" / f"{JUDGE}.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps({**judge, "parameters": {"response_format": _FORM}}))
    figures = {
        "model": options.model,
        "contexts": options.contexts,
        "replies": options.replies,
        "probed": options.most,
        "retrieved": RETRIEVED,
    }
    for name in options.sets or SETS:
        with gzip.open(options.data / "human" / f"{name}.jsonl.gz", "rt") as lines:
            rows = list(map(json.loads, lines))
        items = options.home / f"{name}.jsonl"
        write_items(items, rows, options.contexts, options.replies)
        passport = certified(options.home, name, items, options)
        shown = {way: one["spearman"] for way, one in passport["references"].items()}
        print(name, passport["certified"], passport["why_not"], shown, flush=True)
        passports = {**measured_before(options.result, figures), name: passport}
        write_result(options.result, {**figures, "passports": passports}, ["numpy", "scipy"])


def measured_before(result: str, figures: Mapping[str, Any]) -> dict[str, Any]:
    """Return the passports of an earlier run of the same model and settings."""
    path = RESULTS / f"{result}.json"
    before = json.loads(path.read_text()) if path.exists() else {}
    return before["passports"] if figures.items() <= before.items() else {}


if __name__ == "__main__":
    main()
