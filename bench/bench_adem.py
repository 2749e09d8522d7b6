"""How fast ADEM scores and is fitted, on one thread, with an encoder of the preset base.

    python bench/bench_adem.py --data FOLDER

The encoder's weights are drawn: an encoder that was trained takes as long. Rated replies are those of
`human/dailydialog_zhao` and `human/dailydialog_gupta` in `--data`. 616 of them are scored, as many as the published
test set had, each time with their texts encoded anew. The scorer is fitted to four fifths of the contexts, with early
stopping and for 200 epochs, after all texts are encoded. Times are of the clock and of the processor. Results go to
bench/results/adem.json.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import orjson
import torch
from common import add_data_option, median, require_data, write_result

from refaug.core.text.sentencepiece_tokenizer import open_sentencepiece
from refaug.core.text.tokenizer_training import TokenizerTraining, train_sentencepiece
from refaug.extras.reproduction.learned.learners import context_folds
from refaug.extras.reproduction.learned.rated_rows import LearnedRows, learned_sets
from refaug.extras.reproduction.material.rated_sets import read_sets
from refaug.rater.adem.scorer.adem import Adem
from refaug.rater.adem.scorer.fitting import VectorCache, fit_scorer
from refaug.rater.adem.scorer.rated_triples import Form
from refaug.rater.adem.scorer.settings import ScorerSettings
from refaug.rater.adem.vhred.artefact import Vhred
from refaug.rater.adem.vhred.network import new_vhred
from refaug.rater.adem.vhred.sizes import PRESETS, VhredConfig

TRIPLES: Final = 616
RUNS: Final = 5
SETS: Final = ("dailydialog_zhao", "dailydialog_gupta")
STATE: Final = "context"


def seconds_of(work: Callable[[], Any]) -> dict[str, float]:
    """Return the median seconds of some runs, by the clock and of the processor."""
    wall, processor = list[float](), list[float]()
    for _ in range(RUNS):
        began, began_processor = time.perf_counter(), time.process_time()
        work()
        wall.append(time.perf_counter() - began)
        processor.append(time.process_time() - began_processor)
    return {"wall": round(median(wall), 3), "processor": round(median(processor), 3)}


def drawn_encoder(texts: list[str], folder: Path) -> Vhred:
    """Return an encoder of the preset base with drawn weights, its pieces learned from the texts."""
    path, sizes = folder / "pieces.model", PRESETS["base"]
    train_sentencepiece(texts, path, TokenizerTraining(vocab_size=sizes.pieces, method="bpe", at_most=True))
    tokenizer = open_sentencepiece(path)
    config = VhredConfig(vocabulary=tokenizer.vocab_size + 1, cell="random")
    return Vhred(new_vhred(config, 1, 0.01), tokenizer)


def main() -> None:
    """Measure and write the result."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_data_option(parser)
    torch.set_num_threads(1)
    sets = read_sets(require_data(parser, parser.parse_args().data), SETS)
    rows = LearnedRows.joined([learned.fair_rows for learned in learned_sets(sets, Form.FULL)])
    triples = rows.rated.triples
    texts = list(dict.fromkeys(text for each in triples for text in (*each.context, each.reference, each.reply)))
    with tempfile.TemporaryDirectory() as folder:
        encoder = drawn_encoder(texts, Path(folder))
        encoding = seconds_of(lambda: encoder.encode([[text] for text in texts]))
        cache = VectorCache(encoder, STATE)
        is_learnt = np.ones(len(rows), dtype=np.bool_)
        is_learnt[context_folds(rows.rated.contexts, 5, 1)[0]] = False
        learnt = rows.select(np.flatnonzero(is_learnt)).rated
        vectors = cache.triple_vectors(learnt.triples, Form.FULL)
        settings = ScorerSettings(form=Form.FULL, state=STATE)
        fitted = fit_scorer(learnt, vectors, settings)
        fitting = seconds_of(lambda: fit_scorer(learnt, vectors, settings))
        released = replace(settings, protocol="released", balanced=False)
        whole = seconds_of(lambda: fit_scorer(learnt, vectors, released))
        adem = Adem(fitted.scorer, encoder, state=STATE)
        scoring = seconds_of(lambda: adem.score(triples[:TRIPLES]))
    figures = {
        "preset": "base",
        "threads": 1,
        "texts": len(texts),
        "texts_a_second": round(len(texts) / encoding["processor"]),
        "triples": TRIPLES,
        "seconds_to_score_the_triples": scoring,
        "fold_rows": len(learnt.triples),
        "seconds_to_fit_a_fold": fitting,
        "epochs_of_that_fit": len(fitted.epochs),
        "seconds_to_fit_a_fold_for_200_epochs": whole,
        "peak_memory_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10,
    }
    print(orjson.dumps(figures, option=orjson.OPT_INDENT_2).decode())
    print(write_result("adem", figures, ("refaug", "torch", "numpy", "sentencepiece")))


if __name__ == "__main__":
    main()
