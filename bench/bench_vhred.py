"""How fast a VHRED of the preset base encodes texts and trains, on one thread.

    python bench/bench_vhred.py --data FOLDER

Texts are turns of `logs/dailydialog_en.jsonl.gz` in `--data`, with a vocabulary trained on them. Beside it, in the same
run, torch's own Bi-GRU of the same size over padded batches, without normalisation and without a reader of turns.
Results go to bench/results/vhred.json.
"""

from __future__ import annotations

import argparse
import gzip
import resource
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import numpy as np
import orjson
import torch
from common import add_data_option, median, require_data, write_result
from torch import nn

from refaug.core.text.sentencepiece_tokenizer import SentencePieceTokenizer, open_sentencepiece
from refaug.core.text.tokenizer_training import TokenizerTraining, train_sentencepiece
from refaug.rater.adem.pretraining.build import PretrainingTask
from refaug.rater.adem.pretraining.dialogues import CodedDialogues, DialogueWindows, WindowSettings
from refaug.rater.adem.vhred.artefact import Vhred
from refaug.rater.adem.vhred.network import new_vhred
from refaug.rater.adem.vhred.sizes import PRESETS, VhredConfig

TEXTS: Final = 5_000
STEPS: Final = 10
RUNS: Final = 3


def read_dialogues(folder: Path) -> list[list[str]]:
    """Return the turns of all dialogues."""
    with gzip.open(folder / "logs/dailydialog_en.jsonl.gz", "rb") as lines:
        return [orjson.loads(line)["turns"] for line in lines]


def seconds_of(work: Callable[[], Any]) -> float:
    """Return the median processor time of some runs, which other work on the machine hardly changes."""
    times = list[float]()
    for _ in range(RUNS):
        began = time.process_time()
        work()
        times.append(time.process_time() - began)
    return median(times)


def encode_plainly(tokenizer: SentencePieceTokenizer, texts: list[str], config: VhredConfig) -> None:
    """Read texts with torch's Bi-GRU, in padded batches of like length."""
    embedding = nn.Embedding(config.vocabulary, config.embedding)
    reader = nn.GRU(config.embedding, config.utterance, batch_first=True, bidirectional=True)
    coded = sorted((tokenizer.encode_ids_batch([text])[0][: config.max_tokens] or [1] for text in texts), key=len)
    with torch.inference_mode():
        for begin in range(0, len(coded), 512):
            batch = [torch.tensor(ids) for ids in coded[begin : begin + 512]]
            reader(embedding(nn.utils.rnn.pad_sequence(batch, batch_first=True)))


def training_windows(tokenizer: SentencePieceTokenizer, dialogues: list[list[str]], end: int) -> list[DialogueWindows]:
    """Return the windows to train on and to validate on."""
    turns = [ids[:64] or [1] for dialogue in dialogues for ids in tokenizer.encode_ids_batch(dialogue)]
    corpus = CodedDialogues(
        pieces=np.array([piece for ids in turns for piece in ids], np.uint16),
        start=np.cumsum([0, *map(len, turns)], dtype=np.int64),
        first=np.cumsum([0, *map(len, dialogues)], dtype=np.int64),
        keys=np.arange(len(dialogues), dtype=np.uint64),
    )
    return [DialogueWindows(corpus, WindowSettings(), is_validation=side, end=end) for side in (False, True)]


def main() -> None:
    """Measure and write the result."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_data_option(parser)
    torch.set_num_threads(1)
    dialogues = [turns for turns in read_dialogues(require_data(parser, parser.parse_args().data)) if len(turns) > 1]
    texts = list(dict.fromkeys(turn for turns in dialogues for turn in turns))[:TEXTS]
    with tempfile.TemporaryDirectory() as folder:
        path, sizes = Path(folder) / "pieces.model", PRESETS["base"]
        train_sentencepiece(texts, path, TokenizerTraining(vocab_size=sizes.pieces, method="bpe", at_most=True))
        tokenizer = open_sentencepiece(path)
        config = VhredConfig(vocabulary=tokenizer.vocab_size + 1)
        network = new_vhred(config, 1, None)
        vhred = Vhred(network, tokenizer)
        encoding = seconds_of(lambda: vhred.encode([[text] for text in texts]))
        plain = seconds_of(lambda: encode_plainly(tokenizer, texts, config))
        windows, validation = training_windows(tokenizer, dialogues, config.end)
        task = PretrainingTask(network.train(), windows, validation, 1, "cpu")
        batches = [batch for _, batch in zip(range(STEPS), windows.batches(1), strict=False)]
        training = seconds_of(lambda: [task.evaluate_batch(batch).loss.backward() for batch in batches])
    figures = {
        "preset": "base",
        "texts": len(texts),
        "texts_a_second": round(len(texts) / encoding),
        "plain_gru_texts_a_second": round(len(texts) / plain),
        "turns_trained_a_second": round(sum(len(batch.before) for batch in batches) / training),
        "seconds_a_step_of_64_windows": round(training / len(batches), 3),
        "peak_memory_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10,
    }
    print(orjson.dumps(figures, option=orjson.OPT_INDENT_2).decode())
    print(write_result("vhred", figures, ("refaug", "torch", "numpy", "sentencepiece")))


if __name__ == "__main__":
    main()
