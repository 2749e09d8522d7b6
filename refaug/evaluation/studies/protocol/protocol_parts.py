"""The parts of a protocol beside its form: training, checks, exclusions, screening, quotas, completion."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from refaug.evaluation.studies.protocol.form_answers import checked_answers
from refaug.evaluation.studies.protocol.study_fields import ID, StudyFields
from refaug.evaluation.studies.protocol.study_form import StudyForm, StudyQuestion, form_of

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
        raise inner.bad("degraded", f"{degraded!r} is no bot", "true, or the name of a bot of kind degraded")
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
                raise inner.bad(name, f"{text[:60]!r} is no address", "https://…, with {code} where the code goes")
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
        raise inner.bad("currency", f"{currency[:20]!r} is no currency", "three letters, such as EUR")
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
