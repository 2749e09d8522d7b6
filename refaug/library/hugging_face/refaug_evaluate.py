"""Scores of refaug as a metric of Hugging Face evaluate; `evaluate.load` copies this file and runs the copy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import datasets
import evaluate

import refaug

_DESCRIPTION: Final = """\
How good replies are when many different replies would have been fine: BLEU and other metrics against several
references, also weighted ones that refaug retrieves from a log of dialogues and rates (upsilon-bleu).
"""
_INPUTS: Final = """\
predictions: a list of replies
references: for each reply a list of texts, or of objects {"text": …, "weight": …}, or one text
utterances: for each reply what it answers, for metrics that look at it and for index=…
metric: a metric of refaug, such as "bleu" or "upsilon-bleu:n=4"; else the name of the configuration
index, rater, home, settings, draws, percent and the other arguments of refaug.score
Returns the corpus score under the metric's name, `<metric>_mean`, `<metric>_replies` and `<metric>_signature`.
"""
_DEFAULT: Final = "default"  # the configuration of evaluate.load without a name


class RefaugEvaluate(evaluate.Metric):  # type: ignore[misc, unused-ignore]
    """`evaluate.load(EVALUATE_MODULE, "upsilon-bleu").compute(predictions=…, references=…)`."""

    def _info(self) -> Any:
        text = datasets.Value("string")
        weighted = {"text": text, "weight": datasets.Value("float64")}
        return evaluate.MetricInfo(
            description=_DESCRIPTION,
            citation="",
            inputs_description=_INPUTS,
            features=[
                datasets.Features({"predictions": text, "references": references})
                for references in ([text], [weighted], text)
            ],
        )

    def _compute(
        self,
        predictions: Sequence[str],
        references: Sequence[Any],
        metric: str | None = None,
        utterances: Sequence[str] | None = None,
        **options: Any,
    ) -> dict[str, object]:
        chosen = metric or (None if self.config_name == _DEFAULT else self.config_name)
        scores = refaug.score(
            predictions=list(predictions),
            references=[[own] if isinstance(own, str) else list(own) for own in references],
            utterances=None if utterances is None else list(utterances),
            metric=chosen,
            **options,
        )
        computed: dict[str, object] = {}
        for scored in scores:
            system = scored.systems[next(iter(scored.systems))]
            computed |= {
                scored.metric: system.corpus,
                f"{scored.metric}_mean": system.mean,
                f"{scored.metric}_replies": system.replies,
                f"{scored.metric}_signature": scored.signature,
            }
        return computed
