"""The protocol of a study: one JSON file, checked and hashed; a study keeps it as it was when it opened.

    {"kind": "chat", "bots": ["c-bm25", "vhred"], "per_participant": 4, "min_turns": 3, "form": "chat-quality-5"}

What is left out gets its default, so that equal studies have equal hashes. Texts stand in the protocol itself.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Self

import orjson

from refaug.core.errors import BadInput
from refaug.core.files import NAME
from refaug.core.processes.kept import cached_property
from refaug.extras.studies.protocol.study_form import (
    ID,
    StudyFields,
    StudyForm,
    StudyQuestion,
    checked_answers,
    find_form,
    form_of,
)
from refaug.extras.studies.questions import ACTIVE, routed_question
from refaug.extras.studies.records import StudyKind

MOST_TRAINING: Final = 50
MOST_QUOTAS: Final = 50
_MOST_CHECKS: Final = 10
_MOST_FACTORS: Final = 20
_BOT_FACTOR: Final = "bot"  # the factor that every report has

Part = dict[str, object]


def training_part(fields: StudyFields, form: StudyForm, where: str) -> Part | None:
    """Return the training: items with right answers and feedback, how often it may be tried, and what passes."""
    table = fields.table("training")
    if not table:
        return None
    inner = StudyFields(table, f"{where}, training")
    inner.require_known(("items", "attempts", "least"))
    items = []
    for place, entry in enumerate(inner.objects("items", MOST_TRAINING, least=1)):
        at = f"{where}, training.items[{place}]"
        item_fields = StudyFields(entry, at)
        item_fields.require_known(("id", "turns", "reply", "replies", "reference", "dialogues", "answers", "feedback"))
        right = _right_answers(form, item_fields, at)
        payload = {key: entry[key] for key in ("turns", "reply", "replies", "reference", "dialogues") if key in entry}
        items.append(
            {
                "id": item_fields.id("id") if "id" in entry else f"t{place + 1}",
                **payload,
                "answers": right,
                "feedback": item_fields.long_text("feedback", 4_000),
            }
        )
    return {
        "items": items,
        "attempts": inner.whole("attempts", 2, 1, 10),
        "least": inner.number("least", 0.75, 0, 1),
    }


def _right_answers(form: StudyForm, fields: StudyFields, where: str) -> dict[str, list[Any]]:
    """Return every right answer of each question, as lists."""
    answers = fields.table("answers")
    if not answers:
        raise fields.bad("answers", "there is nothing that would be right", '{"quality": [1, 2]}')
    right = dict[str, list[Any]]()
    for question, accepted in answers.items():
        listed = accepted if isinstance(accepted, list) else [accepted]
        try:
            right[question] = [
                checked_answers(form, {question: answer}, ("task", "side"))[question] for answer in listed
            ]
        except Exception as error:
            message = getattr(error, "message", str(error))
            raise fields.bad("answers", message, getattr(error, "remedy", "")) from error
    del where
    return right


def checks_part(fields: StudyFields, where: str, *, asks_bots: bool) -> Part:
    """Return the checks of attention: how many questions with a given answer, a degraded bot, repeated tasks."""
    table = fields.table("checks")
    inner = StudyFields(table, f"{where}, checks")
    inner.require_known(("attention", "degraded", "repeat"))
    degraded = table.get("degraded", False)
    if not isinstance(degraded, bool | str) or (isinstance(degraded, str) and not degraded):
        raise inner.bad("degraded", f"{degraded!r} is not a bot", "true, or the name of a bot of kind degraded")
    if degraded and not asks_bots:
        raise inner.bad(
            "degraded", "this kind of study asks no bots", "leave it out; put worse replies among the items"
        )
    return {
        "attention": inner.whole("attention", 0, 0, _MOST_CHECKS),
        "degraded": degraded,
        "repeat": inner.whole("repeat", 0, 0, _MOST_CHECKS),
    }


def exclusion_part(fields: StudyFields, where: str) -> Part:
    """Return the rules of exclusion, fixed before the first participant."""
    table = fields.table("exclude")
    inner = StudyFields(table, f"{where}, exclude")
    inner.require_known((
        "failed_attention", "degraded_not_lower", "same_answer_everywhere", "seconds_per_turn_below",
        "seconds_per_task_below", "repeat_differs_by", "copied_messages",
    ))  # fmt: skip
    rules: Part = {}
    if "failed_attention" in table:
        rules["failed_attention"] = inner.whole("failed_attention", 1, 1, _MOST_CHECKS)
    for name in ("degraded_not_lower", "same_answer_everywhere"):
        if name in table:
            rules[name] = inner.flag(name)
    for name, most in (("seconds_per_turn_below", 600), ("seconds_per_task_below", 3_600)):
        if name in table:
            rules[name] = inner.number(name, 0, 0, most)
    if "repeat_differs_by" in table:
        rules["repeat_differs_by"] = inner.number("repeat_differs_by", 0, 0, 1e6)
    if "copied_messages" in table:
        rules["copied_messages"] = inner.number("copied_messages", 0, 0, 1)
    return rules


def analysis_part(fields: StudyFields, where: str, bots: Sequence[str] = ()) -> Part:
    """Return how the answers will be analysed; factors are those of these bots, or of any system where there are none.

    A protocol without factors has no such field.
    """
    inner = StudyFields(fields.table("analysis"), f"{where}, analysis")
    inner.require_known(("level", "cluster", "holm", "draws", "seed", "ties", "main", "factors"))
    factors = _factors(inner, f"{where}, analysis.factors", bots)
    return {
        **({"factors": factors} if factors else {}),
        "level": inner.number("level", 0.95, 0.5, 0.999),
        "cluster": inner.choice("cluster", ("participant", "none")),
        "holm": inner.flag("holm", default=True),
        "draws": inner.whole("draws", 1_000, 100, 100_000),
        "seed": inner.whole("seed", 1, 0, 2**32 - 1),
        "ties": inner.choice("ties", ("half", "davidson")),
        "main": list(inner.texts("main", 20, longest=64)),
    }


def _factors(fields: StudyFields, where: str, bots: Sequence[str]) -> dict[str, dict[str, str]]:
    """Return what each bot is like: names of factors with their levels."""
    example = '{"c-bm25": {"data": "movies"}, "vhred": {"data": "forum"}}'
    table = fields.table("factors")
    by_bot = StudyFields(table, where)
    if bots:
        by_bot.require_known(bots)
    factors = dict[str, dict[str, str]]()
    for bot, levels in table.items():
        if not isinstance(levels, dict) or len(levels) > _MOST_FACTORS:
            raise by_bot.bad(bot[:80], f"factors with levels were expected, at most {_MOST_FACTORS}", example)
        inner = StudyFields(levels, f"{where}.{bot[:80]}")
        for name in levels:
            if ID.fullmatch(name) is None or name == _BOT_FACTOR:
                raise inner.bad(name[:80], "this cannot be the name of a factor", "such as data; not bot")
        factors[bot] = {name: inner.long_text(name, 64, required=True) for name in levels}
    for name in sorted({name for levels in factors.values() for name in levels}):
        named = {levels[name] for levels in factors.values() if name in levels}
        if len(named) < 2:
            raise fields.bad("factors", f"{name} has one level, {named.pop()!r}, and nothing to compare", example)
    return factors


def screening_part(fields: StudyFields, where: str) -> list[Part]:
    """Return the questions before consent counts: questions of a form, and the answers that let a participant in."""
    screening = []
    for place, entry in enumerate(fields.objects("screening", 20)):
        at = f"{where}, screening[{place}]"
        inner = StudyFields(entry, at)
        accepted = entry.get("accept")
        question_fields = {key: content for key, content in entry.items() if key != "accept"}
        form = form_of({"name": "screening", "questions": [{**question_fields, "required": True}]}, where=at)
        (question,) = form.questions
        if question.scope == "turn":
            raise inner.bad("scope", "there are no turns before the first task", "leave it out; not labels or spans")
        screening.append({**question.as_json(), "accept": _accepted(inner, question, accepted)})
    names = [part["id"] for part in screening]
    if len(set(names)) < len(names):
        raise fields.bad("screening", "two questions have one id", "an id of its own for each")
    return screening


def _accepted(fields: StudyFields, question: StudyQuestion, accepted: Any) -> list[Any] | None:
    if accepted is None:
        return None
    if not isinstance(accepted, list) or not accepted:
        raise fields.bad("accept", "a list of answers was expected", '["yes"]; leave it out to let everybody in')
    if question.values and (unknown := [answer for answer in accepted if answer not in question.values]):
        raise fields.bad("accept", f"{unknown[0]!r} cannot be answered", f"some of: {', '.join(question.values)}")
    return accepted


def quota_part(fields: StudyFields, screening: Sequence[Mapping[str, Any]], where: str) -> list[Part]:
    """Return how many participants may have an answer to a screening question."""
    by_id = {part["id"]: part for part in screening}
    quotas = []
    for place, entry in enumerate(fields.objects("quotas", MOST_QUOTAS)):
        inner = StudyFields(entry, f"{where}, quotas[{place}]")
        inner.require_known(("question", "value", "most"))
        question = entry.get("question")
        if question not in by_id:
            names = ", ".join(by_id) or "none: there are no screening questions"
            raise inner.bad("question", f"there is no screening question {str(question)[:60]!r}", f"one of: {names}")
        values = [option["value"] for option in by_id[question].get("options", ())]
        if values and entry.get("value") not in values:
            raise inner.bad("value", f"{entry.get('value')!r} cannot be answered", f"one of: {', '.join(values)}")
        if "most" not in entry:
            raise inner.bad("most", "it is missing", "how many participants, at most")
        quotas.append({"question": question, "value": entry["value"], "most": inner.whole("most", 1, 0, 1_000_000)})
    return quotas


def completion_part(fields: StudyFields, where: str) -> Part:
    """Return the code and the address that participants get at the end, as recruiting services ask for them."""
    table = fields.table("completion")
    inner = StudyFields(table, f"{where}, completion")
    names = ("code", "return_url", "screened_out_code", "screened_out_url")
    inner.require_known(names)
    part: Part = {}
    for name in names:
        if text := inner.long_text(name, 500 if name.endswith("url") else 64):
            if name.endswith("url") and not text.startswith(("https://", "http://")):
                raise inner.bad(name, f"{text[:60]!r} is not an address", "https://…, with {code} where the code goes")
            part[name] = text
    return part


def pay_part(fields: StudyFields, where: str) -> Part | None:
    """Return what a participant who finishes is paid."""
    table = fields.table("pay")
    if not table:
        return None
    inner = StudyFields(table, f"{where}, pay")
    inner.require_known(("amount", "currency", "minutes"))
    currency = inner.text("currency", required=True) or ""
    if len(currency) != 3 or not currency.isalpha() or not currency.isupper():
        raise inner.bad("currency", f"{currency[:20]!r} is not a currency", "three letters, such as EUR")
    return {
        "amount": inner.number("amount", 0, 0, 1e6),
        "currency": currency,
        "minutes": inner.number("minutes", 0, 0, 1_000),
    }


def stop_part(fields: StudyFields, where: str) -> Part:
    """Return when the study closes by itself: a number of finished participants, a number of tasks."""
    table = fields.table("stop")
    inner = StudyFields(table, f"{where}, stop")
    inner.require_known(("participants", "tasks"))
    return {name: inner.whole(name, 1, 1, 10_000_000) for name in ("participants", "tasks") if name in table}


def translation_part(fields: StudyFields, where: str, names: Sequence[str], most: int) -> dict[str, dict[str, str]]:
    """Return title, consent and guidelines in further languages."""
    translations = {}
    for language, words in fields.table("translations").items():
        at = f"{where}, translations.{str(language)[:20]}"
        StudyFields({"language": language}, at).language("language", "en")
        if not isinstance(words, dict):
            raise fields.bad("translations", f"{str(language)[:20]}: an object was expected", '{"de": {"title": "…"}}')
        inner = StudyFields(words, at)
        inner.require_known(names)
        translations[language] = {name: inner.long_text(name, most, required=True) for name in words}
    return translations


MOST_BYTES: Final = 4_000_000  # of a protocol
MOST_BOTS: Final = 50
MOST_TASKS: Final = 200  # of a participant
_FEWEST_ROUTED: Final = 3  # bots: two have one pair
_SCALES: Final = ("likert", "slider")
_MOST_CONSENT: Final = 100_000  # characters
_FIELDS: Final = (
    "kind", "title", "language", "bots", "per_participant", "ratings_per_item", "target", "min_turns", "max_turns",
    "max_message_chars", "order", "opening", "openings", "delay", "votes", "consent", "guidelines", "form", "training",
    "checks", "exclude", "analysis", "retention_days", "screening", "quotas", "participants", "completion", "pay",
    "stop", "reservation_minutes", "skips", "undo", "page_texts", "translations", "seed", "adult_content", "items",
    "routing",
)  # fmt: skip
_CHAT_FIELDS: Final = (
    "bots",
    "min_turns",
    "max_turns",
    "max_message_chars",
    "opening",
    "openings",
    "delay",
    "votes",
    "target",
    "routing",
)
_ITEM_FIELDS: Final = ("ratings_per_item", "items")
_TEXTS: Final = ("title", "consent", "guidelines")
_FROZEN: Final = ("bot_hashes", "items_sha256")  # added when the study opens


GAP: Final = "[…]"  # in a text that was begun with a template: what its author has to fill in
CHATS: Final = frozenset({StudyKind.CHAT, StudyKind.CHAT_PAIR})
ATTENTION: Final = "attention"  # the question that says which answer to give

_DEFAULT_FORMS: Final[Mapping[StudyKind, str]] = {
    StudyKind.CHAT: "chat-quality-5",
    StudyKind.CHAT_PAIR: "prefer-dialogue-4",
    StudyKind.RATE_DIALOGUE: "chat-quality-5",
    StudyKind.PAIR_DIALOGUE: "prefer-dialogue-4",
    StudyKind.PAIR_REPLY: "prefer-reply-4",
    StudyKind.RATE_REPLY: "reply-overall",
    StudyKind.RATE_REFERENCE: "reply-appropriateness",
}


@dataclass(frozen=True, kw_only=True)
class StudyProtocol:
    """A checked protocol, with every default written out."""

    fields: Mapping[str, Any]

    @classmethod
    def of(cls, table: Mapping[str, Any], *, where: str = "protocol") -> Self:
        """Check a protocol; BadInput names the field, what was found, and what would be right."""
        if not isinstance(table, Mapping):
            raise BadInput(f"{where}: a protocol is a JSON object", remedy='{"kind": "chat", "bots": ["…", "…"]}')
        if len(orjson.dumps(dict(table))) > MOST_BYTES:
            raise BadInput(f"{where}: more than {MOST_BYTES:,} bytes", remedy="put long items into a file of items")
        return cls(fields=_checked(table, where))

    @classmethod
    def stored(cls, content: str | bytes) -> Self:
        """Return a protocol that was checked before it was stored."""
        return cls(fields=orjson.loads(content))

    @property
    def content(self) -> bytes:
        """The protocol as JSON with sorted keys, which is hashed."""
        return orjson.dumps(dict(self.fields), option=orjson.OPT_SORT_KEYS)

    @property
    def sha256(self) -> str:
        """The hash of everything in it."""
        return hashlib.sha256(self.content).hexdigest()

    def frozen(self, bot_hashes: Mapping[str, str], items_sha256: str | None) -> StudyProtocol:
        """Return the protocol with the hashes of what it names, as a study opens with it."""
        fields = {name: content for name, content in self.fields.items() if name not in _FROZEN}
        fields["bot_hashes"] = dict(bot_hashes)
        if items_sha256 is not None:
            fields["items_sha256"] = items_sha256
        return StudyProtocol(fields=fields)

    def __getitem__(self, name: str) -> Any:
        return self.fields[name]

    @cached_property
    def kind(self) -> StudyKind:
        """What participants do."""
        return StudyKind(self.fields["kind"])

    @cached_property
    def form(self) -> StudyForm:
        """What participants are asked about each task."""
        return find_form(self.fields["form"], where="protocol")

    @property
    def bots(self) -> tuple[str, ...]:
        """The names of the bots that participants talk with."""
        return tuple(self.fields["bots"])

    @property
    def has_fixed_opening(self) -> bool:
        """Whether chats begin with a text of the protocol in place of a bot's reply."""
        return self.fields.get("opening") == "fixed"

    @property
    def consent_sha256(self) -> str:
        """The hash of the text that participants agree to, in all its languages."""
        texts = [
            self.fields["consent"],
            {key: words.get("consent") for key, words in self.fields["translations"].items()},
        ]
        return hashlib.sha256(orjson.dumps(texts, option=orjson.OPT_SORT_KEYS)).hexdigest()

    @property
    def languages(self) -> tuple[str, ...]:
        """The languages that participants may choose, its first one first."""
        return tuple(dict.fromkeys((self.fields["language"], *self.fields["translations"], *self.form.texts)))

    def text(self, name: str, language: str) -> str:
        """Return title, consent or guidelines in a language, or as they are where they are not translated."""
        return str(self.fields["translations"].get(language, {}).get(name) or self.fields[name])

    def texts(self) -> Iterator[tuple[str, str]]:
        """Yield every text that participants read before their tasks, with what it is."""
        for name in _TEXTS:
            yield name, self.fields[name]
        for language, words in self.fields["translations"].items():
            yield from ((f"{name} in {language}", text) for name, text in words.items())


def is_chat(kind: StudyKind) -> bool:
    """Return whether participants talk with bots."""
    return kind in CHATS


def side_names(kind: StudyKind) -> tuple[str, ...]:
    """Return the names of the sides of a task."""
    return ("left", "right") if kind.is_pair else ("one",)


def _checked(table: Mapping[str, Any], where: str) -> dict[str, object]:
    fields = StudyFields(table, where)
    fields.require_known((*_FIELDS, *_FROZEN))
    if table.get("kind") is None:
        raise fields.bad("kind", "it is missing", f"one of: {', '.join(StudyKind)}")
    kind = StudyKind(fields.choice("kind", tuple(StudyKind)))
    _require_fitting(fields, table, kind)
    bots = _bots(fields, kind)
    form = find_form(table.get("form", _DEFAULT_FORMS.get(kind)), where=where)
    _require_fitting_form(form, kind, where)
    screening = screening_part(fields, where)
    checked: dict[str, object] = {
        "kind": kind.value,
        "title": fields.long_text("title", 200) or "Study",
        "language": fields.language("language", "en"),
        "bots": list(bots),
        "per_participant": fields.whole("per_participant", _tasks(kind, bots), 1, MOST_TASKS),
        "order": fields.choice("order", ("williams", "random")),
        "form": form.as_json(),
        "consent": fields.long_text("consent", _MOST_CONSENT),
        "guidelines": fields.long_text("guidelines", _MOST_CONSENT),
        "training": training_part(fields, form, where),
        "checks": checks_part(fields, where, asks_bots=is_chat(kind)),
        "exclude": exclusion_part(fields, where),
        "analysis": analysis_part(fields, where, bots),
        "retention_days": fields.whole("retention_days", 365, 1, 36_500),
        "screening": screening,
        "quotas": quota_part(fields, screening, where),
        "participants": fields.whole("participants", 100_000, 1, 1_000_000),
        "completion": completion_part(fields, where),
        "pay": pay_part(fields, where),
        "stop": stop_part(fields, where),
        "reservation_minutes": fields.number("reservation_minutes", 45, 1, 10_080),
        "skips": fields.whole("skips", 3, 0, MOST_TASKS),
        "undo": fields.flag("undo", default=True),
        "page_texts": _page_texts(fields, where),
        "translations": translation_part(fields, where, _TEXTS, _MOST_CONSENT),
        "seed": fields.whole("seed", 1, 0, 2**32 - 1),
        "adult_content": fields.flag("adult_content"),
    }
    checked |= _chat_settings(fields) if is_chat(kind) else _item_settings(fields)
    routing = _routing(fields, checked, form)
    checked |= {"routing": routing} if kind is StudyKind.CHAT_PAIR else {}
    _require_consistent(fields, checked, kind)
    return checked | {name: table[name] for name in _FROZEN if name in table}


def _require_fitting(fields: StudyFields, table: Mapping[str, Any], kind: StudyKind) -> None:
    """Refuse settings that have no effect for this kind."""
    idle = _ITEM_FIELDS if is_chat(kind) else _CHAT_FIELDS
    for name in idle:
        if name in table:
            raise fields.bad(name, f"it has no effect in a study of kind {kind}", "leave it out")


def _require_fitting_form(form: StudyForm, kind: StudyKind, where: str) -> None:
    for question in form.questions:
        at = f"{where}, form {form.name}, {question.id}"
        if question.id == ATTENTION:
            raise BadInput(f"{at}: this id belongs to the check of attention", remedy="another id")
        if question.type == "pair" and not kind.is_pair:
            raise BadInput(f"{at}: a study of kind {kind} has no two sides", remedy="a question of another type")
        if question.scope == "turn" and question.type == "pair":
            raise BadInput(f"{at}: one turn has no two sides", remedy='"scope": "task", or a question of another type')
        if question.scope == "turn" and not kind.has_dialogues:
            raise BadInput(
                f"{at}: a study of kind {kind} shows no dialogue with turns to ask about", remedy='"scope": "task"'
            )
    if kind is StudyKind.LABEL_TURNS and not any(question.scope == "turn" for question in form.questions):
        raise BadInput(
            f"{where}, form {form.name}: no question is about turns", remedy='"scope": "turn" in one of them'
        )


def _bots(fields: StudyFields, kind: StudyKind) -> tuple[str, ...]:
    bots = fields.texts("bots", MOST_BOTS, longest=64)
    if not is_chat(kind):
        return bots
    least = 2 if kind is StudyKind.CHAT_PAIR else 1
    if len(bots) < least:
        count = "1 bot" if bots else "no bot"
        raise fields.bad("bots", f"{count} in a study of kind {kind}", f"{least} or more; refaug bots list")
    for bot in bots:
        if NAME.fullmatch(bot) is None:
            raise fields.bad("bots", f"{bot!r} is not a name of a stored bot", "a name; refaug bots list has them")
    if len(set(bots)) < len(bots):
        raise fields.bad("bots", "one of them is listed twice", "each bot once")
    return bots


def _tasks(kind: StudyKind, bots: tuple[str, ...]) -> int:
    if kind is StudyKind.CHAT:
        return len(bots)
    if kind is StudyKind.CHAT_PAIR:
        return min(MOST_TASKS, len(bots) * (len(bots) - 1) // 2)
    return 10


def _page_texts(fields: StudyFields, where: str) -> dict[str, str]:
    inner = StudyFields(fields.table("page_texts"), f"{where}, page_texts")
    names = ("welcome", "thanks", "screened_out", "full", "closed", "trouble")
    inner.require_known(names)
    return {name: text for name in names if (text := inner.long_text(name, 4_000))}


def _chat_settings(fields: StudyFields) -> dict[str, object]:
    least = fields.whole("min_turns", 3, 0, 200)
    most = fields.whole("max_turns", max(30, least), 1, 200)
    if most < least:
        raise fields.bad("max_turns", f"{most} is below min_turns, {least}", f"{least} or more")
    openings = fields.texts("openings", 100, longest=2_000)
    opening = fields.choice("opening", ("participant", "bot", "fixed"))
    if (opening == "fixed") != bool(openings):
        raise fields.bad(
            "openings", "texts to begin with go with opening fixed", '"opening": "fixed", "openings": ["Hi!"]'
        )
    return {
        "min_turns": least,
        "max_turns": most,
        "max_message_chars": fields.whole("max_message_chars", 2_000, 1, 200_000),
        "opening": opening,
        "openings": list(openings),
        "delay": fields.choice("delay", ("typing", "none")),
        "votes": fields.flag("votes", default=True),
        "target": fields.whole("target", 50, 1, 1_000_000),
    }


def _routing(fields: StudyFields, checked: Mapping[str, Any], form: StudyForm) -> str:
    """Return how pairs of bots are chosen; active only where an order of bots can come of one choice of the form."""
    routing = fields.choice("routing", ("balanced", ACTIVE))
    if routing != ACTIVE:
        return routing
    if checked["kind"] != StudyKind.CHAT_PAIR:
        raise fields.bad("routing", f"{ACTIVE} in a study of kind {checked['kind']}, which has no pairs", "chat-pair")
    if len(checked["bots"]) < _FEWEST_ROUTED:
        message = f"{ACTIVE} with {len(checked['bots'])} bots, which have one pair"
        raise fields.bad("routing", message, f'{_FEWEST_ROUTED} bots or more, or "balanced"')
    if routed_question({**checked, "routing": routing}) is None:
        raise fields.bad("routing", f"{ACTIVE} without a choice between the two sides", "a question of type pair")
    if checked["analysis"]["ties"] != "half":
        raise fields.bad("routing", f"{ACTIVE} counts a tie as half a win of each", '"analysis": {"ties": "half"}')
    if rated := [question.id for question in form.questions if question.scope == "side" and question.type in _SCALES]:
        message = f"{ACTIVE} beside question {rated[0]}, a rating of one side, whose means could have no intervals"
        raise fields.bad("routing", message, "choices and texts alone")
    return routing


def _item_settings(fields: StudyFields) -> dict[str, object]:
    return {"ratings_per_item": fields.whole("ratings_per_item", 1, 1, 1_000)}


def _require_consistent(fields: StudyFields, checked: Mapping[str, Any], kind: StudyKind) -> None:
    """Refuse parts that cannot go together."""
    rules, checks = checked["exclude"], checked["checks"]
    for rule, check in (
        ("failed_attention", "attention"),
        ("degraded_not_lower", "degraded"),
        ("repeat_differs_by", "repeat"),
    ):
        if rules.get(rule) and not checks[check]:
            raise fields.bad(
                "exclude", f"{rule} needs a check that the study does not have", f'"checks": {{"{check}": 1}}'
            )
    if rules.get("failed_attention", 0) > checks["attention"]:
        raise fields.bad(
            "exclude", "failed_attention is more than there are attention checks", f"1 to {checks['attention']}"
        )
    if checks["attention"] > checked["per_participant"]:
        raise fields.bad(
            "checks", "there are more attention checks than tasks", f"at most {checked['per_participant']}"
        )
    if checks["repeat"] and checked["per_participant"] <= checks["repeat"]:
        raise fields.bad("checks", "a repeated task needs earlier ones", f"at most {checked['per_participant'] - 1}")
    if is_chat(kind) and rules.get("seconds_per_task_below") and rules.get("seconds_per_turn_below"):
        raise fields.bad("exclude", "seconds_per_turn_below and seconds_per_task_below", "one of them")
