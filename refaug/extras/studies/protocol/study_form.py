"""Forms of a study: questions as data, with translations; read from JSON and checked."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, TypedDict

import orjson

from refaug.bots.endpoint.specification import FieldReader
from refaug.core.errors import BadInput
from refaug.core.processes.kept import cached_property
from refaug.core.text.messages import suggestion

# ── Fields of a protocol or a form, read one by one; an error names the field, what it is, and what would be right ────

ID: Final = re.compile(r"[a-z0-9][a-z0-9_.-]{0,63}")
_LANGUAGE: Final = re.compile(r"[a-z]{2,3}(-[A-Za-z0-9]{2,8}){0,2}")


class StudyFields(FieldReader):
    """Reads the fields of a JSON object of a study."""

    def require_known(self, names: Sequence[str]) -> None:
        """Refuse unknown fields, with the field that was probably meant."""
        for name in self._table:
            if name not in names:
                message = f"there is no such field{suggestion(str(name)[:80], names)}"
                raise self.bad(str(name)[:80], message, f"one of: {', '.join(names)}")

    def at(self, name: str) -> str:
        """Return the place of a field, as errors name it."""
        return f"{self._where}, {name}"

    def long_text(self, name: str, most: int, *, required: bool = False) -> str:
        """Return a text of at most so many characters, empty where there is none."""
        text = self._table.get(name, "")
        if not isinstance(text, str) or len(text) > most or (required and not text.strip()):
            found_input = f"{len(text):,} characters" if isinstance(text, str) else type(text).__name__
            raise self.bad(
                name, f"a text was expected, not {found_input}", f"{1 if required else 0} to {most:,} characters"
            )
        return text.strip()

    def flag(self, name: str, *, default: bool = False) -> bool:
        """Return true or false."""
        flag = self._table.get(name, default)
        if not isinstance(flag, bool):
            raise self.bad(name, f"{flag!r} is neither true nor false", "true or false, without quotation marks")
        return flag

    def whole(self, name: str, default: int, least: int, most: int) -> int:
        """Return a whole number between two bounds."""
        return int(self.number(name, default, least, most, whole=True))

    def table(self, name: str) -> Mapping[str, Any]:
        """Return an object, empty where there is none or null."""
        content = self._table.get(name)
        if content is not None and not isinstance(content, dict):
            raise self.bad(name, f"an object was expected, not {type(content).__name__}", "{…}")
        return content or {}

    def objects(self, name: str, most: int, *, least: int = 0) -> list[Mapping[str, Any]]:
        """Return a list of JSON objects."""
        listed = self._table.get(name, [])
        if not isinstance(listed, list) or not least <= len(listed) <= most:
            size = f"{len(listed):,} entries" if isinstance(listed, list) else type(listed).__name__
            raise self.bad(name, f"a list was expected, not {size}", f"{least} to {most:,} objects")
        for place, entry in enumerate(listed):
            if not isinstance(entry, dict):
                raise self.bad(f"{name}[{place}]", "an object was expected", "{…}")
        return listed

    def texts(self, name: str, most: int, *, longest: int = 200) -> tuple[str, ...]:
        """Return a list of texts."""
        listed = self._table.get(name, [])
        if not isinstance(listed, list) or len(listed) > most:
            raise self.bad(name, "a list of texts was expected", f"at most {most:,}")
        for place, text in enumerate(listed):
            if not isinstance(text, str) or not text.strip() or len(text) > longest:
                raise self.bad(f"{name}[{place}]", f"{str(text)[:60]!r} is not a text", f"1 to {longest:,} characters")
        return tuple(listed)

    def id(self, name: str) -> str:
        """Return an id."""
        text = self._table.get(name)
        if not isinstance(text, str) or ID.fullmatch(text) is None:
            raise self.bad(name, f"{str(text)[:60]!r} is not an id", "lower-case letters, digits, _ . -, at most 64")
        return text

    def language(self, name: str, default: str) -> str:
        """Return a language tag."""
        text = self._table.get(name, default)
        if not is_language(text):
            raise self.bad(name, f"{str(text)[:60]!r} is not a language", "a tag such as en, de or pt-BR")
        return str(text)


def is_language(text: object) -> bool:
    """Return whether a text looks like a language tag."""
    return isinstance(text, str) and _LANGUAGE.fullmatch(text) is not None


# ── Forms of a study: questions as data, with translations; read from JSON and checked ────────────────────────────────

TYPES: Final = ("likert", "slider", "choice", "pair", "text", "labels", "spans")
ABOUT_TURNS: Final = ("labels", "spans")  # labels of a whole turn, or of parts of its text
SCOPES: Final = ("task", "side", "turn")
PAIR_VALUES: Final = ("left", "right", "tie")
MOST_QUESTIONS: Final = 60
MOST_OPTIONS: Final = 50
MOST_TEXT: Final = 4_000
_WIDEST_LIKERT: Final = 11  # buttons
_QUESTION_FIELDS: Final = (
    "id", "text", "type", "least", "most", "ends", "options", "required", "reverse", "show_if", "scope",
)  # fmt: skip
_BUILT_IN: Final = Path(__file__).parents[1] / "pages" / "static" / "studies" / "forms"  # the page shows them, too


@dataclass(frozen=True, kw_only=True)
class StudyQuestion:
    """One question of a form."""

    id: str
    text: str
    type: str
    scope: str = "task"
    least: float = 1
    most: float = 7
    ends: tuple[str, str] | None = None
    options: tuple[tuple[str, str], ...] = ()  # value and text
    required: bool = True
    reverse: bool = False
    show_if: tuple[str, tuple[Any, ...]] | None = None  # another question, and the answers to it that show this one

    @property
    def values(self) -> tuple[str, ...]:
        """What may be chosen, for questions with options."""
        return tuple(value for value, _ in self.options)

    def is_shown(self, answers: Mapping[str, Any]) -> bool:
        """Return whether the question is asked beside these answers of its place; one of several labels will do."""
        if self.show_if is None:
            return True
        answer, wanted = answers.get(self.show_if[0]), self.show_if[1]
        return any(label in wanted for label in given_labels(answer)) if isinstance(answer, list) else answer in wanted

    def translated(self, words: Mapping[str, Any]) -> StudyQuestion:
        """Return the question with the words of another language; what is not translated stays as it is."""
        options = words.get("options", {})
        return replace(
            self,
            text=words.get("text", self.text),
            ends=words.get("ends", self.ends),
            options=tuple((answer, options.get(answer, text)) for answer, text in self.options),
        )

    def as_json(self) -> dict[str, object]:
        """Return the question as a form's file has it."""
        content: dict[str, object] = {"id": self.id, "text": self.text, "type": self.type, "scope": self.scope}
        if self.type in ("likert", "slider"):
            content |= {"least": self.least, "most": self.most}
        if self.ends is not None:
            content["ends"] = list(self.ends)
        if self.options:
            content["options"] = [{"value": value, "text": text} for value, text in self.options]
        content |= {"required": self.required, "reverse": self.reverse}
        if self.show_if is not None:
            content["show_if"] = {self.show_if[0]: list(self.show_if[1])}
        return content


class ShownForm(TypedDict):
    """The form as participants see it."""

    name: str
    questions: list[dict[str, object]]


@dataclass(frozen=True, kw_only=True)
class StudyForm:
    """Questions in their order, with translations of their texts by language and question."""

    name: str
    questions: tuple[StudyQuestion, ...]
    texts: Mapping[str, Mapping[str, Mapping[str, Any]]]

    @property
    def sha256(self) -> str:
        """The hash of everything that participants see of it."""
        return hashlib.sha256(orjson.dumps(self.as_json(), option=orjson.OPT_SORT_KEYS)).hexdigest()

    @cached_property
    def by_id(self) -> Mapping[str, StudyQuestion]:
        """The questions by their ids."""
        return {question.id: question for question in self.questions}

    def as_json(self) -> dict[str, object]:
        """Return the form as a file has it."""
        return {
            "name": self.name,
            "questions": [question.as_json() for question in self.questions],
            "texts": {
                language: {key: dict(text) for key, text in words.items()} for language, words in self.texts.items()
            },
        }

    def shown_in(self, language: str) -> ShownForm:
        """Return the form as participants of a language see it; what is not translated stays as it is."""
        words = self.texts.get(language) or self.texts.get(language.partition("-")[0]) or {}
        questions = (question.translated(words.get(question.id, {})) for question in self.questions)
        return {"name": self.name, "questions": [question.as_json() for question in questions]}


def find_form(named: object, *, where: str) -> StudyForm:
    """Return the form of a name, or of an object that is one."""
    if isinstance(named, Mapping):
        return form_of(named, where=f"{where}, form")
    names = [path.stem for path in sorted(_BUILT_IN.glob("*.json"))]
    if not isinstance(named, str) or named not in names:
        meant = suggestion(named[:80], names) if isinstance(named, str) else ""
        raise BadInput(
            f"{where}, form: there is no form {str(named)[:80]!r}{meant}",
            remedy=f"one of: {', '.join(names)}; or an object with name and questions",
        )
    return form_of(orjson.loads((_BUILT_IN / f"{named}.json").read_bytes()), where=named)


def form_of(table: Mapping[str, Any], *, where: str) -> StudyForm:
    """Check a form; BadInput names the field that is wrong."""
    fields = StudyFields(table, where)
    fields.require_known(("name", "questions", "texts"))
    questions = list[StudyQuestion]()
    for place, entry in enumerate(fields.objects("questions", MOST_QUESTIONS, least=1)):
        at = f"{where}, questions[{place}]"
        question = _question(entry, at)
        if any(other.id == question.id for other in questions):
            raise BadInput(f"{at}, id: there are two questions {question.id!r}", remedy="an id of its own for each")
        _require_earlier(question, questions, at)
        questions.append(question)
    if not any(question.required for question in questions):
        raise BadInput(
            f"{where}, questions: none of them is required, so that a form without answers would be complete",
            remedy='"required": true in at least one',
        )
    return StudyForm(name=fields.id("name"), questions=tuple(questions), texts=_translations(table, questions, where))


def _question(entry: Mapping[str, Any], where: str) -> StudyQuestion:
    fields = StudyFields(entry, where)
    fields.require_known(_QUESTION_FIELDS)
    kind = fields.choice("type", TYPES) if "type" in entry else None
    if kind is None:
        raise fields.bad("type", "it is missing", f"one of: {', '.join(TYPES)}")
    least, most = _bounds(fields, kind, entry)
    scope = fields.choice("scope", SCOPES) if "scope" in entry or kind not in ABOUT_TURNS else "turn"
    if kind in ABOUT_TURNS and scope != "turn":
        raise fields.bad("scope", f"{kind} are given to turns of a bot", '"scope": "turn"')
    return StudyQuestion(
        id=fields.id("id"),
        text=fields.long_text("text", MOST_TEXT, required=True),
        type=kind,
        scope=scope,
        least=least,
        most=most,
        ends=_ends(fields, entry),
        options=_options(fields, kind, entry),
        required=fields.flag("required", default=kind not in ("text", *ABOUT_TURNS)),
        reverse=fields.flag("reverse"),
        show_if=_show_if(fields, entry),
    )


def _bounds(fields: StudyFields, kind: str, entry: Mapping[str, Any]) -> tuple[float, float]:
    if kind == "likert":
        least, most = fields.whole("least", 1, -100, 100), fields.whole("most", 7, -100, 100)
        if not 1 <= most - least < _WIDEST_LIKERT:
            raise fields.bad("most", f"{least} to {most} are not 2 to {_WIDEST_LIKERT} buttons", "1 to 7; or a slider")
        return least, most
    if kind == "slider":
        low, high = fields.number("least", 0, -1e6, 1e6), fields.number("most", 100, -1e6, 1e6)
        if not low < high:
            raise fields.bad("most", f"{high:g} is not above {low:g}", "0 to 100")
        return low, high
    for name in ("least", "most"):
        if name in entry:
            raise fields.bad(name, f"a question of type {kind} has no scale", "leave it out")
    return 1, 7


def _ends(fields: StudyFields, entry: Mapping[str, Any]) -> tuple[str, str] | None:
    if entry.get("ends") is None:
        return None
    ends = fields.texts("ends", 2)
    if len(ends) != 2:
        raise fields.bad("ends", f"{len(ends)} texts", "two: what the least and the most mean")
    return ends[0], ends[1]


def _options(fields: StudyFields, kind: str, entry: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    if kind in ("likert", "slider", "text"):
        if "options" in entry:
            raise fields.bad("options", f"a question of type {kind} has none", "leave them out, or type choice")
        return ()
    if kind == "pair" and "options" not in entry:
        return ("left", "Left"), ("right", "Right")
    options = list[tuple[str, str]]()
    least = 1 if kind in ABOUT_TURNS else 2
    for place, option in enumerate(fields.objects("options", MOST_OPTIONS, least=least)):
        inner = StudyFields(option, fields.at(f"options[{place}]"))
        inner.require_known(("value", "text"))
        options.append((inner.id("value"), inner.long_text("text", 500, required=True)))
    values = [value for value, _ in options]
    if len(set(values)) < len(values):
        raise fields.bad("options", "two of them have one value", "a value of its own for each")
    if kind == "pair" and not {"left", "right"} <= set(values) <= set(PAIR_VALUES):
        raise fields.bad(
            "options", f"{', '.join(values)} are not the sides of a pair", "left, right, and tie if you like"
        )
    return tuple(options)


def _show_if(fields: StudyFields, entry: Mapping[str, Any]) -> tuple[str, tuple[Any, ...]] | None:
    condition = entry.get("show_if")
    if condition is None:
        return None
    if not isinstance(condition, dict) or len(condition) != 1:
        raise fields.bad("show_if", "one question and its answer were expected", '{"quality": [1, 2]}')
    ((question, values),) = condition.items()
    return str(question), tuple(values) if isinstance(values, list) else (values,)


def _require_earlier(question: StudyQuestion, earlier: list[StudyQuestion], where: str) -> None:
    """Refuse a condition on a question that is not asked before this one, in the same place."""
    if question.show_if is None:
        return
    named, values = question.show_if
    other = next((candidate for candidate in earlier if candidate.id == named), None)
    if other is None:
        names = [candidate.id for candidate in earlier]
        raise BadInput(
            f"{where}, show_if: there is no question {named[:80]!r} before this one{suggestion(named, names)}",
            remedy=f"one of: {', '.join(names) or 'none, since it is the first'}",
        )
    if other.scope != question.scope:
        raise BadInput(f"{where}, show_if: {named} is asked in another scope", remedy=f'"scope": "{other.scope}"')
    if other.options and (unknown := [value for value in values if value not in other.values]):
        raise BadInput(
            f"{where}, show_if: {unknown[0]!r} is not an answer to {named}", remedy=f"one of: {', '.join(other.values)}"
        )


def _translations(
    table: Mapping[str, Any], questions: list[StudyQuestion], where: str
) -> dict[str, dict[str, dict[str, object]]]:
    translated = dict[str, dict[str, dict[str, object]]]()
    texts = table.get("texts", {})
    if not isinstance(texts, dict):
        raise BadInput(f"{where}, texts: an object was expected", remedy='{"de": {"quality": {"text": "…"}}}')
    by_id = {question.id: question for question in questions}
    for language, words in texts.items():
        at = f"{where}, texts.{str(language)[:20]}"
        if not is_language(language) or not isinstance(words, dict):
            raise BadInput(f"{at}: no language with texts of questions", remedy='"de": {"quality": {"text": "…"}}')
        StudyFields(words, at).require_known(tuple(by_id))
        translated[language] = {key: _translation(by_id[key], text, f"{at}.{key}") for key, text in words.items()}
    return translated


def _translation(question: StudyQuestion, words: Any, where: str) -> dict[str, object]:
    if not isinstance(words, dict):
        raise BadInput(f"{where}: an object was expected", remedy='{"text": "…", "ends": ["…", "…"]}')
    fields = StudyFields(words, where)
    fields.require_known(("text", "ends", "options"))
    translation: dict[str, object] = {}
    if text := fields.long_text("text", MOST_TEXT):
        translation["text"] = text
    if (ends := _ends(fields, words)) is not None:
        translation["ends"] = list(ends)
    if options := fields.table("options"):
        inner = StudyFields(options, f"{where}.options")
        inner.require_known(question.values)
        translation["options"] = {value: inner.long_text(value, 500, required=True) for value in options}
    return translation


# ── Answers to the questions of a form: which are possible, and which are still missing ───────────────────────────────

MOST_ANSWER: Final = 20_000  # characters of a text
MOST_SPANS: Final = 200


def checked_answer(question: StudyQuestion, answer: Any, turn_text: str | None = None) -> Any:
    """Return a possible answer to a question, None where it is taken back; BadInput says what would be possible.

    `turn_text` is the text whose parts are marked. An empty list of labels or spans is an answer: none applies.
    """
    if answer is None:
        return None
    match question.type:
        case "likert" | "slider":
            return _number(question, answer)
        case "choice" | "pair":
            if answer not in question.values:
                raise _bad(question, answer, f"one of: {', '.join(question.values)}")
            return answer
        case "labels":
            return _labels(question, answer)
        case "spans":
            return _spans(question, answer, turn_text)
    if not isinstance(answer, str) or len(answer) > MOST_ANSWER:
        raise _bad(question, answer, f"a text of at most {MOST_ANSWER:,} characters")
    return answer


def checked_answers(
    form: StudyForm, answers: Mapping[str, Any], scope: Iterable[str], turn_text: str | None = None
) -> dict[str, object]:
    """Return the answers to questions of these scopes; BadInput names a question that the form does not ask there."""
    scopes = tuple(scope)
    names = [question.id for question in form.questions if question.scope in scopes]
    checked = {}
    for name, answer in answers.items():
        if name not in names:
            raise BadInput(
                f"answers.{name[:80]}: the form has no such question here{suggestion(name[:80], names)}",
                remedy=f"one of: {', '.join(names) or 'none'}",
            )
        checked[name] = checked_answer(form.by_id[name], answer, turn_text)
    return checked


def missing_answers(questions: Sequence[StudyQuestion], answers: Mapping[str, Any]) -> list[str]:
    """Return the required questions of one place that are shown and have no answer."""
    hidden = hidden_answers(questions, answers)
    shown = {name: answer for name, answer in answers.items() if name not in hidden}
    return [
        question.id
        for question in questions
        if question.required and question.is_shown(shown) and _is_empty(shown.get(question.id))
    ]


def hidden_answers(questions: Sequence[StudyQuestion], answers: Mapping[str, Any]) -> dict[str, Any]:
    """Return the answers of one place to questions that are not shown beside the others."""
    shown = dict(answers)
    for question in questions:  # each after those that its condition is about
        if not question.is_shown(shown):
            shown.pop(question.id, None)
    return {name: answer for name, answer in answers.items() if name not in shown}


def _is_empty(answer: Any) -> bool:
    return answer is None or (isinstance(answer, str) and not answer.strip())


def _number(question: StudyQuestion, answer: Any) -> Any:
    is_number = isinstance(answer, int | float) and not isinstance(answer, bool)
    whole = question.type == "likert"
    if not is_number or not question.least <= answer <= question.most or (whole and answer != int(answer)):
        kind = "a whole number" if whole else "a number"
        raise _bad(question, answer, f"{kind} from {question.least:g} to {question.most:g}")
    return int(answer) if whole else answer


def given_labels(answer: Any) -> list[str]:
    """Return the labels of an answer, those of its spans, or the one option that was chosen."""
    listed = answer if isinstance(answer, list) else [] if answer is None else [answer]
    return list(dict.fromkeys(str(entry["label"] if isinstance(entry, dict) else entry) for entry in listed))


def _labels(question: StudyQuestion, answer: Any) -> list[str]:
    """Return labels in the order of the question."""
    if not isinstance(answer, list) or any(label not in question.values for label in answer):
        raise _bad(question, answer, f"a list of labels: {', '.join(question.values)}")
    if len(set(answer)) < len(answer):
        raise _bad(question, answer, "each label once")
    return [label for label in question.values if label in answer]


def _spans(question: StudyQuestion, answer: Any, turn_text: str | None) -> list[dict[str, object]]:
    """Return spans in the order of the text; places count Unicode code points, as in a Python text."""
    if not isinstance(answer, list) or len(answer) > MOST_SPANS:
        found_input = f"{len(answer):,} spans" if isinstance(answer, list) else answer
        raise _bad(question, found_input, f"a list of at most {MOST_SPANS} spans")
    spans = []
    for place, span in enumerate(answer):
        at = f"[{place}]"
        is_span = isinstance(span, dict) and set(span) == {"start", "end", "label"}
        bounds = (span["start"], span["end"]) if is_span else (0, 0)
        if not all(type(bound) is int for bound in bounds) or not 0 <= bounds[0] < bounds[1]:
            raise _bad(question, span, at=at, remedy='{"start": 0, "end": 5, "label": "…"}, characters from 0')
        if turn_text is not None and bounds[1] > len(turn_text):
            raise _bad(question, span, f"an end of at most {len(turn_text):,}: the turn has no more characters", at)
        if span["label"] not in question.values:
            raise _bad(question, span["label"], f"a label of: {', '.join(question.values)}", at)
        if span in spans:
            raise _bad(question, span, "each span once", at)
        spans.append({name: span[name] for name in ("start", "end", "label")})
    return sorted(spans, key=lambda span: (span["start"], span["end"], question.values.index(span["label"])))


def _bad(question: StudyQuestion, answer: Any, remedy: str, at: str = "") -> BadInput:
    return BadInput(f"answers.{question.id}{at}: {str(answer)[:60]!r} is not an answer", remedy=remedy)
