"""Score what a model says at every evaluation of a Hugging Face Trainer, and keep the best of its checkpoints.

REFAUG_URL=http://127.0.0.1:8000 python score_in_trainer.py

The model and its words are made here, so that the example runs anywhere within seconds; yours come from
`from_pretrained`. Everything else stays as it is.
"""

from __future__ import annotations

import tempfile
from typing import Any

from datasets import Dataset
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast, Trainer, TrainingArguments

from refaug_client import Client
from refaug_client.integrations.transformers import ScoreReplies

SAID = {"tea": "would you like some tea ?", "bus": "when does the bus leave ?"}
REPLIED = {"tea": "yes please", "bus": "in ten minutes"}


def main(steps: int = 40) -> None:
    items = [{"id": item, "utterance": SAID[item], "references": [REPLIED[item]]} for item in SAID]
    for test_item in items:
        test_item["references"].append({"text": "i like it", "weight": 0.3})
    with Client() as refaug, tempfile.TemporaryDirectory() as folder:
        validation = refaug.sets.freeze(items, purpose="validation", references="given")
        model, tokenizer = small_model()
        rows = tokenizer([f"{SAID[item]} {REPLIED[item]} <eos>" for item in SAID], padding=True)
        labels = [[word if word else -100 for word in row] for row in rows["input_ids"]]
        dataset = Dataset.from_dict({**rows, "labels": labels})
        trainer = Trainer(
            model,
            TrainingArguments(
                folder,
                use_cpu=True,
                report_to="none",
                max_steps=steps,
                learning_rate=0.01,
                eval_strategy="steps",
                eval_steps=steps // 4,
                save_strategy="steps",
                save_steps=steps // 4,
                load_best_model_at_end=True,
                metric_for_best_model="eval_delta-bleu",
                greater_is_better=True,
                disable_tqdm=True,
            ),
            train_dataset=dataset,
            eval_dataset=dataset,
            processing_class=tokenizer,
        )
        with refaug.scorer(reference_set=validation.id, metric="delta-bleu") as scorer:
            callback = ScoreReplies(scorer, SAID, max_new_tokens=6).add_to(trainer)
            trainer.train()
        for logged in trainer.state.log_history:
            if "eval_delta-bleu" in logged:
                print(f"step {logged['step']}: {logged['eval_delta-bleu']:.4f}")
        print(f"best: {trainer.state.best_metric:.4f}")
        print(callback.last.signature if callback.last else "")


def small_model() -> tuple[Any, Any]:
    """A decoder of one layer over the words of the items."""
    texts = [*SAID.values(), *REPLIED.values()]
    words = ["<pad>", "<eos>", "<unk>", *sorted({word for text in texts for word in text.split()})]
    word_tokenizer = Tokenizer(models.WordLevel({word: number for number, word in enumerate(words)}, unk_token="<unk>"))
    word_tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=word_tokenizer,
        pad_token="<pad>",
        eos_token="<eos>",
        unk_token="<unk>",
        padding_side="left",
        model_input_names=["input_ids", "attention_mask"],
    )
    config = LlamaConfig(
        vocab_size=len(words),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=1,
        num_attention_heads=2,
        pad_token_id=0,
        bos_token_id=None,
        eos_token_id=1,
    )
    return LlamaForCausalLM(config), tokenizer


if __name__ == "__main__":
    main()
