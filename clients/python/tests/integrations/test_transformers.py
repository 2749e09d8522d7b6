"""Scores at the evaluations of the real Trainer and Seq2SeqTrainer."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from beside import Served
from datasets import Dataset
from refusals import refusing
from scripted import problem, scripted
from test_rewards import answering
from tiny import causal, encoder_decoder, tokenizer_of
from transformers import (
    EarlyStoppingCallback,
    EvalPrediction,
    Seq2SeqTrainer,
    Seq2SeqTrainingArguments,
    Trainer,
    TrainingArguments,
)

from refaug_client import Client, Unavailable, Usage
from refaug_client.integrations.transformers import ReplyMetrics, ScoreReplies, generated


def causal_trainer(folder: Path, served_texts: list[str], **more: Any) -> Trainer:
    tokenizer = tokenizer_of(served_texts)
    rows = tokenizer(served_texts[:16], padding="max_length", max_length=8, truncation=True)
    data = Dataset.from_dict({**rows, "labels": rows["input_ids"]})
    settings: dict[str, Any] = {
        "output_dir": str(folder),
        "use_cpu": True,
        "report_to": "none",
        "per_device_train_batch_size": 4,
        "max_steps": 4,
        "eval_strategy": "steps",
        "eval_steps": 2,
        "logging_steps": 1,
        "learning_rate": 0.01,
        "seed": 3,
        "save_strategy": "no",
        "disable_tqdm": True,
    }
    callbacks = more.pop("callbacks", None)
    return Trainer(
        model=causal(tokenizer, attention_dropout=0.3),  # so that training draws random numbers
        args=TrainingArguments(**{**settings, **more}),
        train_dataset=data,
        eval_dataset=data,
        processing_class=tokenizer,
        callbacks=callbacks,
    )


def test_replies_are_generated_and_scored_at_every_evaluation(served: Served, client: Client, tmp_path: Path) -> None:
    trainer = causal_trainer(tmp_path, served.texts)
    with client.scorer(reference_set=served.sets["validation"], metric="upsilon-bleu") as scorer:
        callback = ScoreReplies(scorer, served.prompts, batch=5, max_new_tokens=6).add_to(trainer)
        trainer.train()
        found = [one["eval_upsilon-bleu"] for one in trainer.state.log_history if "eval_upsilon-bleu" in one]
        assert len(found) == 2
        metrics = trainer.evaluate()
        replies = generated(
            trainer.model, trainer.processing_class, list(served.prompts.values()), do_sample=False, max_new_tokens=6
        )
        direct = client.sets.score(
            served.sets["validation"], replies={"m": replies}, items=list(served.prompts), metrics=["upsilon-bleu"]
        )
        assert metrics["eval_upsilon-bleu"] == direct.corpus
        assert metrics["eval_upsilon-bleu_mean"] == pytest.approx(math.fsum(direct.replies) / len(replies))
        assert metrics["eval_upsilon-bleu_unscored"] == 0.0
        assert direct.corpus > 0
        assert callback.last is not None
        assert callback.last.signature == direct.signature
        assert (callback.last.scored, callback.last.metric) == (12, "upsilon-bleu")


def test_a_training_goes_the_same_way_with_and_without_scores(served: Served, client: Client, tmp_path: Path) -> None:
    def history(scored: bool) -> list[float]:
        trainer = causal_trainer(tmp_path, served.texts)
        if scored:
            with client.scorer(reference_set=served.sets["validation"]) as scorer:
                ScoreReplies(scorer, served.prompts, max_new_tokens=4, do_sample=True).add_to(trainer)
                trainer.train()
        else:
            trainer.train()
        return [one["loss"] for one in trainer.state.log_history if "loss" in one]

    without = history(scored=False)
    assert len(without) == 4
    assert history(scored=True) == without


def test_the_model_is_in_training_again_afterwards(served: Served, client: Client, tmp_path: Path) -> None:
    trainer = causal_trainer(tmp_path, served.texts)
    modes: list[tuple[bool, bool, bool]] = []

    def generate(model: Any, tokenizer: Any, prompts: list[Any]) -> list[str]:
        modes.append((model.training, torch.is_grad_enabled(), torch.is_inference_mode_enabled()))
        return ["we like red boats"] * len(prompts)

    trainer.model.train()
    with client.scorer(reference_set=served.sets["validation"]) as scorer:
        callback = ScoreReplies(scorer, served.prompts, generate=generate).add_to(trainer)
        callback.on_evaluate(trainer.args, trainer.state, trainer.control)
    assert modes == [(False, False, False)]  # tensors of an inference mode could not be trained with later
    assert trainer.model.training


def test_several_sets_of_data_are_one_score_a_step(served: Served, client: Client, tmp_path: Path) -> None:
    trainer = causal_trainer(tmp_path, served.texts)
    trainer.eval_dataset = {"one": trainer.eval_dataset, "two": trainer.eval_dataset}
    asked: list[int] = []

    def generate(model: Any, tokenizer: Any, prompts: list[Any]) -> list[str]:
        asked.append(len(prompts))
        return [f"we like red boats {len(asked)}"] * len(prompts)

    with client.scorer(reference_set=served.sets["validation"]) as scorer:
        ScoreReplies(scorer, served.prompts, generate=generate).add_to(trainer)
        trainer.train()
        assert asked == [12, 12]
        assert [one["step"] for one in trainer.state.log_history if "eval_upsilon-bleu" in one] == [2, 4]
        metrics = trainer.evaluate()  # by hand, each is another: the model may have changed
        assert asked == [12] * 4
        assert metrics["eval_upsilon-bleu"] > 0


def test_the_best_model_is_chosen_and_training_stopped_by_the_score(
    served: Served, client: Client, tmp_path: Path
) -> None:
    answers = iter(["we like red boats", "qqq", "qqq", "we like red boats"])

    def generate(model: Any, tokenizer: Any, prompts: list[Any]) -> list[str]:
        return [next(answers)] * len(prompts)

    trainer = causal_trainer(
        tmp_path,
        served.texts,
        callbacks=[EarlyStoppingCallback(early_stopping_patience=2)],
        metric_for_best_model="eval_ours",
        greater_is_better=True,
        load_best_model_at_end=True,
        save_strategy="steps",
        save_steps=2,
        max_steps=20,
    )
    with client.scorer(reference_set=served.sets["validation"]) as scorer:
        ScoreReplies(scorer, served.prompts, name="ours", generate=generate).add_to(trainer)
        trainer.train()
    assert trainer.state.global_step == 6
    assert Path(str(trainer.state.best_model_checkpoint)).name == "checkpoint-2"
    found = [one["eval_ours"] for one in trainer.state.log_history if "eval_ours" in one]
    assert found[0] == trainer.state.best_metric > found[1] == found[2]


def test_conversations_go_through_the_chat_template(served: Served) -> None:
    tokenizer = tokenizer_of(served.texts)
    model = causal(tokenizer)
    talks = [[{"role": "user", "content": text}] for text in list(served.prompts.values())[:3]]
    found = generated(model, tokenizer, talks, do_sample=False, max_new_tokens=5)
    texts = [tokenizer.apply_chat_template(talk, tokenize=False, add_generation_prompt=True) for talk in talks]
    for text, reply in zip(texts, found):
        ids = tokenizer(text, return_tensors="pt", add_special_tokens=False, return_token_type_ids=False)
        alone = model.generate(**ids, do_sample=False, max_new_tokens=5, pad_token_id=tokenizer.pad_token_id)
        assert reply == tokenizer.decode(alone[0, ids["input_ids"].shape[1] :], skip_special_tokens=True)


def test_a_callback_in_a_list_says_how_it_is_added(served: Served, client: Client, tmp_path: Path) -> None:
    with client.scorer(reference_set=served.sets["validation"]) as scorer:
        listed = [ScoreReplies(scorer, served.prompts)]
        with refusing(Usage, "add_to(trainer)"):
            causal_trainer(tmp_path, served.texts, callbacks=listed)


def test_what_makes_no_sense_is_refused_before_training(client: Client) -> None:
    scorer = client.scorer(reference_set="s1")
    with refusing(Usage, "prompts"):
        ScoreReplies(scorer, {})
    with refusing(Usage, "batch=0"):
        ScoreReplies(scorer, {"a": "tea"}, batch=0)
    with refusing(Usage, "max_new_tokens"):
        ScoreReplies(scorer, {"a": "tea"}, generate=lambda *_: [], max_new_tokens=3)
    scorer.close()


def test_too_few_replies_of_a_function_are_an_error(served: Served, client: Client, tmp_path: Path) -> None:
    trainer = causal_trainer(tmp_path, served.texts)
    with client.scorer(reference_set=served.sets["validation"]) as scorer:
        ScoreReplies(scorer, served.prompts, generate=lambda *_: ["tea"]).add_to(trainer)
        with refusing(Usage, 1, 12):
            trainer.evaluate()


def test_silent_server_ends_evaluation_or_is_skipped_as_nan(served: Served, tmp_path: Path) -> None:
    away = answering(fails=lambda number: problem(503, retry_after=0))
    with scripted(away) as server, Client(server.url, retry=0) as client:
        for way in ("raise", "skip"):
            trainer = causal_trainer(tmp_path, served.texts)
            with client.scorer(reference_set="s1", on_unavailable=way) as scorer:
                callback = ScoreReplies(scorer, {"a": "we", "b": "red"}, max_new_tokens=3).add_to(trainer)
                if way == "raise":
                    with pytest.raises(Unavailable):
                        trainer.evaluate()
                else:
                    metrics = trainer.evaluate()
                    assert math.isnan(metrics["eval_upsilon-bleu"])
                    assert metrics["eval_upsilon-bleu_unscored"] == 2.0
                    assert callback.last is not None
                    assert (callback.last.unavailable, callback.last.corpus) == (2, None)


# ── Seq2SeqTrainer ────────────────────────────────────────────────────────────────────────────────────────────────────


def seq2seq_trainer(folder: Path, served: Served, make_metrics: Any, **more: Any) -> Any:
    tokenizer = tokenizer_of(served.texts)
    tokenizer.padding_side = "right"
    asked = tokenizer(list(served.prompts.values()), padding="max_length", max_length=8, truncation=True)
    said = tokenizer(
        [item["references"][0] for item in served.items], padding="max_length", max_length=6, truncation=True
    )
    data = Dataset.from_dict(
        {
            "input_ids": asked["input_ids"],
            "attention_mask": asked["attention_mask"],
            "labels": [[one if one != tokenizer.pad_token_id else -100 for one in row] for row in said["input_ids"]],
        }
    )
    settings = {
        "output_dir": str(folder),
        "use_cpu": True,
        "report_to": "none",
        "per_device_eval_batch_size": 5,  # 12 items: the last batch is smaller
        "predict_with_generate": True,
        "generation_max_length": 7,
        "disable_tqdm": True,
        **more,
    }
    args = Seq2SeqTrainingArguments(**settings)
    return Seq2SeqTrainer(
        model=encoder_decoder(tokenizer),
        args=args,
        eval_dataset=data,
        processing_class=tokenizer,
        compute_metrics=make_metrics(tokenizer, args),
    )


@pytest.mark.parametrize("by_batch", [False, True])
def test_metrics_are_computed_from_what_was_generated(
    by_batch: bool, served: Served, client: Client, tmp_path: Path
) -> None:
    with client.scorer(reference_set=served.sets["validation"], metric="upsilon-bleu") as scorer:

        def make(tokenizer: Any, args: Any) -> ReplyMetrics:
            return ReplyMetrics(scorer, tokenizer, list(served.prompts), args=args)

        trainer = seq2seq_trainer(tmp_path, served, make, batch_eval_metrics=by_batch)
        metrics = trainer.evaluate()
        replies = generated(
            trainer.model, trainer.processing_class, list(served.prompts.values()), do_sample=False, max_length=7
        )
        direct = client.sets.score(
            served.sets["validation"], replies={"m": replies}, items=list(served.prompts), metrics=["upsilon-bleu"]
        )
        assert any(replies)
        assert metrics["eval_upsilon-bleu"] == direct.corpus
        assert trainer.compute_metrics.last.signature == direct.signature
        assert trainer.evaluate()["eval_upsilon-bleu"] == direct.corpus  # nothing of the first is left


def test_arguments_that_do_not_generate_or_reorder_are_refused(tmp_path: Path, client: Client) -> None:
    scorer = client.scorer(reference_set="s1")
    args = Seq2SeqTrainingArguments(output_dir=str(tmp_path), use_cpu=True)
    with refusing(Usage, "predict_with_generate=True"):
        ReplyMetrics(scorer, tokenizer_of(["tea"]), ["a"], args=args)
    args = Seq2SeqTrainingArguments(
        output_dir=str(tmp_path), use_cpu=True, predict_with_generate=True, train_sampling_strategy="group_by_length"
    )
    with refusing(Usage, "length"):
        ReplyMetrics(scorer, tokenizer_of(["tea"]), ["a"], args=args)
    scorer.close()


def test_logits_and_predictions_of_other_data_are_refused(client: Client) -> None:
    scorer = client.scorer(reference_set="s1")
    metrics = ReplyMetrics(scorer, tokenizer_of(["tea"]), ["a", "b"])
    with refusing(Usage, (2, 3, 5)):
        metrics(EvalPrediction(predictions=np.zeros((2, 3, 5)), label_ids=np.zeros((2, 3))))
    with refusing(Usage, 3, 2):
        metrics(EvalPrediction(predictions=np.zeros((3, 5), dtype=int), label_ids=np.zeros((3, 5))))
    assert torch.is_grad_enabled()
    scorer.close()
