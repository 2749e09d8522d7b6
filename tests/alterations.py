"""Altered files: what commands and server make of them, in a process of its own, since a wrong one may kill it.

    python tests/alterations.py FIRST LAST     the alterations with these seeds, one line of JSON for each

Seeds below 2,000 are those of the usual files; from there on it is the turn of `RARER`: indexes of other shapes, with
another tokenizer, ranges of ruber, and backups; and from 4,000 on of `LEARNED`: networks and judges of the extras,
conversations, and files of scores; and from 6,000 on of `KEPT`: uploads and evaluations of a server.

Each seed alters one file of a home, or an exported file: bytes, its length, or its content against that of another
file, in the same version or another one. Then commands and a server over that home are asked for what they answered
before. The altered file replaces the other one, since a mapped file that is cut is another matter.
"""

from __future__ import annotations

import hashlib
import json
import logging
import random
import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from encoders import TinyEncoder, write_encoder
from endpoints import endpoint, openai, write_judge
from goldens.golden_home import run_command, unpacked, web_app
from indexes import add_to_log, build, pairs_of
from starlette.testclient import TestClient

from refaug.core.artefacts.kinds import artefact_stores
from refaug.core.artefacts.transfer import export_artefact
from refaug.core.errors import RefaugError
from refaug.core.files import write_aside
from refaug.core.home import Settings
from refaug.core.progress import Silent
from refaug.core.vectors import word_vectors
from refaug.indexer.index_folders import Places
from refaug.service import doctor
from refaug.service.backup.backing_up import back_up
from refaug.service.database.database import Database
from refaug.service.jobs.worker import run_worker
from refaug.service.server_settings import ServeSettings

SET = "457abb9462c9e021"  # of the golden home
QUESTION = "Where can I buy a ticket for the bus?"
ITEM = {
    "id": "one",
    "utterance": QUESTION,
    "references": ["At the machine beside the stop."],
    "replies": {"a": "At the stop.", "b": "The bus is late."},
}
WITH_INDEX = {"items": [ITEM], "index": "demo", "rater": "demo"}
REQUESTS: dict[str, tuple[str, str, Any]] = {
    "references": ("POST", "/v1/references", WITH_INDEX),
    "bm25": ("POST", "/v1/references", {**WITH_INDEX, "settings": {"mode": "bm25-dialog"}}),
    "scores": ("POST", "/v1/scores", {**WITH_INDEX, "metrics": ["upsilon-chrf", "bleu"]}),
    "ratings": (
        "POST",
        "/v1/ratings",
        {"rater": "demo", "pairs": [{"utterance": QUESTION, "golds": ["fine"], "candidates": [{"text": "so so"}]}]},
    ),
    "ruber": ("POST", "/v1/scores", {**WITH_INDEX, "metrics": ["ruber:model=demo,referenced=bleu,norm=none"]}),
    "set": ("GET", f"/v1/reference-sets/{SET}/download", None),
    "set_scores": (
        "POST",
        f"/v1/reference-sets/{SET}/scores",
        {"items": ["demo-item-0001"], "replies": {"a": ["At the stop."]}, "metrics": ["upsilon-bleu"]},
    ),
    "encoder": ("POST", "/v1/references", {"items": [ITEM], "index": "coded"}),
    "graph": ("POST", "/v1/references", {**WITH_INDEX, "index": "graph"}),
    "lists": ("POST", "/v1/references", {**WITH_INDEX, "index": "lists"}),
    "pieces": ("POST", "/v1/references", {**WITH_INDEX, "index": "pieces"}),
    "ranges": ("POST", "/v1/scores", {**WITH_INDEX, "metrics": ["ruber:model=demo,referenced=bleu"]}),
}
AUGMENTED = ("items.jsonl", "--index", "demo", "--rater", "demo", "--threads", "1")
DRAWN = ("--draws", "0", "--threads", "1", "--json")
COMMANDS: dict[str, tuple[str, ...]] = {
    "log": ("log", "sample", "demo", "--count", "400", "--json"),
    "stats": ("log", "stats", "demo", "--json"),
    "search": ("index", "search", "demo", QUESTION, "-k", "20", "--threads", "1", "--json"),
    "refs": ("sets", "references", *AUGMENTED),
    "scores": ("score", *AUGMENTED, "--metric", "upsilon-chrf", "--draws", "0", "--json"),
    "rating": (
        "judge",
        "score",
        "rater",
        "demo",
        "how are you",
        "fine",
        "the bus is late",
        "--to",
        "and you",
        "--json",
    ),
    "ruber": ("judge", "score", "ruber", "demo", "how are you", "fine", "the bus is late", "--json"),
    "set": ("sets", "score", SET, "items.jsonl", "--metric", "upsilon-bleu", "--draws", "0", "--json"),
    "encoder": ("index", "search", "coded", "i like tea", "-k", "5", "--threads", "1", "--json"),
    **{
        name: ("index", "search", name, QUESTION, "-k", "20", "--threads", "1", "--json")
        for name in ("graph", "lists", "pieces")
    },
    "ranges": (
        *("score", "items.jsonl", "--metric", "ruber:model=demo,referenced=bleu,sample=demo"),
        *("--draws", "0", "--json"),
    ),
}
OF_LEARNED: dict[str, tuple[str, ...]] = {
    "adem": ("score", "few.jsonl", "--metric", "adem:model=demo,seen=keep", *DRAWN),
    "vhred": ("artefacts", "export", "vhred", "demo", "vhred.tar.zst", "--json"),  # it was never trained
    "judge-fit": (
        *("judge", "score", "judge-fit", "demo", "table.csv", "--map", "utterance=prompt", "--map", "reference=gold"),
        *("--map", "reply:new=after", "--threads", "1", "--json"),
    ),
    "hybrid": ("judge", "score", "hybrid", "demo", "talks.jsonl", "--threads", "1", "--json"),
    "self-play": ("judge", "score", "hybrid", "demo", "selfplay:demo", "--threads", "1", "--json"),
    "passport": ("artefacts", "show", "passport", "demo", "--json"),
    "verify": ("score", "verify", "home/scores/scores.json", "few.jsonl", "--threads", "1", "--json"),
    "compare": ("compare", "home/scores/scores.json", "--systems", "decent,generic", "--draws", "50", "--json"),
}
FEW = ("index", "rater", "ruber", "vectors")
ASKED: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {  # of the server, and of commands
    "logs/demo": ((), ("log", "stats")),
    "vectors/demo": (("references", "scores"), ("refs",)),
    "indexes/demo": (("references", "bm25", "scores"), ("search", "scores")),
    "indexes/demo/baselines": (("scores",), ("scores",)),
    "raters/demo": (("ratings", "references"), ("rating",)),
    "rubers/demo": (("ruber",), ("ruber",)),
    "reference-sets": (("set", "set_scores"), ("set",)),
    "indexes/coded": (("encoder",), ("encoder",)),
    "encoder": (("encoder",), ("encoder",)),
    "exports": ((), ()),
}
RARER: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "indexes/graph": (("graph",), ("graph",)),
    "indexes/lists": (("lists",), ("lists",)),
    "indexes/pieces": (("pieces",), ("pieces",)),
    "indexes/demo/ranges": (("ranges",), ("ranges",)),
    "backup": ((), ()),
}
LEARNED: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "adems/demo": ((), ("adem",)),
    "vhreds/demo": ((), ("vhred",)),
    "fitted-judges/demo": ((), ("judge-fit",)),
    "hybrids/demo": ((), ("hybrid",)),
    "self-plays/demo": ((), ("self-play",)),
    "passports/demo": ((), ("passport",)),
    "scores": ((), ("verify", "compare")),
}
KEPT: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "uploads": (("upload", "upload_content", "preview"), ()),
    "evaluations": (("evaluation", "replies", "reply", "json", "csv", "latex"), ()),
}
WAYS = ("bytes", "bytes", "run", "numbers", "cut", "longer", "swapped")
MORE_WAYS = (*WAYS, "bit", "bit", "emptied")
FIRST_RARER, FIRST_LEARNED, FIRST_KEPT = 2_000, 4_000, 6_000  # the first of their seeds
_INTERNAL = RefaugError.exit_code


def complete(settings: Settings) -> None:
    """Add to the golden home: an encoder inside it with an index of its own, and exported files."""
    shutil.rmtree(settings.home / "indexes" / "coded")
    places = Places.under(settings.home)
    add_to_log(places, "tea", pairs_of(("i like tea", "me too"), ("a cat", "a big one"), ("not really", "why not ?")))
    write_encoder(settings.home / "encoder", weights=TinyEncoder.seeded())
    build(places, "coded", logs=("tea",), vectors=None, encoder=settings.home / "encoder")
    places.indexes.publish("coded", places.indexes.versions("coded")[-1])
    (settings.home / "exports").mkdir()
    for kind in FEW:
        export_artefact(artefact_stores(settings)[kind], "demo", settings.home / f"exports/{kind}.tar.zst", Silent())


def complete_rarer(settings: Settings) -> None:
    """Add to a complete home: a graph, lists, an index of pieces, measured ranges, and a backup."""
    places = Places.under(settings.home)
    _, version = artefact_stores(settings)["rater"].resolve("demo")
    tokenizer = next((settings.home / "raters" / "demo" / version).glob("*.model"))
    for name, more in (
        ("graph", {"factory": "HNSW8,Flat"}),
        ("lists", {"factory": "IVF4,SQ8"}),
        ("pieces", {"tokenizer": f"sentencepiece:{tokenizer}"}),
    ):
        build(places, name, logs=("demo",), vectors="demo", **more)
        places.indexes.publish(name, places.indexes.versions(name)[-1])
    by_command(settings, "ranges")
    with closing(Database.open(settings)) as database:
        database.migrate()
        back_up(settings, database, settings.home.parent / "backup", Silent())
    (settings.home.parent / "backup").rename(settings.home / "backup")  # where files are looked for


def complete_learned(settings: Settings) -> None:
    """Add a file of scores and the passport of a scripted judge to a home."""
    from scripted_judges import ScriptedJudge, answer, as_json, rated_items  # noqa: PLC0415  of an extra

    judge, rated = ScriptedJudge(golds_help=0.9, noise=0.8), settings.home / "rated.jsonl"
    rated.write_text("\n".join(map(json.dumps, rated_items(60, 1))))
    with endpoint(lambda asked: openai(as_json(answer(judge, asked.prompt, "", asked.part)))) as fake:
        write_judge(settings.home, fake.url, "scripted")
        command = ["judge", "certify", "scripted", str(rated), "--name", "demo"]
        certified = run_command(["--quiet", "--home", str(settings.home), *command])
    assert certified.code == 0, certified.err
    (settings.home / "scores").mkdir()
    command = (
        "score",
        "few.jsonl",
        "--index",
        "demo",
        "--rater",
        "demo",
        "--metric",
        "upsilon-bleu",
        "--metric",
        "chrf",
    )
    scored = run_command(["--quiet", "--home", str(settings.home), *command, "--details", *DRAWN])
    (settings.home / "scores" / "scores.json").write_text(scored.out)


def complete_kept(settings: Settings) -> None:
    """Add an upload and its evaluation to a home, and the requests about them."""
    serve = ServeSettings(allowed_hosts="testserver")
    content = "\n".join(json.dumps({**ITEM, "id": f"i{number}"}) for number in range(20)).encode()
    with TestClient(web_app(settings.home)) as client:
        headers = {"content-type": "application/octet-stream"}
        upload = client.post("/v1/uploads", params={"name": "x.jsonl"}, content=content, headers=headers).json()["id"]
        order = {"kind": "score", "items": f"upload:{upload}", "metrics": ["bleu", "chrf"], "draws": 10}
        evaluation = client.post("/v1/evaluations", json=order).json()["id"]
        assert run_worker(settings, serve, once=True) == 0
    about, download = f"/v1/evaluations/{evaluation}", f"/v1/evaluations/{evaluation}/download?format="
    REQUESTS.update(
        {
            "upload": ("GET", f"/v1/uploads/{upload}", None),
            "upload_content": ("GET", f"/v1/uploads/{upload}/content", None),
            "preview": ("POST", "/v1/uploads/preview", {"items": f"upload:{upload}"}),
            "evaluation": ("GET", about, None),
            "replies": ("GET", f"{about}/replies", None),
            "reply": ("GET", f"{about}/replies/3", None),
            **{form: ("GET", download + form, None) for form in ("json", "csv", "latex")},
        }
    )


def files_of(settings: Settings, kinds: Iterable[str]) -> dict[str, list[Path]]:
    """The files that belong to artefacts, by kind."""
    indexes = artefact_stores(settings)["index"]
    served = indexes.folder(*indexes.resolve("demo"))
    files = {
        kind: [
            path
            for path in sorted((settings.home / kind).rglob("*"))
            if path.is_file() and not path.name.startswith(".") and path.name != "CURRENT"
            if kind != "indexes/demo" or path.is_relative_to(served)  # else two of three alterations change nothing
        ]
        for kind in kinds
    }
    assert all(files.values()), [kind for kind, paths in files.items() if not paths]
    return files


# ── what answers ──────────────────────────────────────────────────────────────────────────────────────────────────────


def by_command(settings: Settings, name: str) -> Any:
    """What a command prints: its JSON, `refused`, or how it failed."""
    ended = run_command(["--quiet", "--home", str(settings.home), *(COMMANDS | OF_LEARNED)[name]])
    if ended.code == 0:
        return ended.out
    return f"failed: {ended.err}" if ended.code == _INTERNAL else "refused"


def by_server(settings: Settings, names: tuple[str, ...]) -> dict[str, Any]:
    """What a server that starts over this home answers."""
    answers: dict[str, Any] = {}
    if not names:
        return answers
    with TestClient(web_app(settings.home), raise_server_exceptions=False) as client:
        for name in names:
            method, path, body = REQUESTS[name]
            answer = client.request(method, path, json=body)
            while answer.status_code == 503 and _is_opening(answer.json()):
                answer = client.request(method, path, json=body)
            if answer.status_code == 200:
                is_json = answer.headers["content-type"] == "application/json"
                answers[name] = _without_id(answer.json()) if is_json else answer.content.hex()
            else:
                answers[name] = f"failed: {answer.text}" if answer.json()["code"] == "internal" else "refused"
    return answers


def _is_opening(problem: dict[str, Any]) -> bool:
    return problem["code"] == "not_ready" or problem["detail"].endswith("is being opened")


def _without_id(answer: dict[str, Any]) -> dict[str, Any]:
    return {name: part for name, part in answer.items() if name != "request_id"}


def imported(settings: Settings) -> dict[str, Any]:
    """What importing the exported files into an empty home leaves there, or why nothing."""
    answers = {}
    for kind in FEW:
        with tempfile.TemporaryDirectory() as folder:
            file = settings.home / f"exports/{kind}.tar.zst"
            code = run_command(["--quiet", "--home", folder, "artefacts", "import", str(file)]).code
            content = {
                str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
                for path in sorted(Path(folder).rglob(f"demo/{'[0-9]' * 4}*/**/*"))
                if path.is_file()
            }
        answers[kind] = (
            content if code == 0 else "failed" if code == _INTERNAL else "refused" if not content else "left"
        )
    return answers


def restored(settings: Settings) -> dict[str, Any]:
    """What restoring the backup into an empty home leaves there, or why nothing."""
    with tempfile.TemporaryDirectory() as folder:
        backup = str(settings.home / "backup")
        code = run_command(["--quiet", "--home", f"{folder}/home", "admin", "restore", backup]).code
        content = {
            str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
            for path in sorted(Path(folder, "home").rglob("*"))
            if path.is_file() and not path.name.startswith(("refaug.db", ".lock")) and ".restoring" not in path.parts
        }
    outcome = content if code == 0 else "failed" if code == _INTERNAL else "refused" if not content else "left"
    return {"restore": outcome}


def all_answers(settings: Settings, kind: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """What the server and the commands answer where files of this kind matter."""
    of_server, of_commands = (ASKED | RARER | LEARNED | KEPT)[kind]
    if kind == "exports":
        return {}, imported(settings)
    if kind == "backup":
        return {}, restored(settings)
    return by_server(settings, of_server), {name: by_command(settings, name) for name in of_commands}


def altered(path: Path, files: list[Path], chance: random.Random, ways: Sequence[str]) -> tuple[str, bytes]:
    """Another content for a file, and in a word what was done."""
    content = bytearray(path.read_bytes())
    way = chance.choice(ways)
    if way == "emptied":
        return way, b""
    if way == "bit":
        content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
        return way, bytes(content)
    if way == "swapped":
        same = [other for other in files if other.name == path.name and other != path] or files
        return way, chance.choice(same).read_bytes()
    if way == "cut":
        return way, bytes(content[: chance.randrange(len(content) + 1)])
    if way == "longer":
        return way, bytes(content + chance.randbytes(chance.randrange(1, 64)))
    if way == "numbers" and len(content) > 140:  # of eight bytes, behind a header
        at = 128 + 8 * chance.randrange((len(content) - 128) // 8 or 1)
        content[at : at + 8] = chance.choice((-1, 1 << 40, 1 << 62, 77_777)).to_bytes(8, "little", signed=True)
        return way, bytes(content)
    start = chance.randrange(max(1, len(content)))
    count = chance.randrange(1, 200) if way == "run" else 1
    for place in range(start, min(len(content), start + count)):
        content[place] ^= chance.randrange(1, 256)
    return way, bytes(content)


def outcomes(answers: dict[str, Any], right: dict[str, Any]) -> dict[str, str]:
    """`right`, `refused`, `wrong`, or what failed."""
    named = {}
    for name, answer in answers.items():
        is_text = isinstance(answer, str) and (answer in ("refused", "left") or answer.startswith("failed"))
        named[name] = answer if is_text else "right" if answer == right[name] else "wrong"
    return named


def named_by_doctor(settings: Settings) -> bool:
    """Whether `refaug admin doctor --verify` finds something to mend."""
    return any(
        finding.state is doctor.FindingState.WRONG
        for finding in doctor.examine(settings, verify=True)
        if finding.what.split(" ")[0] in ("log", *artefact_stores(settings), "set")
    )


def replace(path: Path, content: bytes) -> None:
    """Put another file in place of this one; what this process remembers of vectors by their manifest is forgotten."""
    with write_aside(path) as file:
        file.write(content)
    word_vectors._load_folder.cache_clear()


def try_all(settings: Settings, seeds: range) -> Iterator[dict[str, Any]]:
    """Alter, ask, and put back, once for each seed."""
    complete(settings)
    kinds = tuple(ASKED)
    if seeds.start >= FIRST_KEPT:
        complete_kept(settings)
        kinds = tuple(KEPT)
    elif seeds.start >= FIRST_LEARNED:
        complete_learned(settings)
        kinds = tuple(LEARNED)
    elif seeds.start >= FIRST_RARER:
        complete_rarer(settings)
        kinds = tuple(RARER)
    right = {kind: all_answers(settings, kind) for kind in kinds if kind != "indexes/demo/baselines"}
    files = files_of(settings, kinds)  # with the b that was measured
    if "indexes/demo/baselines" in kinds:
        right["indexes/demo/baselines"] = all_answers(settings, "indexes/demo/baselines")
    unasked = [
        (kind, name)
        for kind, both in right.items()
        for name, answer in (both[0] | both[1]).items()
        if isinstance(answer, str) and answer.split(":")[0] in ("refused", "failed")
    ]
    assert unasked == [], unasked
    for seed in seeds:
        chance = random.Random(seed)
        kind = kinds[seed % len(kinds)]
        path = chance.choice(files[kind])
        before = path.read_bytes()
        ways = WAYS if seed < FIRST_LEARNED else MORE_WAYS
        way, content = altered(path, [each for paths in files.values() for each in paths], chance, ways)
        where = str(path.relative_to(settings.home))
        say({"begun": seed, "file": where, "way": way})
        replace(path, content)
        of_server, of_commands = all_answers(settings, kind)
        served, commanded = outcomes(of_server, right[kind][0]), outcomes(of_commands, right[kind][1])
        is_named = "wrong" not in commanded.values() or named_by_doctor(settings)
        is_named |= kind == "scores" and commanded["verify"] != "right"
        replace(path, before)
        yield {"seed": seed, "file": where, "way": way, "served": served, "command": commanded, "named": is_named}


def say(line: dict[str, Any]) -> None:
    """Print a line at once: the process may die of what comes next."""
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


def main(first: int, last: int) -> None:
    """Print the outcome of each alteration."""
    logging.disable(logging.CRITICAL)
    with unpacked() as folder:
        with closing(Database.open(Settings(home=folder / "home"))) as database:
            database.migrate()
        for line in try_all(Settings(home=folder / "home"), range(first, last)):
            say(line)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
