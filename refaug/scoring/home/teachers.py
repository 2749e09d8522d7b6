"""Teachers of emotion and meaning, opened in a home for the heads of a network that is to be trained."""

from __future__ import annotations

from refaug.core.home import Settings
from refaug.rater.adem.pretraining.targets import TeacherChoice, TeacherOpeners
from refaug.rater.adem.teachers.emotion import open_emotion
from refaug.rater.adem.teachers.meaning import SHARE, MeaningTeacher
from refaug.scoring.home.networks import encoder_opener


def teacher_openers(settings: Settings, *, threads: int | None = None, keep: bool = False) -> TeacherOpeners:
    """Return what opens teachers; one of meaning is fitted to the texts.

    Vectors of texts are not kept unless asked for: they are of turns as pieces spell them, which no log has.
    """
    open_encoder = encoder_opener(settings, threads=threads)
    return TeacherOpeners(
        emotion=open_emotion,
        meaning=lambda spec, texts: MeaningTeacher.fit(open_encoder(spec, keep=keep), texts),
    )


def emotion_choice(spec: str) -> TeacherChoice:
    """Return a teacher of emotion as an order names it, with the hash of its file."""
    return TeacherChoice(spec=spec, id=open_emotion(spec).name)


def meaning_choice(settings: Settings, encoder: str, *, threads: int | None = None) -> TeacherChoice:
    """Return a teacher of meaning as an order names it, by an encoder of the home with its hash."""
    name = encoder_opener(settings, threads=threads)(encoder, keep=False).name
    return TeacherChoice(spec=name, id=f"pca[{name},{SHARE:g}]")
