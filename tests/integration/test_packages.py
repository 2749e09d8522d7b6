"""Metrics, bots and job kinds of other packages: installed, used through every face, and named where they fail."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from indexes import add_to_log, add_vectors, pairs_of

from refaug.indexer.index_folders import Places

ROOT = Path(__file__).resolve().parents[2]
WORDS = {"tea": (1, 0), "coffee": (0.9, 0.1), "please": (0, 1), "bus": (-1, 0)}
ITEM = {"id": "d1", "utterance": "What?", "references": ["tea please"], "replies": {"a": "coffee please", "b": "bus"}}
BROKEN = """
from refaug.metrics.base import Level, MeanMetric, Prepared
from refaug.metrics.costs import LINEAR, Cost
from refaug.metrics.metric_info import CorpusScore, MetricInfo, Uses

class Odd(MeanMetric):
    def __init__(self, info, settings):
        self.info, self.settings, self.columns = info, dict(settings), ("total", "replies")
    def prepare(self, references):
        return Prepared(items=len(references))
    def statistics(self, replies, prepared, reply_places, item_places):
        import numpy as np
        if self.info.name == "endless":
            while True:
                pass
        if self.info.name == "hungry":
            bytearray(1 << 40)
        if self.info.name == "ends":
            import os
            os._exit(3)
        if self.info.name == "raises":
            raise ZeroDivisionError("nothing")
        rows = np.ones((len(reply_places), 3 if self.info.name == "wide" else 2))
        return rows * [7, 1] if self.info.name == "high" else rows

def info(name, **more):
    more = {"cost": Cost(), **more}
    return MetricInfo(name=name, summary="odd", uses=Uses.OWN, low=0, high=1, parameters=(), corpus=CorpusScore.MEAN,
                      paper="none", made_by="broken:Odd", **more)

raises, wide, high, fine = info("raises"), info("wide"), info("high"), info("fine")
renamed, word = info("other"), "no MetricInfo"
costless, endless, hungry, ends = (info(name, cost=LINEAR) for name in ("costless", "endless", "hungry", "ends"))
"""
NAMES = {
    name: f"broken:{name}"
    for name in ("raises", "wide", "high", "fine", "renamed", "word", "costless", "endless", "hungry", "ends")
}


def run(target: Path, *command: object, code: int = 0, cwd: Path | None = None) -> str:
    """What a process prints that finds the packages in a folder."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(target), str(ROOT), str(ROOT / "tests")])}
    done = subprocess.run(
        [sys.executable, *map(str, command)], env=environment, cwd=cwd, capture_output=True, text=True, check=False
    )
    assert done.returncode == code, done.stderr
    return done.stdout if code == 0 else done.stderr


def refaug(target: Path, home: Path, *arguments: object, code: int = 0) -> str:
    return run(target, "-m", "refaug", "--home", home, "--quiet", *arguments, code=code)


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the example package, installed by pip without a network."""
    folder = tmp_path_factory.mktemp("packages")
    build = folder / "source"
    build.mkdir()
    for path in (ROOT / "examples/package").rglob("*"):
        if path.is_file() and "egg-info" not in str(path):
            copy = build / path.relative_to(ROOT / "examples/package")
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(path.read_bytes())
    pip = ("-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--no-build-isolation")
    run(folder, *pip, "--target", folder / "site", build)
    return folder / "site"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with a log `chat` and vectors `small`, and items beside it."""
    folder = tmp_path_factory.mktemp("home")
    (folder / "items.jsonl").write_text(json.dumps(ITEM) + "\n")
    places = Places.under(folder / "home")
    add_vectors(places, "small", WORDS)
    add_to_log(places, "chat", pairs_of(("Tea?", "Yes please now"), ("A bus?", "no")))
    return folder / "home"


SPEC = "soft-overlap:vectors=small,least=0.9"


def share(reply: str, reference: str) -> float:
    """The formula of the example, by numpy."""
    vectors = [np.array([WORDS[word] for word in text.split()], float) for text in (reply, reference)]
    units = [of_text / np.linalg.norm(of_text, axis=1, keepdims=True) for of_text in vectors]
    return float(((units[0] @ units[1].T).max(axis=1) >= 0.9).mean())


@pytest.mark.slow
def test_a_metric_of_a_package_scores_alike_through_every_face(installed: Path, home: Path) -> None:
    expected = {system: share(reply, "tea please") for system, reply in ITEM["replies"].items()}
    assert expected == {"a": 1.0, "b": 0.0}
    items = home.parent / "items.jsonl"
    printed = json.loads(refaug(installed, home, "score", items, "-m", SPEC, "--json"))["scores"][0]
    signature = printed["signature_full"]
    assert {name: system["mean"] for name, system in printed["systems"].items()} == expected
    assert "|refaug-example.:1.0|" in signature
    script = home.parent / "faces.py"
    script.write_text(FACES)
    told = json.loads(run(installed, script, home, items, SPEC))
    assert told["library"] == told["http"] == expected
    assert told["signatures"] == [signature, signature]
    assert told["upsilon"] == pytest.approx(expected)
    stored = home.parent / "scores.json"
    stored.write_text(refaug(installed, home, "score", items, "-m", SPEC, "--json", "--details"))
    refaug(installed, home, "score", "verify", stored)
    rated = home.parent / "rated.jsonl"
    rated.write_text(json.dumps({**ITEM, "ratings": {"a": [5], "b": [1]}}) + "\n")
    board = json.loads(refaug(installed, home, "agreement", "leaderboard", rated, "-m", "bleu", "-m", SPEC, "--json"))
    assert board["signatures"][SPEC] == signature
    listed = json.loads(refaug(installed, home, "score", "metrics", "list", "--json"))["metrics"]
    assert [info["name"] for info in listed][-1] == "soft-overlap"


@pytest.mark.slow
def test_a_job_kind_of_a_package_runs_with_its_checked_options(installed: Path, home: Path) -> None:
    script = home.parent / "job.py"
    script.write_text(JOB)
    told = json.loads(run(installed, script, home))
    assert {name: told["result"][name] for name in ("log", "words", "letters")} == {
        "log": "chat",
        "words": 4,
        "letters": 14,
    }
    assert told["refused"][0] == 422
    assert "letter" in told["refused"][1]
    assert "letters" in told["refused"][1]


ECHOED = "Really coffee, please."


@pytest.mark.slow
def test_a_bot_of_a_package_replies_alike_through_every_face(installed: Path, home: Path) -> None:
    item = {"id": "d1", "utterance": "I take coffee, please."}
    items = home.parent / "asked.jsonl"
    items.write_text(json.dumps(item) + "\n")
    printed = json.loads(refaug(installed, home, "bots", "reply", items, "--bot", "a=echo:Really,words=2"))
    script = home.parent / "bot.py"
    script.write_text(BOT)
    told = json.loads(run(installed, script, home, items))
    assert printed["replies"] == told["http"] == told["job"] == {"a": ECHOED}
    assert told["stored"] == ECHOED
    assert set(told["spoilt"].split()) <= set("abcdefgh")
    assert "package:refaug-example@1.0" in printed["reply_provenance"]["a"]
    assert [status for status, _ in told["refused"]] == [422, 422]
    assert [detail.rpartition(": ")[2] for _, detail in told["refused"]] == ["echo has no key 'letters'", "words=0"]
    wrong = refaug(installed, home, "bots", "reply", items, "--bot", "a=ecco:Really", code=2)
    assert "there is no kind of bot 'ecco'" in wrong


BROKEN_BOTS = """
from refaug.bots.kinds import BotKind
from refaug.bots.replier import BotReply, Replier

class Odd(Replier):
    def __init__(self, way): self.way = way
    provenance = {}
    def replies(self, requests):
        if self.way == "raises":
            raise ZeroDivisionError("nothing")
        return {"few": [], "blank": [BotReply(text=" ") for _ in requests], "text": ["x" for _ in requests]}[self.way]

def kind(way):
    return BotKind(source="X", keys={}, repeated_keys=(), check=lambda _: None, open=lambda *_: Odd(way), artefact=None)

raises, few, blank, text, word = kind("raises"), kind("few"), kind("blank"), kind("text"), "no BotKind"
"""


@pytest.mark.slow
def test_a_broken_bot_is_named_with_its_package(tmp_path: Path) -> None:
    said = {
        "raises": "replying ended with ZeroDivisionError('nothing')",
        "few": "it returned 0 replies to 1 requests",
        "blank": "it returned BotReply(text=' '",
        "text": "it returned 'x'",
        "word": "broken_bots:word is a str, not a BotKind",
        "absent": "cannot be imported: AttributeError",
    }
    write_package(tmp_path, "odd", {name: f"broken_bots:{name}" for name in said}, group="refaug.bots")
    (tmp_path / "broken_bots.py").write_text(BROKEN_BOTS)
    items = tmp_path / "items.jsonl"
    items.write_text('{"id": "d1", "utterance": "Tea?"}\n')
    for name, told in said.items():
        error = refaug(tmp_path, tmp_path / "home", "bots", "reply", items, "--bot", f"a={name}:x", code=1)
        assert f"kind of bot {name} of package odd" in error
        assert told in error


def write_package(site: Path, package: str, names: dict[str, str], *, group: str = "refaug.metrics") -> None:
    """A package as pip leaves it: a module and its metadata."""
    (site / "broken.py").write_text(BROKEN)
    metadata = site / f"{package}-1.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1\n")
    entries = "\n".join(f"{name} = {target}" for name, target in names.items())
    (metadata / "entry_points.txt").write_text(f"[{group}]\n{entries}\n")


SAID = {
    "raises": "metric raises of package odd: scoring ended with ZeroDivisionError('nothing')",
    "wide": "statistics returned an array of the shape (2, 3), and (2, 2) was expected",
    "high": "it gave the score 7, and its range is 0 to 1",
    "renamed": "its MetricInfo has the name 'other'",
    "word": "broken:word is a str, not a MetricInfo",
    "endless": "metric endless states no cost, and it ended in the middle: a call may take 5 s",
    "ends": "metric ends states no cost, and it ended in the middle",
    "left": "ended by signal 14",
    "hungry": "metric hungry of package odd: scoring ended with MemoryError()",
    "absent": "cannot be imported: ModuleNotFoundError",
    "twice": "metric twice is added by",
}


@pytest.mark.slow
def test_a_broken_metric_is_named_with_its_package_and_spoils_nothing_else(tmp_path: Path) -> None:
    write_package(tmp_path, "odd", {**NAMES, "absent": "no_such_module:metric", "twice": "broken:fine"})
    write_package(tmp_path, "even", {"twice": "broken:fine"})
    items, script = tmp_path / "items.jsonl", tmp_path / "each.py"
    items.write_text(json.dumps(ITEM) + "\n")
    script.write_text(EACH)
    told = json.loads(run(tmp_path, script, json.dumps(ITEM), *SAID))
    assert [name for name, says in SAID.items() if says not in told[name]] == []
    scored = json.loads(refaug(tmp_path, tmp_path / "home", "score", items, "-m", "fine", "-m", "bleu", "--json"))
    assert (scored["scores"][0]["metric"], scored["scores"][0]["systems"]["a"]["mean"]) == ("fine", 1.0)
    apart = json.loads(refaug(tmp_path, tmp_path / "home", "score", items, "-m", "costless", "--json"))["scores"][0]
    assert {name: system["mean"] for name, system in apart["systems"].items()} == {"a": 1.0, "b": 1.0}
    listed = json.loads(refaug(tmp_path, tmp_path / "home", "score", "metrics", "list", "--json"))
    assert {info["name"] for info in listed["metrics"]} >= {"fine", "raises", "bleu"}
    assert [one.partition(" of package")[0].partition(" is added")[0] for one in listed["problems"]] == [
        f"metric {name}" for name in ("absent", "renamed", "twice", "word")
    ]


EACH = """
import json, sys
import refaug

from refaug.metrics.packages import watched_metrics
item, names = json.loads(sys.argv[1]), sys.argv[2:]
told = {}
for name in names:
    watched_metrics.CALL_S = 5.0 if name == "endless" else 120.0
    try:
        refaug.score([item], metric=name)
    except refaug.RefaugError as error:
        told[name] = error.message
import orjson
watched_metrics.CALL_S = 0.5
left = watched_metrics._Child("endless", {})._start()  # by a server that does not end it
references = {"texts": ["a"], "weights": [1.0], "gold": 0, "utterance": None, "beside": None}
left.stdin.write(orjson.dumps({"references": [references], "replies": ["a"], "reply_places": [0], "item_places": [0]}))
left.stdin.write(b"\\n")
left.stdin.flush()
told["left"] = f"ended by signal {-left.wait()}"
print(json.dumps(told))
"""
FACES = """
import json, sys
import refaug
from refaug.core.home import Settings
from serving import client_of, migrated
from pathlib import Path

home, items, spec = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
item = json.loads(items.read_text())
def means(of): return {name: system["mean"] for name, system in of["systems"].items()}
library = refaug.score([item], metric=spec, home=home)
with client_of(migrated(Settings(home=home)), ready=False) as client:
    http = client.post("/v1/scores", json={"items": [item], "metrics": [spec]}).json()["scores"][0]
    found = [{"text": text, "weight": 1.0, "source": "retrieved"} for text in item["references"]]
    body = {"items": [{**item, "references": found}], "metrics": [f"upsilon-{spec},b=0"], "references": "given"}
    upsilon = client.post("/v1/scores", json=body)
assert upsilon.status_code == 200, upsilon.text
print(json.dumps({
    "library": {name: library.metric[name].mean for name in ("a", "b")},
    "http": means(http),
    "signatures": [library.metric.signature_full, http["signature_full"]],
    "upsilon": means(upsilon.json()["scores"][0]),
}))
"""
JOB = """
import json, sys
from pathlib import Path
from refaug.core.home import Settings
from refaug.service.jobs.worker import run_worker
from refaug.service.server_settings import ServeSettings
from serving import client_of, migrated

home = migrated(Settings(home=Path(sys.argv[1])))
with client_of(home, ready=False) as client:
    wrong = client.post("/v1/jobs", json={"kind": "count-words", "log": "chat", "letter": True})
    made = client.post("/v1/jobs", json={"kind": "count-words", "log": "chat", "letters": True})
    assert run_worker(home, ServeSettings(), once=True) == 0
    job = client.get(f"/v1/jobs/{made.json()['id']}").json()
print(json.dumps({"result": job["result"], "refused": [wrong.status_code, wrong.json()["detail"]]}))
"""
BOT = """
import json, sys
from pathlib import Path
from refaug.core.home import Settings
from refaug.service.jobs.worker import run_worker
from refaug.service.server_settings import ServeSettings
from serving import client_of, migrated

home, items = migrated(Settings(home=Path(sys.argv[1]))), Path(sys.argv[2])
item = json.loads(items.read_text())
echo = {"kind": "echo", "source": "Really", "words": 2}
with client_of(home, ready=False) as client:
    def put(name, fields): return client.put(f"/v1/bots/{name}", json={"specification": fields})
    made = [put("mine", echo)]
    made.append(put("spoilt", {"kind": "degraded", "bot": "mine", "share": 1, "pool": ["a b c d", "e f g h"]}))
    assert all(one.is_success for one in made), made[0].text + made[1].text
    def replied(name):
        found = client.post(f"/v1/bots/{name}/replies", json={"dialogues": [{"turns": [item["utterance"]]}]})
        assert found.status_code == 200, found.text
        return found.json()["replies"][0]["reply"]
    stored, spoilt = replied("mine"), replied("spoilt")
    whole = client.post("/v1/replies", json={"items": [item], "bots": {"a": "echo:Really,words=2"}}).json()
    refused = [put("bad", {**echo, **more}) for more in ({"letters": 1}, {"words": 0})]
    binary = {"Content-Type": "application/octet-stream"}
    sent = client.post("/v1/uploads?name=items.jsonl", content=items.read_bytes(), headers=binary)
    assert sent.is_success, sent.text
    order = {"kind": "replies", "items": f"upload:{sent.json()['id']}", "bots": {"a": "bot:mine"}}
    made = client.post("/v1/jobs", json=order)
    assert run_worker(home, ServeSettings(), once=True) == 0
    job = client.get(f"/v1/jobs/{made.json()['id']}").json()
    written = client.get(f"/v1/uploads/{job['result']['upload'].rpartition(':')[2]}/content").json()
print(json.dumps({
    "http": whole["items"][0]["replies"],
    "job": written["replies"],
    "stored": stored,
    "spoilt": spoilt,
    "refused": [[one.status_code, one.json()["detail"]] for one in refused],
}))
"""
