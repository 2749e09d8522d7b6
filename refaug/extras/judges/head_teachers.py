"""The teachers that options of a pre-training name, and what opens them while it runs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from refaug.core.errors import BadInput
from refaug.core.home import Settings
from refaug.extras.judges.conversation_options import ConversationOptions
from refaug.rater.adem.pretraining.targets import HeadOrder, TeacherChoice, TeacherOpeners
from refaug.rater.adem.teachers.teacher import Teacher
from refaug.scoring.home.teachers import emotion_choice, meaning_choice, teacher_openers


def chosen_teachers(settings: Settings, options: ConversationOptions) -> dict[str, TeacherChoice]:
    """Return the teachers by head, with absolute paths, since a stopped training may go on in another folder."""
    chosen = dict[str, TeacherChoice]()
    if options.emotion is not None:
        kind, colon, path = options.emotion.partition(":")
        chosen["emotion"] = emotion_choice(f"{kind}:{Path(path).absolute()}" if colon and path else options.emotion)
    if options.meaning is not None:
        chosen["meaning"] = meaning_choice(settings, options.meaning, threads=options.threads)
    return chosen


def openers_for(settings: Settings, heads: HeadOrder, *, threads: int | None) -> TeacherOpeners:
    """Return what opens the teachers of an order; BadInput where one has changed since it was named."""
    openers = teacher_openers(settings, threads=threads)

    def open_emotion(spec: str, texts: Sequence[str]) -> Teacher:
        teacher = openers.emotion(spec, texts)
        if heads.emotion is not None and teacher.name != heads.emotion.id:
            raise BadInput(f"{spec} has changed since the training was ordered", remedy="train anew")
        return teacher

    return openers._replace(emotion=open_emotion)
