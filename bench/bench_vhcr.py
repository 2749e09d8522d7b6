"""How fast a VHCR trains beside a VHRED of the same sizes, on one thread.

    python bench/bench_vhcr.py --data FOLDER

Both read the same windows of `logs/dailydialog_en.jsonl.gz` in `--data`, of up to ten turns, and take the same steps of
Adam in turn: the VHRED, the VHCR, and the VHCR with heads of emotion and meaning. A share is the median over the runs
of the turns that one trains in a second of processor time, divided by those of the VHRED in the same run.
Results go to bench/results/vhcr.json.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Final

import numpy as np
import orjson
import torch
from bench_vhred import read_dialogues
from common import add_data_option, median, require_data, write_result

from refaug.core.options.decoding import made_of
from refaug.core.text.sentencepiece_tokenizer import open_sentencepiece
from refaug.core.text.tokenizer_training import TokenizerTraining, train_sentencepiece
from refaug.rater.adem.pretraining.build import PretrainingTask
from refaug.rater.adem.pretraining.dialogues import CodedDialogues, DialogueWindows, WindowSettings
from refaug.rater.adem.pretraining.targets import TurnTargets
from refaug.rater.adem.vhred.conversation_sizes import (
    CONVERSATION_SIZES,
    CONVERSATION_TURNS,
    LEAST_TURNS,
    SENTENCE_DROP,
)
from refaug.rater.adem.vhred.network import new_vhred
from refaug.rater.adem.vhred.sizes import PRESETS, VhredConfig

DIALOGUES: Final = 3_000
STEPS: Final = 2
RUNS: Final = 5
CLASSES: Final = 64
NUMBERS: Final = 128


class TrainedNetwork:
    """A network in training, with the windows that it reads."""

    def __init__(self, config: VhredConfig, corpus: CodedDialogues, settings: WindowSettings) -> None:
        network = new_vhred(config, 1, None)
        train, validation = (
            DialogueWindows(corpus, settings, is_validation=side, end=config.end) for side in (False, True)
        )
        targets = None
        if config.has_heads:
            rng, rows = np.random.default_rng(1), np.arange(len(corpus.start) - 1)
            emotion = rng.dirichlet(np.ones(CLASSES), len(rows)).astype(np.float32)
            meaning = rng.normal(size=(len(rows), NUMBERS)).astype(np.float32)
            targets = TurnTargets(rows=rows, emotion=emotion, meaning=meaning)
        self._task = PretrainingTask(network.train(), train, validation, 1_000, "cpu", targets)
        self._adam = torch.optim.Adam(network.parameters(), lr=1e-3)
        self._batches = [batch for _, batch in zip(range(STEPS), train.batches(1), strict=False)]
        self.turns = sum(len(batch.before) for batch in self._batches)

    def turns_a_second(self) -> float:
        """Train on the batches once more; return the turns in a second of processor time."""
        began = time.process_time()
        for batch in self._batches:
            self._adam.zero_grad(set_to_none=True)
            self._task.evaluate_batch(batch).loss.backward()
            torch.nn.utils.clip_grad_norm_(self._task.model.parameters(), 1.0)
            self._adam.step()
        return self.turns / (time.process_time() - began)


def measure(preset: str, dialogues: list[list[str]]) -> dict[str, object]:
    """Return the speed of each network of a preset."""
    sizes = PRESETS[preset]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "pieces.model"
        texts = [turn for turns in dialogues for turn in turns]
        train_sentencepiece(texts, path, TokenizerTraining(vocab_size=sizes.pieces, method="bpe", at_most=True))
        tokenizer = open_sentencepiece(path)
        turns = [ids[: sizes.max_tokens] or [1] for ids in tokenizer.encode_ids_batch(texts)]
    corpus = CodedDialogues(
        pieces=np.array([piece for ids in turns for piece in ids], np.uint16),
        start=np.cumsum([0, *map(len, turns)], dtype=np.int64),
        first=np.cumsum([0, *map(len, dialogues)], dtype=np.int64),
        keys=np.arange(len(dialogues), dtype=np.uint64),
    )
    vhred = made_of(VhredConfig, sizes, vocabulary=tokenizer.vocab_size + 1, turns=CONVERSATION_TURNS)
    vhcr = replace(vhred, conversation=CONVERSATION_SIZES[preset])
    heads = replace(vhcr, emotion=CLASSES, emotion_hidden=128, meaning=NUMBERS, meaning_hidden=128)
    plain = WindowSettings(turns=CONVERSATION_TURNS, batch=sizes.batch, least_turns=LEAST_TURNS)
    dropping = replace(plain, sentence_drop=SENTENCE_DROP)
    networks = {
        "vhred": TrainedNetwork(vhred, corpus, plain),
        "vhcr": TrainedNetwork(vhcr, corpus, dropping),
        "vhcr_with_heads": TrainedNetwork(heads, corpus, dropping),
    }
    for network in networks.values():
        network.turns_a_second()  # unmeasured: the first steps allocate
    runs = [{name: network.turns_a_second() for name, network in networks.items()} for _ in range(RUNS)]
    return {
        "turns": networks["vhred"].turns,
        "windows_a_batch": sizes.batch,
        "turns_a_second": {name: round(median([run[name] for run in runs])) for name in networks},
        "share_of_vhred": {name: round(median([run[name] / run["vhred"] for run in runs]), 3) for name in networks},
    }


def main() -> None:
    """Measure and write the result."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_data_option(parser)
    data = require_data(parser, parser.parse_args().data)
    torch.set_num_threads(1)
    dialogues = [turns for turns in read_dialogues(data) if len(turns) >= LEAST_TURNS][:DIALOGUES]
    figures = {
        "least_share": 0.7,
        "presets": {preset: measure(preset, dialogues) for preset in ("small", "base")},
        "peak_memory_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10,
    }
    print(orjson.dumps(figures, option=orjson.OPT_INDENT_2).decode())
    print(write_result("vhcr", figures, ("refaug", "torch", "numpy", "sentencepiece")))


if __name__ == "__main__":
    main()
