"""Train a model on rewards with TRL's GRPOTrainer.

REFAUG_URL=http://127.0.0.1:8000 python reward_in_trl.py

The model and its words are made here, so that the example runs anywhere within seconds; yours come from
`from_pretrained`. Everything else stays as it is.
"""

from __future__ import annotations

import tempfile
from typing import Any

from datasets import Dataset
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
from trl import GRPOConfig, GRPOTrainer

from refaug_client import Client
from refaug_client.integrations.trl import RewardFunction

ITEMS = [
    {
        "id": "tea",
        "utterance": "would you like some tea ?",
        "references": ["yes please", {"text": "no thanks , i have coffee", "weight": 0.6}],
    },
    {
        "id": "bus",
        "utterance": "when does the bus leave ?",
        "references": ["in ten minutes", {"text": "i like the bus", "weight": -0.7}],
    },
]


def main(steps: int = 4) -> None:
    with Client() as refaug, tempfile.TemporaryDirectory() as folder:
        train = refaug.sets.freeze(ITEMS, purpose="train", references="given")
        reward = refaug.reward(reference_set=train.id, metric="delta-bleu", on_unavailable="mask")
        model, tokenizer = small_model()
        trainer = GRPOTrainer(
            model,
            reward_funcs=RewardFunction(reward),
            train_dataset=Dataset.from_list([{"prompt": item["utterance"], "item": item["id"]} for item in ITEMS]),
            processing_class=tokenizer,
            args=GRPOConfig(
                output_dir=folder,
                use_cpu=True,
                bf16=False,
                report_to="none",
                max_steps=steps,
                logging_steps=1,
                per_device_train_batch_size=8,
                num_generations=4,
                max_completion_length=6,
                save_strategy="no",
                disable_tqdm=True,
            ),
        )
        trainer.train()
        for logged in trainer.state.log_history:
            if "reward" in logged:
                masked = logged["refaug/masked"]
                print(f"step {logged['step']}: mean reward {logged['reward']:.4f}, {masked:.0f} masked")
        print(reward.signature)
        print(reward.counts)
        reward.close()


def small_model() -> tuple[Any, Any]:
    """A decoder of one layer over the words of the items."""
    texts = [item["utterance"] for item in ITEMS]
    texts += [one if isinstance(one, str) else one["text"] for item in ITEMS for one in item["references"]]
    words = ["<pad>", "<eos>", "<unk>", *sorted({word for text in texts for word in text.split()})]
    word_tokenizer = Tokenizer(models.WordLevel({word: number for number, word in enumerate(words)}, unk_token="<unk>"))
    word_tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=word_tokenizer, pad_token="<pad>", eos_token="<eos>", unk_token="<unk>", padding_side="left"
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
