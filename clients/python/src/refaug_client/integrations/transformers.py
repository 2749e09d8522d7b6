"""Scores at every evaluation of a Hugging Face Trainer: of replies that a callback generates, or of predictions.

`ScoreReplies` works with any Trainer of a model that generates. `ReplyMetrics` is for Seq2SeqTrainer with
`predict_with_generate=True`, which generates by itself. On several ranks, rank 0 alone asks the server, and an error
there is raised on all of them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Callable, Optional, Union

import torch
from transformers import Trainer, TrainerCallback

from refaug_client._core import errors
from refaug_client.integrations.distributed import ScoreMetric, ScoreOfAll, rank_and_ranks

Prompt = Union[str, Sequence[Mapping[str, Any]]]  # a text, or the messages of a conversation
Generate = Callable[[Any, Any, list[Prompt]], list[str]]


class ScoreReplies(TrainerCallback):  # type: ignore[misc,unused-ignore]  # its base is Any where it is not installed
    """Generates a reply to each prompt whenever the Trainer evaluates, and adds their score to its metrics.

        prompts = {"d1": "Where do you buy tea?", "d2": "Who sells bread at noon?"}  # by the items' ids
        ScoreReplies(scorer, prompts, max_new_tokens=40).add_to(trainer)
        trainer.train()  # logs eval_upsilon-bleu, for the trackers, the best model and early stopping, too

    Every rank generates its share. Generating does not touch the random state of the training, so that a run is the
    same with the callback and without. Texts are given to the tokenizer as they are, messages with its chat template;
    `generate(model, processing_class, prompts)` replaces that, as sharded models need. `generation` goes to
    `model.generate`, which is greedy by default.
    """

    def __init__(
        self,
        scorer: Any,
        prompts: Mapping[str, Prompt],
        *,
        name: Optional[str] = None,
        batch: int = 16,
        generate: Optional[Generate] = None,
        **generation: Any,
    ) -> None:
        if not prompts:
            raise errors.Usage("no prompts to generate replies to", remedy="{item: utterance, …}")
        if batch < 1:
            raise errors.Usage(f"batch={batch}: at least one prompt at a time is needed", remedy="1 or more")
        if generate is not None and generation:
            raise errors.Usage(
                f"{', '.join(generation)}: the given generate=… decides how", remedy="one of the two, not both"
            )
        self.scorer = scorer
        self.prompts = dict(prompts)
        self.name = name
        self.batch = batch
        self.generate = generate
        self.generation = {"do_sample": False, **generation}
        self.last: Optional[ScoreOfAll] = None  # what the last evaluation found, signature and all
        self._trainer: Optional[Trainer] = None
        self._scored_at = -1

    def add_to(self, trainer: Trainer) -> ScoreReplies:
        """Add the callback before the trainer's others, so that early stopping sees the score, and return it."""
        trainer.add_callback(self)
        callbacks = trainer.callback_handler.callbacks
        callbacks.insert(0, callbacks.pop(callbacks.index(self)))
        self._trainer = trainer
        return self

    def on_init_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Refuse to be listed as a callback, which cannot reach the trainer's log."""
        raise errors.Usage("ScoreReplies in callbacks=[…]", remedy="ScoreReplies(…).add_to(trainer)")

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Count steps anew."""
        self._scored_at = -1

    def on_evaluate(
        self, args: Any, state: Any, control: Any, metrics: Optional[dict[str, object]] = None, **_: Any
    ) -> None:
        """Generate, score and log; once a step, however many data sets are evaluated at it."""
        trainer = self._trainer
        assert trainer is not None
        is_new = not trainer.is_in_train or self._scored_at != state.global_step
        if is_new or self.last is None:
            self.last, self._scored_at = self._score(trainer), state.global_step
        eval_metrics = _as_metrics(self.last, f"eval_{self.name or self.last.metric}")
        if metrics is not None:
            metrics.update(eval_metrics)
        if is_new:
            trainer.log(dict(eval_metrics))

    def _score(self, trainer: Trainer) -> ScoreOfAll:
        """Return the score of the model's present replies."""
        rank, ranks = rank_and_ranks()
        items = list(self.prompts)
        mine = range(rank, len(items), ranks)
        # A sharded model waits until every rank calls it: a rank with a prompt less repeats its last one, or any.
        padded = [*mine, *(mine[-1:] or [0])][: math.ceil(len(items) / ranks)]
        with _evaluation_mode(trainer.model):
            replies = self._replies(trainer, [self.prompts[items[at]] for at in padded])[: len(mine)]
        metric = ScoreMetric(self.scorer)
        metric.update(replies, items=[items[at] for at in mine], positions=mine)
        return metric.compute()

    def _replies(self, trainer: Trainer, prompts: list[Prompt]) -> list[str]:
        model = trainer.accelerator.unwrap_model(trainer.model)
        replies: list[str] = []
        for at in range(0, len(prompts), self.batch):
            batch_prompts = prompts[at : at + self.batch]
            with torch.no_grad():  # a model may keep tensors of its first forward, to train with
                if self.generate is not None:
                    batch_replies = list(self.generate(model, trainer.processing_class, batch_prompts))
                else:
                    batch_replies = generated(model, trainer.processing_class, batch_prompts, **self.generation)
            if len(batch_replies) != len(batch_prompts):
                raise errors.Usage(
                    f"generate=… gave {len(batch_replies)} replies to {len(batch_prompts)} prompts",
                    remedy="one for each",
                )
            replies += batch_replies
        return replies


def generated(model: Any, processing_class: Any, prompts: Sequence[Prompt], **generation: Any) -> list[str]:
    """Return the replies that a model generates to texts or conversations."""
    tokenizer = getattr(processing_class, "tokenizer", processing_class)
    if tokenizer is None:
        raise errors.Usage("the trainer has no tokenizer", remedy="Trainer(…, processing_class=tokenizer)")
    texts = [
        prompt
        if isinstance(prompt, str)
        else tokenizer.apply_chat_template(list(prompt), tokenize=False, add_generation_prompt=True)
        for prompt in prompts
    ]
    templated = any(
        not isinstance(prompt, str) for prompt in prompts
    )  # the chat template has the special tokens already
    is_encoder_decoder = bool(getattr(model.config, "is_encoder_decoder", False))
    inputs = tokenizer(
        texts,
        return_tensors="pt",
        padding=True,
        padding_side="right"
        if is_encoder_decoder
        else "left",  # what is generated has to follow the prompt, not its padding
        add_special_tokens=not templated,
        return_token_type_ids=False,
    ).to(model.device)
    if tokenizer.pad_token_id is not None:
        generation = {"pad_token_id": tokenizer.pad_token_id, **generation}
    tokens = model.generate(**inputs, **generation)
    first_token = 0 if is_encoder_decoder else inputs["input_ids"].shape[1]
    replies: list[str] = tokenizer.batch_decode(tokens[:, first_token:], skip_special_tokens=True)
    return replies


@contextmanager
def _evaluation_mode(model: Any) -> Iterator[None]:
    """Put the model into evaluation mode, and restore its mode and all random states afterwards."""
    training = model.training
    devices = [model.device] if model.device.type == "cuda" else []
    with torch.random.fork_rng(devices=devices):
        model.eval()
        try:
            yield
        finally:
            model.train(training)


class ReplyMetrics:
    """`compute_metrics` of Seq2SeqTrainer: the score of what it has generated for its evaluation data.

        args = Seq2SeqTrainingArguments(…, predict_with_generate=True)
        metrics = ReplyMetrics(scorer, tokenizer, items=data["item"], args=args)
        trainer = Seq2SeqTrainer(model, args, eval_dataset=data, compute_metrics=metrics, …)

    `items` are the ids in the order of the evaluation data. `args` are checked for settings that would change the order
    of the predictions. For models that repeat the prompt before the reply, use `ScoreReplies`.
    """

    def __init__(
        self,
        scorer: Any,
        processing_class: Any,
        items: Sequence[str],
        *,
        args: Any = None,
        name: Optional[str] = None,
    ) -> None:
        self.scorer = scorer
        self.tokenizer = getattr(processing_class, "tokenizer", processing_class)
        self.items = list(items)
        self.name = name
        self.last: Optional[ScoreOfAll] = None
        self._replies: list[str] = []
        if args is not None:
            _require_generated_in_order(args)

    def __call__(self, prediction: Any, compute_result: Optional[bool] = None) -> dict[str, float]:
        """Return the metrics of all predictions; with `batch_eval_metrics`, of all batches when the last one came."""
        self._replies += self._decode(prediction.predictions)
        if compute_result is False:
            return {}
        replies, self._replies = self._replies, []
        replies = self._without_padding(replies)
        metric = ScoreMetric(self.scorer)
        if rank_and_ranks()[0] == 0:  # every rank has all predictions
            metric.update(replies, items=self.items, positions=range(len(replies)))
        self.last = metric.compute()
        return _as_metrics(self.last, self.name or self.last.metric)

    def _decode(self, predictions: Any) -> list[str]:
        ids = predictions[0] if isinstance(predictions, tuple) else predictions
        if len(ids.shape) != 2:
            raise errors.Usage(
                f"predictions of shape {tuple(ids.shape)} are not generated tokens",
                remedy="Seq2SeqTrainer with predict_with_generate=True, or ScoreReplies for another Trainer",
            )
        pad = self.tokenizer.pad_token_id
        rows = [[int(token) if token >= 0 else pad for token in row] for row in ids]  # -100 fills up rows
        texts: list[str] = self.tokenizer.batch_decode(rows, skip_special_tokens=True)
        return texts

    def _without_padding(self, replies: list[str]) -> list[str]:
        """Return the replies to the data; on several ranks, the first rows pad the last batch."""
        extra = len(replies) - len(self.items)
        if extra < 0 or (extra > 0 and rank_and_ranks()[1] == 1):
            raise errors.Usage(
                f"{len(replies)} predictions and {len(self.items)} items", remedy="items=… of the evaluation data"
            )
        return replies[: len(self.items)]


def _require_generated_in_order(args: Any) -> None:
    if not getattr(args, "predict_with_generate", False):
        raise errors.Usage(
            "these arguments have the Trainer predict tokens after the right ones, not generate replies",
            remedy="Seq2SeqTrainingArguments(predict_with_generate=True)",
        )
    if getattr(args, "train_sampling_strategy", "") == "group_by_length" or getattr(args, "group_by_length", False):
        raise errors.Usage(
            "evaluation grouped by length has another order than the data", remedy="no grouping, or ScoreReplies"
        )


def _as_metrics(score: ScoreOfAll, name: str) -> dict[str, float]:
    """Return the numbers that a Trainer logs; NaN where there is no score."""
    return {
        name: math.nan if score.corpus is None else score.corpus,
        f"{name}_mean": math.nan if score.mean is None else score.mean,
        f"{name}_unscored": float(score.unscored + score.unavailable),
    }
