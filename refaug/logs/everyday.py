"""Everyday conversations in English, from the package chitchat-dataset, cleaned by counted rules.

The package (MIT) has 7,168 conversations in which people chat with people, as one JSON file. They become dialogues for
`refaug log ingest`: what a person wrote in a row is one turn, and a speaker has a number instead of an id. A turn that
a rule drops ends its dialogue; what follows is another one. The last conversations are held out: an exchange of each is
a test item.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import orjson

from refaug.core.artefacts.packaged_files import PackagedFile
from refaug.core.errors import BadInput, NoSource
from refaug.core.files import make_folder, write_aside
from refaug.core.progress import Progress

NAME: Final = "everyday-en"
PACKAGE: Final = PackagedFile(
    requirement="chitchat-dataset==0.9.0",
    package="chitchat_dataset",
    path="dataset.json",
    sha256="d2a5d0bf6acf354fef51f3af39cbece2220d3b8f6086b658c3d335105798312a",
)
_NAME_MARK: Final = "<name>"
_COMMON: Final = 3  # a word that is written small so often is no name
_TESTS: Final = 200  # conversations that are held out, but at most one in ten
_CONTEXT: Final = 3  # turns of a test item
_LEAST_WORDS: Final = 5  # of its last turn, and of the reply
_GENERIC: Final = "what about you?"  # of replies of three words or more the most frequent

# What follows these words is a name, if it begins with a capital and is not a common word.
_INTRODUCED: Final = re.compile(
    r"\b(?:[Mm]y name(?:'?s| is)|[Cc]all me|[Hh]i|[Hh]ey|[Hh]ello|[Bb]ye|[Gg]oodbye|[Tt]hanks),? ([A-Z][a-z]{2,})\b"
)
_WORD: Final = re.compile(r"[a-z]+")

# Words that make a turn unfit as a reference; a stem with * stands for every word that begins with it.
_ABUSE: Final = (
    *("fuck*", "motherfuck*", "shit*", "bullshit", "bitch*", "asshole*", "dickhead*", "bastard*", "slut*"),
    *("whore*", "faggot*", "nigg*", "retard", "retarded", "retards", "kys", "stfu", "rape", "raped", "rapist*"),
)
_ABUSIVE: Final = re.compile(
    rf"\b(?:{'|'.join(word.replace('*', '[a-z]*') for word in _ABUSE)})\b|\bkill your ?self\b", re.IGNORECASE
)


@dataclass(frozen=True, kw_only=True)
class EverydayDialogues:
    """What was written, and what each rule did."""

    conversations: int
    held_out: int
    dialogues: int
    turns: int
    rules: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class _Turn:
    speaker: str
    text: str


def write_dialogues(
    source: Path, target: Path, items: Path, progress: Progress, *, most: int | None = None
) -> EverydayDialogues:
    """Write the dialogues of the first `most` conversations, and the test items, the same bytes each time."""
    conversations = _read(source)
    common, numbers = _common_words(conversations), dict[str, str]()
    written, rules = Counter[str](), Counter[str]()
    tests = _held_out(conversations, common)
    taken = [place for place in range(1, len(conversations) + 1) if place not in tests][:most]
    progress.stage("cleaning everyday conversations", len(taken), "conversations")
    make_folder(target.parent)
    with write_aside(target) as file:
        for place in taken:
            for part, turns in enumerate(_dialogues(conversations[place - 1], common, rules), start=1):
                speakers = [numbers.setdefault(turn.speaker, f"p{len(numbers) + 1:04}") for turn in turns]
                rows = [{"speaker": who, "text": turn.text} for who, turn in zip(speakers, turns, strict=True)]
                file.write(orjson.dumps({"id": f"c{place:04}-{part}", "turns": rows}) + b"\n")
                written.update(dialogues=1, turns=len(turns))
            progress.advance(1)
        if not written["dialogues"]:
            raise BadInput(f"{source}: no conversation of two speakers is left", remedy="a file with conversations")
    with write_aside(items) as file:
        file.writelines(_item_lines(tests))
    return EverydayDialogues(
        conversations=len(taken),
        held_out=len(tests),
        dialogues=written["dialogues"],
        turns=written["turns"],
        rules=dict(sorted(rules.items())),
    )


def _held_out(conversations: Sequence[Sequence[_Turn]], common: frozenset[str]) -> dict[int, list[str]]:
    """Return the numbers of the last conversations with a turn and a reply worth a test, and their turns up to it."""
    tests = dict[int, list[str]]()
    for place in range(len(conversations), 0, -1):
        if len(tests) == min(_TESTS, len(conversations) // 10):
            break
        for turns in _dialogues(conversations[place - 1], common, Counter()):
            texts = [turn.text for turn in turns]
            fits = [len(text.split()) >= _LEAST_WORDS for text in texts]
            end = next((end for end in range(_CONTEXT, len(texts)) if fits[end - 1] and fits[end]), None)
            if end is not None:
                tests[place] = texts[end - _CONTEXT : end + 1]
                break
    return dict(sorted(tests.items()))


def _item_lines(tests: Mapping[int, Sequence[str]]) -> Iterator[bytes]:
    """Yield a test item for each conversation: what its person replied, and three replies that are worth less."""
    human = [turns[-1] for turns in tests.values()]
    for number, (place, turns) in enumerate(tests.items()):
        replies = {"human": human[number], "generic": _GENERIC, "random": human[number - 1], "echo": turns[-2]}
        yield orjson.dumps({"id": f"c{place:04}", "turns": list(turns[:-1]), "replies": replies}) + b"\n"


def _read(source: Path) -> list[list[_Turn]]:
    """Return the conversations, in the order of the file; BadInput names the place of another layout."""
    if not source.is_file():
        raise NoSource(f"{source}: not a file", remedy=f"the {PACKAGE.path} of {PACKAGE.requirement}")
    try:
        content = orjson.loads(source.read_bytes())
    except orjson.JSONDecodeError as error:
        raise BadInput(f"{source}: {error}", remedy=f"the {PACKAGE.path} of {PACKAGE.requirement}") from None
    if not isinstance(content, dict):
        raise _another_layout(source, "the file", "an object of conversations")
    return [_turns(source, name, conversation) for name, conversation in content.items()]


def _turns(source: Path, name: str, conversation: Any) -> list[_Turn]:
    groups = conversation.get("messages") if isinstance(conversation, Mapping) else None
    if not isinstance(groups, Sequence) or isinstance(groups, str):
        raise _another_layout(source, name, "an object with messages")
    turns = list[_Turn]()
    for place, messages in enumerate(groups):
        try:
            speaker, text = messages[0]["sender"], " ".join(message["text"].strip() for message in messages)
        except (AttributeError, IndexError, KeyError, TypeError):
            expected = "a list of messages, each with text and sender"
            raise _another_layout(source, f"{name}.messages[{place}]", expected) from None
        if turns and turns[-1].speaker == speaker:
            turns[-1] = _Turn(speaker, f"{turns[-1].text} {text}")
        else:
            turns.append(_Turn(speaker, text))
    return turns


def _another_layout(source: Path, place: str, expected: str) -> BadInput:
    return BadInput(f"{source}: {place} is not {expected}", remedy=f"the {PACKAGE.path} of {PACKAGE.requirement}")


def _common_words(conversations: Sequence[Sequence[_Turn]]) -> frozenset[str]:
    """Return the words that are written small often enough to be no names."""
    counts = Counter[str]()
    for turns in conversations:
        for turn in turns:
            counts.update(set(_WORD.findall(turn.text)))
    return frozenset(word for word, count in counts.items() if count >= _COMMON)


def _dialogues(turns: Sequence[_Turn], common: frozenset[str], rules: Counter[str]) -> Iterator[list[_Turn]]:
    """Yield the runs of two or more turns that no rule drops."""
    if len({turn.speaker for turn in turns}) < 2:
        rules["conversations of one speaker"] += 1
        return
    names = {name for turn in turns for name in _INTRODUCED.findall(turn.text) if name.lower() not in common}
    pattern = re.compile(rf"\b(?:{'|'.join(sorted(names))})\b") if names else None
    run = list[_Turn]()
    for turn in turns:
        reason = _reason_to_drop(turn.text)
        if reason is None:
            text, replaced = pattern.subn(_NAME_MARK, turn.text) if pattern is not None else (turn.text, 0)
            rules["names replaced"] += replaced
            run.append(_Turn(turn.speaker, text))
            continue
        rules[reason] += 1
        yield from _paired(run, rules)
        run = []
    yield from _paired(run, rules)


def _reason_to_drop(text: str) -> str | None:
    if not text.strip():
        return "empty turns"
    return "abusive turns" if _ABUSIVE.search(text) else None


def _paired(run: list[_Turn], rules: Counter[str]) -> Iterator[list[_Turn]]:
    if len(run) > 1:
        yield run
    elif run:
        rules["turns without a neighbour"] += 1
