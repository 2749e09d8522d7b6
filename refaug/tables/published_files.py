"""The files of published sets, in a folder or an archive, and a reader for the layout of each.

Nothing is unpacked to disk: files are read by name, up to a size. An error names the file, the line or the entry, what
was found there and what is expected.
"""

from __future__ import annotations

import csv
import io
import re
import stat
import tarfile
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath
from typing import Any, Final

import orjson

from refaug.core.errors import BadInput, DamagedSource, NoSource, NotFound, TooLarge

# ── Files of a folder or an archive; nothing is unpacked to disk ──────────────────────────────────────────────────────

_MOST_BYTES: Final = 1 << 29  # of one file, unpacked
_MOST_IN_ALL: Final = 1 << 34  # that an archive may say it unpacks to
_MOST_FILES: Final = 100_000


class SetFiles:
    """The files of a folder, of an archive (zip, or tar in any compression), or one file, by their names."""

    def __init__(self, source: Path, name: str, patterns: Sequence[str], layout: str) -> None:
        if not source.exists():
            raise NoSource(f"{source}: no such file or folder", remedy="--from FOLDER_OR_ARCHIVE, as it was published")
        self.source, self._set, self._patterns, self._layout = source, name, patterns, layout
        self._is_alone = False
        if source.is_dir():
            self._names = [str(path.relative_to(source)) for path in sorted(source.rglob("*")) if path.is_file()]
        elif zipfile.is_zipfile(source):
            with zipfile.ZipFile(source) as packed:
                infos = [info for info in packed.infolist() if not info.is_dir() and not _is_link(info)]
            self._names = self._safe({info.filename: info.file_size for info in infos})
        elif tarfile.is_tarfile(source):
            self._names = self._safe(self._tar_sizes())
        else:
            self._names, self._is_alone = [source.name], True

    def matching(self, pattern: str) -> list[str]:
        """Return the names that end as a pattern says; a file that is named itself has to have its suffix alone."""
        if self._is_alone and Path(self._names[0]).suffix.casefold() == Path(pattern).suffix.casefold():
            return self._names
        return [name for name in self._names if fnmatchcase(f"/{name}", f"*/{pattern}") and "__MACOSX" not in name]

    def one(self, pattern: str) -> str:
        """Return the only name that a pattern fits."""
        names = self.matching(pattern)
        if len(names) == 1:
            return names[0]
        if not names:
            raise NotFound(f"{self.source}: no file {pattern} for {self._set}", remedy=f"expected: {self.expected}")
        raise BadInput(
            f"{self.source}: {len(names)} files {pattern}: {', '.join(names[:4])}",
            remedy="--from the one that is meant",
        )

    def text(self, name: str) -> str:
        """Return a file as text."""
        raw = self._bytes(name)
        try:
            return raw.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            line = raw[: error.start].count(b"\n") + 1
            raise BadInput(f"{self.source}: {name}, line {line}: not UTF-8", remedy="convert it to UTF-8") from error

    def lines(self, name: str) -> list[str]:
        """Return the lines of a file."""
        return [line.removesuffix("\r") for line in self.text(name).removesuffix("\n").split("\n")]

    @property
    def expected(self) -> str:
        """The layout in words."""
        return f"{', '.join(self._patterns)}: {self._layout}"

    def _bytes(self, name: str) -> bytes:
        if self._is_alone or self.source.is_dir():
            with (self.source if self._is_alone else self.source / name).open("rb") as file:
                content = file.read(_MOST_BYTES + 1)
        elif zipfile.is_zipfile(self.source):
            try:
                with zipfile.ZipFile(self.source) as packed, packed.open(name) as member:
                    content = member.read(_MOST_BYTES + 1)
            except (zipfile.BadZipFile, RuntimeError, NotImplementedError) as error:  # damaged, or with a password
                raise DamagedSource(f"{self.source}: {name} cannot be unpacked: {error}") from error
        else:
            with self._tar() as unpacked:
                opened = unpacked.extractfile(name)
                content = b"" if opened is None else opened.read(_MOST_BYTES + 1)
        if len(content) > _MOST_BYTES:
            raise TooLarge(f"{self.source}: {name} has more than {_MOST_BYTES:,} bytes")
        return content

    def _tar(self) -> tarfile.TarFile:
        return tarfile.open(self.source)

    def _tar_sizes(self) -> dict[str, int]:
        sizes, in_all = dict[str, int](), 0
        try:
            with self._tar() as packed:
                for member in packed:
                    in_all += member.size
                    if in_all > _MOST_IN_ALL or len(sizes) > _MOST_FILES:
                        break  # `_safe` refuses it, before more is unpacked
                    if member.isreg():
                        sizes[member.name] = member.size
        except (tarfile.TarError, EOFError, OSError) as error:
            raise DamagedSource(f"{self.source}: it cannot be unpacked: {error}") from error
        return sizes if in_all <= _MOST_IN_ALL else {"": in_all}

    def _safe(self, sizes: Mapping[str, int]) -> list[str]:
        if sum(sizes.values()) > _MOST_IN_ALL or len(sizes) > _MOST_FILES:
            raise TooLarge(f"{self.source}: it unpacks to more than {_MOST_IN_ALL:,} bytes or {_MOST_FILES:,} files")
        for name in sizes:
            if name.startswith("/") or ".." in PurePosixPath(name).parts:
                raise DamagedSource(f"{self.source}: it holds {name!r}, a path that leads out of it")
        return sorted(sizes)


def _is_link(info: zipfile.ZipInfo) -> bool:
    return stat.S_ISLNK(info.external_attr >> 16)


# ── Parts of JSON, with where they stand ──────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class LayoutPart:
    """A part of a published file; where it is not what the layout says, BadInput names the place."""

    where: str
    content: Any
    expected: str

    def __getitem__(self, name: str) -> LayoutPart:
        if not isinstance(self.content, dict):
            raise self.error("an object", self.content)
        if name not in self.content:
            raise BadInput(
                f"{self.where}: no {name!r}, but {', '.join(self.content) or 'nothing'}", remedy=self._remedy
            )
        return LayoutPart(f"{self.where}, {name}", self.content[name], self.expected)

    def __contains__(self, name: str) -> bool:
        return isinstance(self.content, dict) and name in self.content

    def named(self) -> Iterator[tuple[str, LayoutPart]]:
        """Yield the fields of an object."""
        if not isinstance(self.content, dict):
            raise self.error("an object", self.content)
        return ((name, self[name]) for name in self.content)

    def each(self) -> Iterator[LayoutPart]:
        """Yield the entries of a list."""
        if not isinstance(self.content, list):
            raise self.error("a list", self.content)
        return (
            LayoutPart(f"{self.where}, entry {number}", entry, self.expected)
            for number, entry in enumerate(self.content, start=1)
        )

    @property
    def text(self) -> str:
        """A string, without white space around it."""
        if not isinstance(self.content, str):
            raise self.error("a text", self.content)
        return self.content.strip()

    def of_text(self) -> LayoutPart:
        """Return the JSON that a text holds."""
        try:
            return LayoutPart(self.where, orjson.loads(self.text), self.expected)
        except orjson.JSONDecodeError as error:
            raise self.error("JSON", self.content) from error

    @property
    def number(self) -> float:
        """A number, or a text of one."""
        try:
            return float(self.content)
        except (TypeError, ValueError) as error:
            raise self.error("a number", self.content) from error

    @property
    def numbers(self) -> tuple[float, ...]:
        """The numbers of a list; what else an annotator chose, such as N/A, is no rating."""
        return tuple(
            float(entry.content)
            for entry in self.each()
            if isinstance(entry.content, int | float) and not isinstance(entry.content, bool)
        )

    def error(self, wanted: str, content: object) -> BadInput:
        """Return an error that says what was found."""
        return BadInput(f"{self.where}: {str(content)[:60]!r} where {wanted} is expected", remedy=self._remedy)

    @property
    def _remedy(self) -> str:
        return f"expected: {self.expected}"


def _json(files: SetFiles, name: str) -> LayoutPart:
    """Return a file of JSON as a whole."""
    try:
        return LayoutPart(name, orjson.loads(files.text(name)), files.expected)
    except orjson.JSONDecodeError as error:
        raise BadInput(f"{name}, line {error.lineno}: not JSON: {error.msg}", remedy=files.expected) from error


def _json_lines(files: SetFiles, name: str) -> Iterator[LayoutPart]:
    for number, line in enumerate(files.lines(name), start=1):
        if line.strip():
            try:
                yield LayoutPart(f"{name}, line {number}", orjson.loads(line), files.expected)
            except orjson.JSONDecodeError as error:
                raise BadInput(f"{name}, line {number}: not JSON: {error.msg}", remedy=files.expected) from error


def _csv(files: SetFiles, name: str, columns: Sequence[str], *, header: bool = True) -> Iterator[LayoutPart]:
    """Yield the rows of a CSV file as objects; without a header, `columns` are those of a row in their order."""
    rows = csv.reader(io.StringIO(files.text(name), newline=""))
    names = next(rows, []) if header else list(columns)
    if missing := [column for column in columns if column not in names]:
        raise BadInput(
            f"{name}, line 1: no column {missing[0]!r}, but {', '.join(names)[:200]}",
            remedy=f"expected: {files.expected}",
        )
    for row in rows:
        where = f"{name}, line {rows.line_num}"
        if len(row) != len(names):
            raise BadInput(f"{where}: {len(row)} cells instead of {len(names)}", remedy=f"expected: {files.expected}")
        yield LayoutPart(where, dict(zip(names, row, strict=True)), files.expected)


# ── What readers yield ────────────────────────────────────────────────────────────────────────────────────────────────


class SetKind(StrEnum):
    """What a set becomes."""

    RATED = "rated replies"
    LOG = "dialogues"


@dataclass(frozen=True, kw_only=True)
class RatedReply:
    """A reply with its ratings, the turns before it, and the references of its context."""

    where: str
    context: tuple[str, ...]
    reply: str
    ratings: tuple[float, ...]
    system: str = "reply"
    references: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class PublishedDialogue:
    """The turns of a dialogue."""

    where: str
    turns: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class SetChoice:
    """A part of a set, and the quality whose ratings count."""

    part: str = ""
    column: str = ""  # a second part: a language or a column
    quality: str = ""


Reader = Callable[[SetFiles, SetChoice], Iterator[RatedReply | PublishedDialogue]]


def _turns(text: str, separator: str = "\n") -> tuple[str, ...]:
    return tuple(turn.strip() for turn in text.split(separator) if turn.strip())


_SPEAKER: Final = re.compile(r"^(?:user|system|human|chatbot|speaker \d)\s*:\s*", re.IGNORECASE)


def _without_speakers(text: str) -> tuple[str, ...]:
    return tuple(filter(None, (_SPEAKER.sub("", turn) for turn in _turns(text))))


def _of_quality(ratings: LayoutPart, choice: SetChoice) -> tuple[float, ...]:
    return ratings[choice.quality].numbers


# ── Readers of rated replies ──────────────────────────────────────────────────────────────────────────────────────────


def read_usr(files: SetFiles, choice: SetChoice) -> Iterator[RatedReply]:
    """Read contexts with the replies of all systems."""
    for context in _json(files, files.one(f"{choice.part}_usr_data.json")).each():
        responses = list(context["responses"].each())
        golds = [each["response"].text for each in responses if each["model"].text == "Original Ground Truth"]
        for response in responses:
            yield RatedReply(
                where=response.where,
                context=_turns(context["context"].text),
                references=tuple(golds),
                system=response["model"].text,
                reply=response["response"].text,
                ratings=_of_quality(response, choice),
            )


def read_fed(files: SetFiles, choice: SetChoice) -> Iterator[RatedReply]:
    """Read turns of live chats."""
    for entry in _json(files, files.one("*fed_data.json")).each():
        if "response" in entry:  # others rate a whole conversation
            yield RatedReply(
                where=entry.where,
                context=_without_speakers(entry["context"].text),
                system=entry["system"].text,
                reply=_SPEAKER.sub("", entry["response"].text),
                ratings=_of_quality(entry["annotations"], choice),
            )


def read_grade(files: SetFiles, choice: SetChoice) -> Iterator[RatedReply]:
    """Read the texts of each system line by line, and the ratings of each annotator where these were published."""
    each_rating = dict[tuple[str, str, str], list[tuple[float, ...]]]()  # a reply may be rated twice, in order
    for name in files.matching("human_judgement.json"):
        for entry in _json(files, name).each():
            scores = entry["HumanScores"]
            if choice.part in entry["Dataset"].text:
                key = (entry["DialogModel"].text, entry["Context"].text, entry["Response"].text)
                each_rating.setdefault(key, []).append(scores.of_text().numbers)
    contexts = files.matching(f"{choice.part}*/*/human_ctx.txt")
    if not contexts:
        files.one(f"{choice.part}/*/human_ctx.txt")
    for name in contexts:
        system, folder = PurePosixPath(name).parent.name, str(PurePosixPath(name).parent)
        lines = [
            [line.strip() for line in files.lines(each)]
            for each in (name, f"{folder}/human_hyp.txt", f"{folder}/human_ref.txt")
        ]
        score_file = files.one(f"{choice.part}*/{system}/human_score.txt")
        means = files.text(score_file).split()
        if {len(column) for column in lines} != {len(means)}:
            counts = ", ".join(str(len(column)) for column in (*lines, means))
            raise BadInput(
                f"{folder}: {counts} lines of contexts, replies, references and scores", remedy=files.expected
            )
        for number, (context, reply, reference, mean) in enumerate(zip(*lines, means, strict=True), start=1):
            score = LayoutPart(f"{score_file}, line {number}", mean, files.expected).number
            published = each_rating.get((system, context, reply))
            yield RatedReply(
                where=f"{name}, line {number}",
                context=_turns(context, "|||"),
                references=(reference,),
                system=system,
                reply=reply,
                ratings=published.pop(0) if published else (score,),
            )


def read_zhao(files: SetFiles, choice: SetChoice) -> Iterator[RatedReply]:
    """Read dialogues with the replies of all systems, each rated by several workers."""
    for _, dialogue in _json(files, files.one(f"*{choice.part}*.json")).named():
        context = tuple(list(turn.each())[1].text for turn in dialogue["context"].each())
        reference = list(dialogue["reference"].each())[1].text
        for system, response in dialogue["responses"].named():
            if "scores" in response:
                yield RatedReply(
                    where=response.where,
                    context=context,
                    references=(reference,),
                    system=system,
                    reply=response["uttr"].text,
                    ratings=tuple(each[choice.quality].number for _, each in response["scores"].named()),
                )


def read_gupta(files: SetFiles, _choice: SetChoice) -> Iterator[RatedReply]:
    """Read rows of one mean rating each."""
    columns = ("model", "human_average_rating", "response", "all_references", "context")
    for row in _csv(files, files.one("mturk_rating_processed_output.csv"), columns):
        yield RatedReply(
            where=row.where,
            context=_turns(row["context"].text, "||||"),
            references=_turns(row["all_references"].text, "\t"),
            system=row["model"].text,
            reply=row["response"].text,
            ratings=(row["human_average_rating"].number,),
        )


def read_humod(files: SetFiles, _choice: SetChoice) -> Iterator[RatedReply]:
    """Read rows whose context may have tabs: columns count from the end; three rows rate one reply."""
    name = files.one("HUMOD_Dataset.*")
    header, *lines = files.lines(name)
    names = [column.strip().casefold().replace("_", " ") for column in header.split("\t")]
    wanted = {"reply": "reply", "label": "label", "rating": "user relevance score", "written": "user reply"}
    if missing := [column for column in wanted.values() if column not in names]:
        raise BadInput(f"{name}, line 1: no column {missing[0]!r}, but {', '.join(names)[:200]}", remedy=files.expected)
    place = {field_name: names.index(column) - len(names) for field_name, column in wanted.items()}
    rated = dict[tuple[tuple[str, ...], str, str], tuple[int, list[float]]]()
    written = dict[tuple[str, ...], list[str]]()
    for number, line in enumerate(lines, start=2):
        cells = line.split("\t")
        if len(cells) < len(names):
            raise BadInput(f"{name}, line {number}: {len(cells)} cells, at least {len(names)} are expected")
        words = " ".join(cells[1 : place["reply"]])
        context = tuple(turn.strip() for turn in re.split(r"Speaker \d\s*:", words) if turn.strip())
        reply = _SPEAKER.sub("", cells[place["reply"]].strip())
        rating = LayoutPart(f"{name}, line {number}", cells[place["rating"]], files.expected).number
        system = "original" if cells[place["label"]].strip() == "0" else "random"
        rated.setdefault((context, system, reply), (number, []))[1].append(rating)
        written.setdefault(context, []).append(_SPEAKER.sub("", cells[place["written"]].strip()))
    for (context, system, reply), (number, ratings) in rated.items():
        yield RatedReply(
            where=f"{name}, line {number}",
            context=context,
            references=tuple(dict.fromkeys(filter(None, written[context]))),
            system=system,
            reply=reply,
            ratings=tuple(ratings),
        )


def read_pang(files: SetFiles, _choice: SetChoice) -> Iterator[RatedReply]:
    """Read rows of ten ratings each."""
    raters = [f"rating {number}" for number in range(1, 11)]
    for row in _csv(
        files, files.one("context_data_release.csv"), ["number", "context", "reply", *raters], header=False
    ):
        yield RatedReply(
            where=row.where,
            context=(row["context"].text,),
            reply=row["reply"].text,
            ratings=tuple(row[rater].number for rater in raters),
        )


def read_dstc9(files: SetFiles, choice: SetChoice) -> Iterator[RatedReply]:
    """Read conversations, each whose ratings stand in several entries."""
    for name in files.matching("*.json"):
        ratings = dict[tuple[str, ...], tuple[str, list[float]]]()
        for entry in _json(files, name).each():
            turns = _without_speakers(entry["context"].text)
            ratings.setdefault(turns, (entry.where, []))[1].append(entry[choice.quality].number)
        for turns, (where, numbers) in ratings.items():
            yield RatedReply(
                where=where,
                context=turns[:-1],
                system=PurePosixPath(name).stem,
                reply=turns[-1] if turns else "",
                ratings=tuple(numbers),
            )


def read_dstc10(files: SetFiles, choice: SetChoice) -> Iterator[RatedReply]:
    """Read the common layout of many sets."""
    for entry in _json(files, files.one(f"{choice.part}_eval.json")).each():
        reference = entry["reference"].content if "reference" in entry else []
        references = [reference] if isinstance(reference, str) else list(reference)
        yield RatedReply(
            where=entry.where,
            context=_turns(entry["context"].text),
            references=tuple(text for text in references if text and text != "NO REF"),
            system=entry["model"].text if "model" in entry else "reply",
            reply=entry["response"].text,
            ratings=_of_quality(entry["annotations"], choice),
        )


def read_conture(files: SetFiles, _choice: SetChoice) -> Iterator[RatedReply]:
    """Read the turns of chats, each with what was said before."""
    for dialogue in _json(files, files.one("data.json")).each():
        turns = list[str]()
        for turn in dialogue["turns"].each():
            utterance, reply = (_SPEAKER.sub("", turn[name].text) for name in ("user", "chatbot"))
            turns.append(utterance)
            rating = turn["overall impression"].number
            yield RatedReply(where=turn.where, context=tuple(filter(None, turns)), reply=reply, ratings=(rating,))
            turns.append(reply)


def read_xdial(files: SetFiles, choice: SetChoice) -> Iterator[RatedReply]:
    """Read the columns of one language."""
    language = choice.column or "english"
    columns = (f"{language}_ctx", f"{language}_res", "ratings")
    for row in _csv(files, files.one(f"{choice.part}.csv"), columns):
        yield RatedReply(
            where=row.where,
            context=_turns(row[columns[0]].text),
            reply=row[columns[1]].text,
            ratings=(row["ratings"].number,),
        )


def read_rade(files: SetFiles, choice: SetChoice) -> Iterator[RatedReply]:
    """Read replies with the reference that their raters saw."""
    for entry in _json_lines(files, files.one(f"{choice.part}/data.jsonl")):
        yield RatedReply(
            where=entry.where,
            context=tuple(turn.text for turn in entry["context"].each()),
            references=(entry["reference"].text,),
            reply=entry["output"].text,
            ratings=(entry["s_output"].number,),
        )


# ── Readers of dialogues ──────────────────────────────────────────────────────────────────────────────────────────────


def _all(files: SetFiles, pattern: str) -> list[str]:
    return files.matching(pattern) or [files.one(pattern)]


def read_dailydialog(files: SetFiles, choice: SetChoice) -> Iterator[PublishedDialogue]:
    """Read a dialogue a line."""
    name = files.one(choice.part)
    for number, line in enumerate(files.lines(name), start=1):
        if line.strip() and "__eou__" not in line:
            raise BadInput(f"{name}, line {number}: no __eou__ behind a turn", remedy=f"expected: {files.expected}")
        yield PublishedDialogue(where=f"{name}, line {number}", turns=_turns(line, "__eou__"))


def read_dailydialog_plus(files: SetFiles, choice: SetChoice) -> Iterator[PublishedDialogue]:
    """Read each response as a line of a tree: the last turn of the context, and the response."""
    for entry in _json_lines(files, files.one(f"{choice.part}.json")):
        context = [turn.text for turn in entry["context"].each()]
        for response in entry["positive_responses"].each():
            yield PublishedDialogue(where=response.where, turns=(*context[-1:], response.text))


_PERSONA: Final = re.compile(r"(?:your|partner's) persona:")


def read_personachat(files: SetFiles, choice: SetChoice) -> Iterator[PublishedDialogue]:
    """Read numbered lines of two turns."""
    name, turns, start = files.one(choice.part), list[str](), 1
    for number, line in enumerate(files.lines(name), start=1):
        count, _, words = line.partition(" ")
        if not count.isdigit():
            raise BadInput(f"{name}, line {number}: no number before the turns", remedy=f"expected: {files.expected}")
        if count == "1" and turns:
            yield PublishedDialogue(where=f"{name}, line {start}", turns=tuple(turns))
            turns, start = [], number
        if not _PERSONA.match(words):
            turns += [turn.strip() for turn in words.split("\t")[:2]]
    yield PublishedDialogue(where=f"{name}, line {start}", turns=tuple(turns))


def read_empathetic(files: SetFiles, choice: SetChoice) -> Iterator[PublishedDialogue]:
    """Read cells between commas, which quotes do not protect: a comma inside a text is written _comma_."""
    name = files.one(f"{choice.part}.csv")
    header, *lines = files.lines(name)
    wanted = "conv_id,utterance_idx,context,prompt,speaker_idx,utterance"
    if not header.startswith(wanted):
        raise BadInput(f"{name}, line 1: {header[:80]!r} instead of {wanted}…", remedy=f"expected: {files.expected}")
    dialogues = dict[str, tuple[int, list[str]]]()
    for number, line in enumerate(lines, start=2):
        cells = line.split(",")
        if len(cells) < 6:
            raise BadInput(f"{name}, line {number}: {len(cells)} cells, at least 6 are expected")
        dialogues.setdefault(cells[0], (number, []))[1].append(cells[5].replace("_comma_", ",").strip())
    for number, turns in dialogues.values():
        yield PublishedDialogue(where=f"{name}, line {number}", turns=tuple(turns))


def read_topical(files: SetFiles, choice: SetChoice) -> Iterator[PublishedDialogue]:
    """Read the messages of each dialogue."""
    for _, dialogue in _json(files, files.one(f"conversations/{choice.part}.json")).named():
        yield PublishedDialogue(
            where=dialogue.where, turns=tuple(turn["message"].text for turn in dialogue["content"].each())
        )


def read_dstc11(files: SetFiles, choice: SetChoice) -> Iterator[PublishedDialogue]:
    """Read one column of segments as the turns of dialogues."""
    column = (choice.column or "seg").upper()
    for name in _all(files, f"{choice.part}_multilingual_*.csv"):
        dialogues = dict[str, tuple[str, list[str]]]()
        for row in _csv(files, name, ("UID", "SID", column)):
            dialogue = row["UID"].text.rpartition("-")[0]
            dialogues.setdefault(dialogue, (row.where, []))[1].append(row[column].text)
        for where, turns in dialogues.values():
            yield PublishedDialogue(where=where, turns=tuple(turns))
