"""Altered files: what commands and server make of them, in a process of its own, since a wrong one may kill it.

    python tests/alterations.py FIRST LAST     the alterations with these seeds, one line of JSON for each

Each seed alters one file of a home: bytes, its length, or its content against that of another file, in the same version
or another one. Then everything that is stored is opened, as commands open it and as a server does.
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from goldens.record import SET, unpacked

from refaug.core.artefacts.manifests import MANIFEST
from refaug.core.errors import RefaugError
from refaug.core.files import read_json, with_checksum, write_json
from refaug.core.home import Settings
from refaug.core.records import Reference, TestPair
from refaug.evaluation.home.indexes import open_index
from refaug.evaluation.home.raters import open_rater
from refaug.evaluation.home.rubers import open_ruber
from refaug.evaluation.scoring.items import item_json
from refaug.evaluation.scoring.reference_sets.set_store import ReferenceSets
from refaug.indexer.search.search_settings import MODES, SearchSettings
from refaug.logs.store import StoredLog
from refaug.rater.nn.rate import Candidate, RatingRequest
from refaug.rater.nn.rating_settings import RatingSettings
from refaug.service import doctor

PAIRS = [
    TestPair(id=str(number), turns=(text,), references=(Reference(text=gold),))
    for number, (text, gold) in enumerate(
        [("how are you", "fine, thank you"), ("when is the next train", "at nine"), ("what shall we cook", "pasta")]
    )
]
KINDS = ("logs", "vectors", "indexes", "raters", "rubers", "reference-sets")


def index_answer(settings: Settings, *, hashed: bool) -> Any:
    """What the index finds in every mode, with the id that it names itself by."""
    with open_index(settings, "demo", threads=1, hashed=hashed) as index:
        results = [result for mode in MODES for result in index.search(PAIRS, SearchSettings(mode=mode, k=5))]
        return [index.spec.split("#")[1], *(repr(result) for result in results)]


def rater_answer(settings: Settings) -> Any:
    """The rater's ratings of some replies."""
    rater = open_rater(settings, "demo", threads=1)
    requests = [
        RatingRequest(utterance=pair.turns[0], golds=("fine",), candidates=(Candidate(text="at nine, I think"),))
        for pair in PAIRS
    ]
    return [rater.spec.split("#")[1], repr(rater.rate(requests, RatingSettings(combine="mean")))]


def ruber_answer(settings: Settings) -> Any:
    """The ruber's scores of some replies."""
    ruber = open_ruber(settings, "demo", threads=1)
    return [ruber.spec.split("#")[1], repr(ruber.score([(pair.turns[0], "at nine, I think") for pair in PAIRS]))]


def set_answer(settings: Settings) -> Any:
    """All items of the frozen set."""
    return [item_json(test_item) for test_item in ReferenceSets(settings.reference_sets).open(SET).items()]


def log_answer(settings: Settings) -> Any:
    """All pairs of the log."""
    return [repr(pair) for pair in StoredLog.open(settings.logs, "demo").pairs()]


SERVED: dict[str, Callable[[Settings], Any]] = {
    "index": lambda settings: index_answer(settings, hashed=True),
    "rater": rater_answer,
    "ruber": ruber_answer,
    "set": set_answer,
}
OF_COMMANDS: dict[str, Callable[[Settings], Any]] = {
    "index": lambda settings: index_answer(settings, hashed=False),
    "log": log_answer,
}
READ_BY = {
    "logs": ("log",),
    "vectors": ("index",),
    "indexes": ("index",),
    "raters": ("rater",),
    "rubers": ("ruber",),
    "reference-sets": ("set",),
}


def sealed(settings: Settings) -> None:
    """Write the checksums of manifests, which the recorded home is too old to have."""
    for path in settings.home.glob(f"*/**/{MANIFEST}"):
        write_json(path, with_checksum(read_json(path)))


def files_of(settings: Settings) -> list[Path]:
    """The files that belong to artefacts, by kind."""
    return [
        path
        for kind in KINDS
        for path in sorted((settings.home / kind).rglob("*"))
        if path.is_file() and not path.is_symlink() and not path.name.startswith(".") and path.name != "CURRENT"
    ]


def altered(path: Path, files: list[Path], chance: random.Random) -> tuple[str, bytes]:
    """Another content for a file, and in a word what was done."""
    content = bytearray(path.read_bytes())
    way = chance.choice(("bytes", "bytes", "run", "numbers", "cut", "longer", "swapped"))
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


def outcome(answer: Callable[[Settings], Any], settings: Settings, right: Any) -> str:
    """`right`, `refused`, `wrong`, or what was raised that is no error of refaug."""
    try:
        given_answer = answer(settings)
    except RefaugError:
        return "refused"
    except Exception as error:  # noqa: BLE001  this is what is looked for
        return f"{type(error).__name__}: {error}"
    return "right" if given_answer == right else "wrong"


def named_by_doctor(settings: Settings) -> bool:
    """Whether `refaug doctor --verify` finds something to mend."""
    findings = [
        check for part in (doctor._logs, doctor._artefacts, doctor._sets) for check in part(settings, verify=True)
    ]
    return any(check.state is doctor.FindingState.WRONG for check in findings)


def try_all(settings: Settings, seeds: range) -> Iterator[dict[str, Any]]:
    """Alter, ask, and put back, once for each seed."""
    sealed(settings)
    files = files_of(settings)
    right = {name: answer(settings) for name, answer in {**OF_COMMANDS, **SERVED}.items()}
    for seed in seeds:
        chance = random.Random(seed)
        kind = KINDS[seed % len(KINDS)]
        path = chance.choice([path for path in files if path.is_relative_to(settings.home / kind)])
        before = path.read_bytes()
        way, content = altered(path, files, chance)
        where = str(path.relative_to(settings.home))
        say({"begun": seed, "file": where, "way": way})
        path.write_bytes(content)
        served, by_command = {}, {}
        for name in READ_BY[kind]:
            if name in SERVED:
                served[name] = outcome(SERVED[name], settings, right[name])
            if name in OF_COMMANDS:
                by_command[name] = outcome(OF_COMMANDS[name], settings, right[name])
        is_named = "wrong" not in by_command.values() or named_by_doctor(settings)
        path.write_bytes(before)
        yield {"seed": seed, "file": where, "way": way, "served": served, "command": by_command, "named": is_named}


def say(line: dict[str, Any]) -> None:
    """Print a line at once: the process may die of what comes next."""
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


def main(first: int, last: int) -> None:
    """Print the outcome of each alteration."""
    with unpacked() as folder:
        for line in try_all(Settings(home=folder / "home"), range(first, last)):
            say(line)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
