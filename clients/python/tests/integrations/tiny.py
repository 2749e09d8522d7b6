"""Models and tokenizers of a few thousand weights, made here: they say nonsense, in words that the references have."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast, T5Config, T5ForConditionalGeneration

TEMPLATE = (
    "{% for m in messages %}{{ '<bos> ' + m['role'] + ' ' + m['content'] + ' <eos> ' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<bos> assistant ' }}{% endif %}"
)


def tokenizer_of(texts: Iterable[str]) -> PreTrainedTokenizerFast:
    """One token for each word of the texts."""
    words = sorted({word for text in texts for word in text.split()} | {"user", "assistant", "system"})
    vocabulary = {word: number for number, word in enumerate(["<pad>", "<bos>", "<eos>", "<unk>", *words])}
    made = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    made.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=made,
        pad_token="<pad>",
        bos_token="<bos>",
        eos_token="<eos>",
        unk_token="<unk>",
        padding_side="left",
        clean_up_tokenization_spaces=False,
    )
    tokenizer.chat_template = TEMPLATE
    return tokenizer


def causal(tokenizer: Any, seed: int = 0, **more: Any) -> LlamaForCausalLM:
    """A decoder."""
    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=2,
        max_position_embeddings=128,
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        initializer_range=0.5,
        **more,
    )
    return LlamaForCausalLM(config)


def encoder_decoder(tokenizer: Any, seed: int = 0) -> T5ForConditionalGeneration:
    """An encoder with a decoder."""
    torch.manual_seed(seed)
    config = T5Config(
        vocab_size=len(tokenizer),
        d_model=16,
        d_kv=8,
        d_ff=32,
        num_layers=1,
        num_decoder_layers=1,
        num_heads=2,
        pad_token_id=tokenizer.pad_token_id,
        eos_token_id=tokenizer.eos_token_id,
        decoder_start_token_id=tokenizer.pad_token_id,
        initializer_factor=5.0,
    )
    return T5ForConditionalGeneration(config)
