"""The names of the models that metrics are bound to; the models themselves are in `model_metrics`."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class JudgeLimits:
    """What judges may do for requests from other machines: only judges of the home, and only within these limits."""

    hosts: tuple[str, ...]  # host, host:port, address or network
    tokens_a_day: int


@dataclass(frozen=True, kw_only=True)
class ModelNames:
    """The models by name, and the index whose log is sampled; each as `name` or `name@version`."""

    rater: str | None = None
    ruber: str | None = None
    adem: str | None = None
    judge: str | None = None  # or the path of its file
    asks_judge: bool = True  # False: only stored answers count
    judge_limits: JudgeLimits | None = None  # None: the user of a command has written the judge's file
    sample: str | None = None
    threads: int | None = None
