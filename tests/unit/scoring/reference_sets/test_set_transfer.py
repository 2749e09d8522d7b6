"""Frozen sets as one file: what goes over, what is refused, and what a kill leaves."""

from __future__ import annotations

import hashlib
import io
import signal
import subprocess
import sys
import tarfile
from pathlib import Path

import orjson
import pytest
import zstandard
from refusals import refusing

from refaug.core.artefacts.transfer import open_export
from refaug.core.errors import BadInput, Conflict, DamagedSource, NoSource, RefaugError, UnknownFormat, Withdrawn
from refaug.core.files import with_checksum
from refaug.core.progress import Silent
from refaug.core.records import Item, Origin, Reference
from refaug.scoring.reference_sets.reference_set import SEAL, Purpose, SetDescription
from refaug.scoring.reference_sets.set_store import ReferenceSets
from refaug.scoring.reference_sets.set_transfer import ImportedSet, export_set, import_set

ROOT = Path(__file__).resolve().parents[4]
ITEMS = [
    Item(
        id=f"d{number}",
        turns=(f"is it {number}",),
        references=(Reference(text="yes"), Reference(text="no", source=Origin.SUPPLIED, weight=0.5)),
    )
    for number in range(3)
]


@pytest.fixture
def here(tmp_path: Path) -> ReferenceSets:
    sets = ReferenceSets(tmp_path / "here")
    sets.freeze(ITEMS, SetDescription(purpose=Purpose.TEST))
    return sets


@pytest.fixture
def there(tmp_path: Path) -> ReferenceSets:
    return ReferenceSets(tmp_path / "there")


@pytest.fixture
def file(here: ReferenceSets, tmp_path: Path) -> Path:
    export_set(here, here.ids()[0], tmp_path / "set.tar.zst", Silent())
    return tmp_path / "set.tar.zst"


def into(sets: ReferenceSets, file: Path) -> ImportedSet:
    with open_export(file) as export:
        return import_set(export, sets, Silent())


def files(sets: ReferenceSets) -> list[str]:
    return sorted(path.name for path in sets.folder.iterdir() if path.name != ".lock") if sets.folder.exists() else []


# ── what goes over ────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_set_comes_back_byte_for_byte_and_again_is_no_error(
    here: ReferenceSets, there: ReferenceSets, file: Path
) -> None:
    (set_id,) = here.ids()
    first, again = into(there, file), into(there, file)
    assert (first.id, first.purpose, first.items, first.references) == (set_id, "test", 3, 6)
    assert (first.was_there, again.was_there, first.withdrawn) == (False, True, False)
    assert there.path_of(set_id).read_bytes() == here.path_of(set_id).read_bytes()
    assert list(there.open(set_id).items()) == list(here.open(set_id).items())
    assert files(there) == [f"{set_id}.jsonl.zst"]


def test_the_same_set_gives_the_same_file_which_other_programs_read(
    here: ReferenceSets, there: ReferenceSets, file: Path, tmp_path: Path
) -> None:
    (set_id,) = here.ids()
    into(there, file)
    export_set(there, set_id[:8], tmp_path / "again.tar.zst", Silent())
    assert (tmp_path / "again.tar.zst").read_bytes() == file.read_bytes()
    tar = zstandard.ZstdDecompressor().decompressobj().decompress(file.read_bytes())
    with tarfile.open(fileobj=io.BytesIO(tar)) as archive:
        assert archive.getnames() == ["refaug.json", f"{set_id}.jsonl.zst"]


def test_the_same_set_frozen_at_another_time_is_the_same_set(
    here: ReferenceSets, there: ReferenceSets, file: Path
) -> None:
    (set_id,) = here.ids()
    there.freeze(ITEMS, SetDescription(purpose=Purpose.TEST))
    before = there.path_of(set_id).read_bytes()
    assert into(there, file).was_there
    assert there.path_of(set_id).read_bytes() == before


def test_a_withdrawn_set_stays_withdrawn(here: ReferenceSets, there: ReferenceSets, file: Path) -> None:
    (set_id,) = here.ids()
    withdrawal = here.withdraw(set_id, "a typing error")
    into(there, file)  # exported before
    assert export_set(here, set_id, file, Silent()).withdrawn
    for _ in range(2):
        assert into(there, file).withdrawn
        assert there.withdrawal(set_id) == withdrawal
        with refusing(Withdrawn):
            there.open(set_id)


def test_what_was_withdrawn_here_does_not_come_back(here: ReferenceSets, there: ReferenceSets, file: Path) -> None:
    (set_id,) = here.ids()
    into(there, file)
    there.withdraw(set_id, "withdrawn there")
    there.path_of(set_id).unlink()
    with refusing(Withdrawn):
        into(there, file)
    assert there.ids() == []


def test_another_file_under_the_id_is_a_conflict(here: ReferenceSets, there: ReferenceSets, file: Path) -> None:
    (set_id,) = here.ids()
    into(there, file)
    content = bytearray(there.path_of(set_id).read_bytes())
    content[-60] ^= 1
    there.path_of(set_id).write_bytes(content)
    with refusing(Conflict, set_id):
        into(there, file)
    assert there.path_of(set_id).read_bytes() == content


def test_a_damaged_set_is_not_exported_and_the_old_file_stays(here: ReferenceSets, file: Path) -> None:
    (set_id,) = here.ids()
    before, content = file.read_bytes(), here.path_of(set_id).read_bytes()
    here.path_of(set_id).write_bytes(content[:-50] + bytes(50))
    with refusing(RefaugError, "jsonl.zst"):
        export_set(here, set_id, file, Silent())
    assert file.read_bytes() == before


# ── what does not come in ─────────────────────────────────────────────────────────────────────────────────────────


def packed(*members: tuple[str | tarfile.TarInfo, bytes]) -> bytes:
    """A tar inside zstd of (name or header, content) pairs."""
    tar = bytearray()
    for name, content in members:
        header = name if isinstance(name, tarfile.TarInfo) else tarfile.TarInfo(name)
        header.size = len(content) if isinstance(name, str) else header.size
        tar += header.tobuf(tarfile.GNU_FORMAT) + content + bytes(-len(content) % 512)
    return zstandard.ZstdCompressor(write_checksum=True).compress(bytes(tar) + bytes(1024))


def label(set_id: object, **more: object) -> tuple[str, bytes]:
    return "refaug.json", orjson.dumps({"kind": "set", "id": set_id, "format_version": 1, **more})


def link(name: str) -> tuple[tarfile.TarInfo, bytes]:
    header = tarfile.TarInfo(name)
    header.type, header.linkname = tarfile.SYMTYPE, "/etc/passwd"
    return header, b""


def sealed(frames: bytes) -> bytes:
    return frames + SEAL + hashlib.sha256(frames).digest()


def hostile(set_id: str, content: bytes) -> dict[str, tuple[bytes, str]]:
    name, good = f"{set_id}.jsonl.zst", label(set_id)
    other = "0123456789abcdef"
    withdrawal = {"reason": "why", "instead": None, "at": "2026-11-20T00:00:00+00:00"}
    unsealed = content[: -len(SEAL) - 32]
    return {
        "no set in it": (packed(good), f"lacks {name}"),
        "another name": (packed(good, ("../x", content)), r"holds '\.\./x', not"),
        "a path for an id": (packed(label("../../../etc/x"), (name, content)), "names no set: '../../../etc/x'"),
        "no id": (packed(label(None), (name, content)), "names no set: None"),
        "a link": (packed(good, link(name)), "not a plain file"),
        "a further file": (packed(good, (name, content), ("x", b"")), "holds 'x', which no set has"),
        "the file twice": (packed(good, (name, content), (name, content)), "which no set has"),
        "cut": (packed(good, (name, content[:-3])), "cut off or altered"),
        "empty": (packed(good, (name, b"")), "not a manifest"),
        "no zstd": (packed(good, (name, b"something else" * 9)), "not a manifest"),
        "an altered byte": (packed(good, (name, content[:40] + b"!" + content[41:])), name),
        "another set": (packed(label(other), (f"{other}.jsonl.zst", content)), f"this is the set {set_id}"),
        "other items under the seal": (packed(good, (name, sealed(_without_an_item(unsealed)))), "its manifest says 3"),
        "a withdrawal without a reason": (
            packed(good, ("withdrawal.json", orjson.dumps({**withdrawal, "reason": " "})), (name, content)),
            "says nothing usable",
        ),
        "an altered withdrawal": (
            packed(
                good,
                ("withdrawal.json", orjson.dumps({**with_checksum(withdrawal), "reason": "another"})),
                (name, content),
            ),
            "was altered",
        ),
        "a withdrawal that is not an object": (
            packed(good, ("withdrawal.json", b"[]"), (name, content)),
            "no.* JSON object",
        ),
        "a format of the future": (packed(label(set_id, format_version=2), (name, content)), "has format 2"),
        "a version of an artefact": (packed(label(set_id, kind="index"), (name, content)), "the kind 'index'"),
        "no archive": (b"something else", "is not what refaug artefacts export writes"),
        "nothing": (b"", "it is empty"),
    }


def _without_an_item(frames: bytes) -> bytes:
    """The same frames, with one item fewer."""
    lines = zstandard.ZstdDecompressor().stream_reader(frames, read_across_frames=True).read().splitlines(True)
    compress = zstandard.ZstdCompressor(write_checksum=True).compress
    return compress(lines[0]) + compress(b"".join(lines[1:-1]))


def test_a_hostile_file_is_refused_and_leaves_nothing(
    here: ReferenceSets, there: ReferenceSets, tmp_path: Path
) -> None:
    (set_id,) = here.ids()
    for name, (content, why) in hostile(set_id, here.path_of(set_id).read_bytes()).items():
        (tmp_path / "evil.tar.zst").write_bytes(content)
        with pytest.raises(BadInput, match=why) as refused:
            into(there, tmp_path / "evil.tar.zst")
        assert isinstance(refused.value, DamagedSource | UnknownFormat), name
        assert "evil.tar.zst" in refused.value.message, name
        assert str(there.folder) not in refused.value.message, name
        assert files(there) == [], name


def test_a_file_that_ends_early_anywhere_or_is_not_there_is_refused(there: ReferenceSets, file: Path) -> None:
    whole = file.read_bytes()
    for end in range(0, len(whole), 61):
        file.write_bytes(whole[:end])
        with pytest.raises(BadInput):
            into(there, file)
    file.unlink()
    with refusing(NoSource):
        into(there, file)
    assert files(there) == []


# ── kills ─────────────────────────────────────────────────────────────────────────────────────────────────────────

_IMPORTER = """
import os, pathlib, signal, sys
sys.path[:0] = [sys.argv[1]]
from refaug.core.progress import Silent
from refaug.scoring.reference_sets.set_store import ReferenceSets
from refaug.core.artefacts.transfer import open_export
from refaug.scoring.reference_sets.set_transfer import import_set

class Killing(Silent):
    def advance(self, amount):
        os.kill(os.getpid(), signal.SIGKILL)

replace = pathlib.Path.replace
def replace_or_die(path, target):
    if str(target).endswith(".jsonl.zst"):
        os.kill(os.getpid(), signal.SIGKILL)
    return replace(path, target)

if sys.argv[4] == "last":
    pathlib.Path.replace = replace_or_die
progress = Killing() if sys.argv[4] == "first" else Silent()
with open_export(pathlib.Path(sys.argv[2])) as export:
    import_set(export, ReferenceSets(pathlib.Path(sys.argv[3])), progress)
"""


@pytest.mark.slow
@pytest.mark.parametrize("moment", ["first", "last"])
def test_a_killed_import_is_no_set_and_the_same_import_finishes_it(
    here: ReferenceSets, there: ReferenceSets, file: Path, moment: str
) -> None:
    (set_id,) = here.ids()
    here.withdraw(set_id, "a typing error")
    export_set(here, set_id, file, Silent())
    arguments = [sys.executable, "-c", _IMPORTER, str(ROOT), str(file), str(there.folder), moment]
    assert subprocess.run(arguments, check=False, cwd=ROOT).returncode == -signal.SIGKILL
    assert there.ids() == []
    assert (there.withdrawal(set_id) is not None) is (moment == "last")
    assert into(there, file).withdrawn
    assert files(there) == [f"{set_id}.jsonl.zst", f"{set_id}.withdrawn"]
