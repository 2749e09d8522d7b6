"""A judge that nobody scripted: SmolLM2-135M-Instruct behind llama.cpp's endpoint on loopback.

It certifies, scores and compares from end to end, and is stopped in the midst. Made by `make test-integrations`, its
environment is beside that of the frameworks; where pip could not install it, the tests are skipped, and say so.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from beside import ROOT

PYTHON = Path(os.environ.get("REFAUG_LLAMA_PYTHON", str(ROOT / ".venv-llama" / "bin" / "python")))
REFAUG = os.environ.get("REFAUG_SERVER_PYTHON", str(ROOT / ".venv" / "bin" / "python"))
pytestmark = pytest.mark.skipif(
    not (PYTHON.parents[1] / ".installed").exists(),
    reason=f"{PYTHON} lacks the packages of tests/llama-requirements.txt",
)
# So small a model keeps to no form by itself: the endpoint holds it to the two that are asked for; numbers are quick.
CHOICE = {"type": "object", "properties": {"better": {"enum": ["A", "B", "tie"]}}, "required": ["better"]}
FORM = {
    "type": "json_schema",
    "json_schema": {"name": "answer", "schema": {"anyOf": [{"enum": [1, 2, 3, 4, 5]}, CHOICE]}},
}
RUBRIC = """
name = "fit"
task = "Judge the reply."
scale = [1, 5]
answer = "number"

[[criteria]]
name = "fit"
question = "Does the reply fit the dialogue?"
"""
TALK = """
Where is my hat?|It is on the chair.
Tea or coffee?|Tea, please.
I have to go.|See you tomorrow!
Did you sleep well?|Not really, the dog barked.
What time is it?|Nearly nine.
Shall we walk?|Yes, let me find my shoes.
The soup is cold.|I will warm it up.
Is the shop open?|Until six, I think.
My bike is broken.|We can take the bus.
Who called?|It was the dentist.
It rains again.|Take my umbrella.
Can you help me?|Of course, what is it?
I lost my key.|There is one under the mat.
How was the film?|Too long, but funny.
Are you hungry?|I could eat a horse.
The train is late.|How late is it?
I like this song.|So do I, turn it up.
Where do we meet?|At the fountain.
Do you swim?|Every Friday.
This box is heavy.|Let me take one end.
What is for dinner?|Rice and beans.
I got the job!|Congratulations!
Is this seat free?|Yes, please sit down.
My phone is dead.|Use mine.
When do you leave?|On Monday morning.
"""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A home with the judge, while its endpoint runs."""
    folder = tmp_path_factory.mktemp("judge")
    command = [str(PYTHON), str(ROOT / "tests" / "llama_server.py")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        address = server.stdout.readline().decode().strip()
        assert address, "the endpoint did not start"
        (folder / "judges").mkdir()
        judge = {"url": f"{address}/v1", "model": "smollm2", "concurrency": 1, "parameters": {"response_format": FORM}}
        (folder / "judges" / "small.json").write_text(json.dumps(judge))
        (folder / "fit.toml").write_text(RUBRIC)
        yield folder
        server.stdin.close()


@pytest.fixture(scope="module")
def items(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Dialogues with the reply that was given, rated high, and that of another dialogue, rated low."""
    pairs = [line.split("|") for line in TALK.strip().splitlines()]
    path = tmp_path_factory.mktemp("items") / "rated.jsonl"
    lines = [
        {
            "id": f"d{number}",
            "turns": [turn],
            "replies": {"given": reply, "other": pairs[(number + 7) % len(pairs)][1]},
            "ratings": {"given": [5, 4 + number % 2], "other": [1, 1 + number % 2]},
            "scale": [1, 5],
        }
        for number, (turn, reply) in enumerate(pairs)
    ]
    path.write_text("\n".join(map(json.dumps, lines)))
    return path


def start(home: Path, *arguments: object) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    command = [REFAUG, "-m", "refaug", "--home", str(home), *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)


def refaug(home: Path, *arguments: object) -> tuple[Any, str]:
    out, err = (process := start(home, *arguments)).communicate(timeout=900)
    assert process.returncode == 0, err
    return json.loads(out), err


def stored(home: Path) -> int:
    with closing(sqlite3.connect(home / "judgements" / "answers.db")) as answers:
        return int(answers.execute("select count(*) from answers").fetchone()[0])


@pytest.mark.faults
def test_it_is_certified_for_what_it_is_worth_cancelled_and_resumed(home: Path, items: Path, tmp_path: Path) -> None:
    shutil.copytree(home / "judges", tmp_path / "judges")
    shutil.copy(home / "fit.toml", tmp_path)
    home = tmp_path  # a passport changes what the others find
    of_home = ("--name", "small", "--rubric", home / "fit.toml", "--most", 20, "--json")
    certify = ("judge", "certify", "small", items, *of_home)
    stopped = start(home, *certify)
    assert stopped.stderr is not None
    for line in stopped.stderr:
        if re.search(r"[1-9]\d* questions of", line):
            break
    stopped.terminate()
    _, rest = stopped.communicate(timeout=300)
    assert stopped.returncode == 5, rest
    kept = stored(home)
    assert kept > 0
    found, said = refaug(home, *certify)
    (asked,) = re.findall(r"judge small: (\d+) asked", said)
    assert int(asked) == stored(home) - kept  # the version is asked without the store
    passport = found["passport"]
    assert (passport["labels"], passport["unscored"]) == (50, 0)
    assert not passport["certified"]  # so small a model rates everything alike, or at random
    assert passport["why_not"]
    assert {probe["probe"] for probe in passport["probes"]} >= {"order", "length", "grade", "null", "drift"}
    scored_with_a_warning(home, items, "passport small@")


def test_it_scores_with_a_warning_and_is_refused_where_a_passport_is_required(home: Path, items: Path) -> None:
    scored_with_a_warning(home, items, "judge small has no passport")


def scored_with_a_warning(home: Path, items: Path, warning: str) -> None:
    metric = ("-m", f"judge:model=small,rubric={home / 'fit.toml'}", "--draws", 0, "--json")
    scored, _ = refaug(home, "score", items, *metric)
    systems = scored["scores"][0]["systems"]
    assert [system["unscored"] for system in systems.values()] == [0, 0]
    assert all(reply["score"] in (0, 0.25, 0.5, 0.75, 1) for reply in systems["given"]["replies"])
    assert any(warning in text for text in scored["warnings"])
    refused = start(home, "score", items, *metric, "--require-passport")
    assert warning in refused.communicate(timeout=120)[1]
    assert refused.returncode == 3


def test_it_compares_replies_in_both_orders(home: Path, items: Path, tmp_path: Path) -> None:
    few = tmp_path / "few.jsonl"
    few.write_text("\n".join(items.read_text().splitlines()[:6]))
    more = ("--systems", "given,other", "--rubric", home / "fit.toml", "--json")
    compared, _ = refaug(home, "judge", "compare", "small", few, *more)
    assert sum(compared["verdicts"].values()) + sum(compared["problems"].values()) == 6
    decided = [pair for pair in compared["pairs"] if pair["verdict"] is not None]
    assert decided
    for pair in decided:
        assert set(pair["choices"]) <= {"A", "B", "tie"}
        assert (pair["verdict"] == "order") == (pair["choices"][0] == pair["choices"][1] != "tie"), pair
