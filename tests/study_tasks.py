"""Tasks of studies for tests, with everything that a test does not care about filled in."""

from itertools import count

from refaug.extras.studies.records import task_of

_NUMBERS = count(1)


def study_task(participant="P-1", bots=("bot-a",), answers=None, *, turns=(), position=None, **fields):
    """Return a finished task; two bots stand left and right. `turns` are texts, the participant's first."""
    number = next(_NUMBERS)
    names = ("one",) if len(bots) == 1 else ("left", "right")
    listed = [
        {
            "n": place,
            "role": "participant" if place % 2 else "bot",
            "text": text,
            "at": None,
            "ms": None,
            "vote": None,
        }
        for place, text in enumerate(turns, 1)
    ]
    return task_of(
        {
            "study": "s",
            "protocol_sha256": "0" * 64,
            "pilot": False,
            "task": f"t{number}",
            "participant": participant,
            "kind": "chat" if len(bots) == 1 else "chat-pair",
            "position": number if position is None else position,
            "state": "done",
            "check": None,
            "bots": [
                {"side": side, "slot": bot, "bot": bot, "sha256": ""} for side, bot in zip(names, bots, strict=True)
            ],
            "sides": [{"side": side, "turns": listed} for side in names],
            "answers": answers or {},
            "seconds": 60.0,
            "started": None,
            "ended": None,
            "excluded": None,
            **fields,
        },
        "test",
    )


def protocol(*questions, exclude=None, **fields):
    """Return a frozen protocol with questions from 1 to 7, or those given as objects."""
    return {
        "kind": "chat",
        "form": {
            "name": "f",
            "questions": [
                {"id": question, "text": question, "type": "likert", "least": 1, "most": 7}
                if isinstance(question, str)
                else question
                for question in questions
            ],
        },
        "exclude": exclude or {},
        **fields,
    }
