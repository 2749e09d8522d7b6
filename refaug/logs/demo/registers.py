"""How the same sentence is said among friends, politely, in a hurried text message, and at a service desk."""

from __future__ import annotations

import enum
import random
import re

from refaug.logs.demo.topic_model import Intent


class Register(enum.Enum):
    """The tone of a whole dialogue; the sentences of the topics are written in the casual one."""

    CASUAL = "casual"
    POLITE = "polite"
    TERSE = "terse"
    DESK = "desk"


class Moment(enum.Enum):
    """Where a sentence stands in a dialogue; used for sentences that are no replies, and so have no intent."""

    OPENING = "opening"
    LATER = "later"


FULL_FORMS = {
    "aren't": "are not",
    "can't": "cannot",
    "didn't": "did not",
    "doesn't": "does not",
    "don't": "do not",
    "hasn't": "has not",
    "haven't": "have not",
    "he's": "he is",
    "I'll": "I will",
    "I'm": "I am",
    "I've": "I have",
    "isn't": "is not",
    "it's": "it is",
    "let's": "let us",
    "needn't": "need not",
    "that's": "that is",
    "they're": "they are",
    "wasn't": "was not",
    "we'll": "we will",
    "we're": "we are",
    "won't": "will not",
    "wouldn't": "would not",
    "you're": "you are",
}
TEXTING = {
    "because": "cos",
    "please": "pls",
    "tonight": "tonite",
    "you": "u",
    "your": "ur",
    "are": "r",
    "thanks": "thx",
    "tomorrow": "tmrw",
    "and": "n",
    "for": "4",
}

POLITE_LEADS: dict[Intent | Moment, tuple[str, ...]] = {
    Moment.OPENING: ("Excuse me.", "Good morning.", "Perhaps you can help me."),
    Moment.LATER: ("I see.", "Indeed.", "Thank you for your patience."),
    Intent.AGREE: ("I quite agree.", "With pleasure.", "Thank you for mentioning it."),
    Intent.ASK: ("May I ask you something?", "If I may ask:"),
    Intent.ADVISE: ("If I may give some advice:", "Perhaps this helps."),
    Intent.SYMPATHISE: ("I am truly sorry.", "I do feel for you."),
    Intent.DECLINE: ("I am afraid I see it differently.", "Forgive me for saying so."),
    Intent.JOKE: ("Please don't take this seriously.", "Allow me a little joke."),
    Intent.TELL: ("As far as I know:", "I am glad to tell you what I know."),
}
DESK_LATER_LEADS = ("Certainly.", "Of course.", "Thank you for the information.")
DESK_LEADS = (
    "Thank you for your message.",
    "Good morning, how kind of you to write.",
    "Hello and thank you for asking.",
)
DESK_ENDS = ("Kind regards from the desk.", "Is there anything else we can do for you?", "We are glad to help.")

# How often a polite or a desk sentence is dressed up: often enough to be seen, seldom enough that sentences recur.
DRESSED = 0.3

_CONTRACTION = re.compile(r"\b(" + "|".join(FULL_FORMS) + r")\b", re.IGNORECASE)
_TEXTING = re.compile(r"\b(" + "|".join(TEXTING) + r")\b")


def _full_form(match: re.Match[str]) -> str:
    short_form = match.group(1)
    full = FULL_FORMS.get(short_form) or FULL_FORMS.get(short_form.lower(), short_form)
    return full[0].upper() + full[1:] if short_form[0].isupper() else full


def terse(text: str) -> str:
    """Type it with the thumbs: lower case, no commas, no apostrophes, no full stop, a few short spellings."""
    bare = text.lower().replace(",", "").replace("'", "").removesuffix(".")
    return _TEXTING.sub(lambda match: TEXTING[match.group(1)], bare)


def polite(text: str) -> str:
    """Spell the contractions out."""
    return _CONTRACTION.sub(_full_form, text) if "'" in text else text


def say(text: str, register: Register, moment: Intent | Moment, *, is_desk: bool, rng: random.Random) -> str:
    """Put a casual sentence into the register; `is_desk` marks the turns of the second speaker."""
    if register is Register.CASUAL:
        return text
    if register is Register.TERSE:
        return terse(text)
    text = polite(text)
    if rng.random() >= DRESSED:
        return text
    if register is Register.DESK and is_desk:
        leads = DESK_LATER_LEADS if moment is Moment.LATER else DESK_LEADS
        return f"{rng.choice(leads)} {text}" if rng.random() < 0.5 else f"{text} {rng.choice(DESK_ENDS)}"
    return f"{rng.choice(POLITE_LEADS[moment])} {text}"
