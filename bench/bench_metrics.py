"""How fast the metrics are beside common implementations, in one run on one core.

    python bench/bench_metrics.py --data FOLDER            all parts
    python bench/bench_metrics.py bleu --data FOLDER       reply-level BLEU-2, 17 references each, beside sacrebleu
    python bench/bench_metrics.py greedy --data FOLDER     greedy matching beside the plain loop over pairs
    python bench/bench_metrics.py bootstrap --data FOLDER  1,000 resamples of 5 systems beside recomputing

Results go to bench/results/metrics_<part>.json. Texts are turns of `--data` (`logs/dailydialog_en.jsonl.gz`), and with
`--demo`, or without that log, of the demo log, as the result says. Each text stands once only, so that no cache helps.
"""

from __future__ import annotations

import os

for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ[_variable] = "1"  # before anything is imported that reads them

import argparse
import gzip
import json
import random
import time
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from common import add_data_option, median, require_data, write_result
from sacrebleu.metrics.bleu import BLEU

from refaug.core.vectors.word_vectors import WordVectors
from refaug.logs.demo.generator import DemoSettings, demo_dialogues
from refaug.metrics.base import Level, References
from refaug.metrics.embeddings.embedding import EmbeddingSpace
from refaug.metrics.specification import build
from refaug.metrics.statistics.resampling import bootstrap
from refaug.metrics.words.bleu import Bleu

PACKAGES = ("refaug", "numpy", "numba", "sacrebleu", "scipy")
REPLIES, REFERENCES = 10_000, 17


def texts_of(data_folder: Path, count: int) -> tuple[list[str], str]:
    """Return so many different turns of real dialogues in a seeded order, and the name of their source."""
    source = data_folder / "logs" / "dailydialog_en.jsonl.gz"
    distinct: dict[str, None] = {}
    if source.exists():
        with gzip.open(source, "rt", encoding="utf-8") as lines:
            for line in lines:
                distinct.update(dict.fromkeys(json.loads(line)["turns"]))
        source_name = "dailydialog_en"
    else:
        source_name = "demo log"
    number = 0
    while len(distinct) < count:  # further texts, put together from pieces of these
        number += 1
        rng = random.Random(number)
        pool = list(distinct) or [
            turn.text for dialogue in demo_dialogues(DemoSettings(dialogues=5_000)) for turn in dialogue.turns
        ]
        halves = [text.split() for text in rng.sample(pool, min(len(pool), 40_000))]
        for first_half, second_half in pairwise(halves):
            distinct.setdefault(" ".join(first_half[: len(first_half) // 2] + second_half[len(second_half) // 2 :]))
    texts = list(distinct)[:count]
    random.Random(1).shuffle(texts)
    return texts, source_name


def time_runs(work: Callable[[], Any], runs: int) -> tuple[list[float], Any]:
    """Return the seconds of each run, and the result of the last one."""
    seconds, returned = [], None
    for _ in range(runs):
        began = time.perf_counter()
        returned = work()
        seconds.append(time.perf_counter() - began)
    return seconds, returned


# ── BLEU ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def prepare_tokens(metric: Bleu, references: Sequence[Sequence[Sequence[str]]]) -> Any:
    """Prepare references that are tokens already; the first one of an item is its gold."""
    tokens, sizes = [text for listed in references for text in listed], [len(listed) for listed in references]
    golds = np.zeros(len(sizes), np.int64)
    return metric.prepare_tokens(tokens, sizes, np.arange(len(tokens)), np.ones(len(tokens)), golds)


def bleu(data_folder: Path, runs: int) -> dict[str, Any]:
    """Measure from text, from tokens, and against references prepared once; ours and sacrebleu in turn."""
    texts, source_name = texts_of(data_folder, REPLIES * (REFERENCES + 1))
    replies, rest = texts[:REPLIES], texts[REPLIES:]
    references = [rest[i * REFERENCES : (i + 1) * REFERENCES] for i in range(REPLIES)]
    rng = random.Random(2)
    plain = build("multi-bleu:tok=13a,case=lc")
    weighted = build("delta-bleu:tok=13a,case=lc")
    assert isinstance(plain, Bleu)
    assert isinstance(weighted, Bleu)
    ones = [References.unweighted(listed) for listed in references]
    rated = [References(tuple(listed), (1.0, *(rng.uniform(-1, 1) for _ in listed[1:]))) for listed in references]
    all_rows = np.arange(REPLIES)
    reply_tokens, reference_tokens = plain.tokenize(replies), [plain.tokenize(listed) for listed in references]
    joined = [" ".join(tokens) for tokens in reply_tokens]
    joined_references = [[" ".join(tokens) for tokens in listed] for listed in reference_tokens]
    prepared = plain.prepare(ones)

    def ours_from_text(metric: Bleu, listed: Sequence[References]) -> Any:
        return metric.values(metric.statistics(replies, metric.prepare(listed), all_rows, all_rows), Level.REPLY)

    def ours_from_tokens() -> Any:
        rows = plain.statistics_of_tokens(reply_tokens, prepare_tokens(plain, reference_tokens), all_rows, all_rows)
        return plain.values(rows, Level.REPLY)

    def ours_prepared() -> Any:
        return plain.values(plain.statistics(replies, prepared, all_rows, all_rows), Level.REPLY)

    def ours_prepared_from_tokens() -> Any:
        return plain.values(plain.statistics_of_tokens(reply_tokens, prepared, all_rows, all_rows), Level.REPLY)

    def sacrebleu(tokenizer: str, hypotheses: Sequence[str], listed: Sequence[Sequence[str]]) -> list[float]:
        theirs = BLEU(
            max_ngram_order=2,
            effective_order=True,
            smooth_method="exp",
            tokenize=tokenizer,
            lowercase=tokenizer != "none",
            force=True,
        )
        pairs = zip(hypotheses, listed, strict=True)
        return [theirs.sentence_score(one, ours).score / 100 for one, ours in pairs]

    ours_prepared()  # compiled before the clock starts
    seconds: dict[str, list[float]] = {}
    scores: dict[str, Any] = {}
    for number in range(runs):
        for name, work in {
            "ours_from_text": lambda: ours_from_text(plain, ones),
            "ours_from_text_weighted": lambda: ours_from_text(weighted, rated),
            "sacrebleu_from_text": lambda: sacrebleu("13a", replies, references),
            "ours_from_tokens": ours_from_tokens,
            "sacrebleu_from_tokens": lambda: sacrebleu("none", joined, joined_references),
            "ours_prepared": ours_prepared,
            "ours_prepared_from_tokens": ours_prepared_from_tokens,
        }.items():
            run_seconds, scores[name] = time_runs(work, 1)
            seconds.setdefault(name, []).extend(run_seconds)
        print(f"run {number + 1}: " + ", ".join(f"{name} {s[-1]:.2f} s" for name, s in seconds.items()), flush=True)
    middle = {name: median(values) for name, values in seconds.items()}
    return {
        "texts": source_name,
        "replies": REPLIES,
        "references_each": REFERENCES,
        "seconds": {name: [round(one, 3) for one in values] for name, values in seconds.items()},
        "replies_per_s": {name: round(REPLIES / value) for name, value in middle.items()},
        "from_text_over_sacrebleu": round(middle["sacrebleu_from_text"] / middle["ours_from_text"], 1),
        "from_tokens_over_sacrebleu": round(middle["sacrebleu_from_tokens"] / middle["ours_from_tokens"], 1),
        "from_tokens_over_sacrebleu_from_text": round(middle["sacrebleu_from_text"] / middle["ours_from_tokens"], 1),
        "prepared_over_sacrebleu": round(middle["sacrebleu_from_text"] / middle["ours_prepared"], 1),
        "prepared_from_tokens_over_sacrebleu_from_tokens": round(
            middle["sacrebleu_from_tokens"] / middle["ours_prepared_from_tokens"], 1
        ),
        "weighted_over_unweighted_time": round(middle["ours_from_text_weighted"] / middle["ours_from_text"], 3),
        "largest_difference": max(
            float(np.abs(np.array(scores["sacrebleu_from_text"]) - scores["ours_from_text"]).max()),
            float(np.abs(np.array(scores["sacrebleu_from_tokens"]) - scores["ours_from_tokens"]).max()),
        ),
    }


# ── greedy matching ───────────────────────────────────────────────────────────────────────────────────────────────


def greedy(data_folder: Path, runs: int) -> dict[str, Any]:
    """Measure every reply against its references; ours whole (packing and matching), plain loops over some pairs."""
    timed_replies = 300
    texts, source_name = texts_of(data_folder, REPLIES * (REFERENCES + 1))
    metric = build("bleu")
    assert isinstance(metric, Bleu)
    tokens = metric.tokenize(texts)
    counts = Counter(word for listed in tokens for word in listed)
    words = [word for word, _ in counts.most_common(5_000)]
    matrix = np.random.default_rng(1).standard_normal((len(words), 200)).astype(np.float32)
    vectors = WordVectors(words=words, matrix=matrix)
    reply_tokens, reference_tokens = tokens[:REPLIES], tokens[REPLIES:]
    reply_of = np.repeat(np.arange(REPLIES), REFERENCES)
    reference_of = np.arange(REPLIES * REFERENCES)

    def ours() -> Any:
        space = EmbeddingSpace(vectors)
        return space.pair_scores(space.pack(reply_tokens), space.pack(reference_tokens), reply_of, reference_of)

    row = {word: one / np.linalg.norm(one) for word, one in zip(words, matrix, strict=True)}

    def known(listed: Sequence[str]) -> list[Any]:
        return [row[word] for word in listed if word in row]

    def one_way(words: list[Any], other_words: list[Any]) -> float:
        """Every word of one text with the whole other text: what nlg-eval's loop does."""
        table = np.array(other_words).T
        return sum(float(np.max(vector @ table)) for vector in words) / len(words)

    def over(match: Callable[[list[Any], list[Any]], float]) -> list[float]:
        scores = []
        for i in range(timed_replies):
            reply = known(reply_tokens[i])
            for listed in reference_tokens[i * REFERENCES : (i + 1) * REFERENCES]:
                reference = known(listed)
                scores.append(match(reply, reference) if reply and reference else float("nan"))
        return scores

    def by_word(words: list[Any], other_words: list[Any]) -> float:
        return (one_way(words, other_words) + one_way(other_words, words)) / 2

    def by_pair(words: list[Any], other_words: list[Any]) -> float:
        table = np.array(words) @ np.array(other_words).T
        return float(table.max(axis=1).mean() + table.max(axis=0).mean()) / 2

    ours()
    seconds: dict[str, list[float]] = {"ours": [], "loop_by_word": [], "loop_by_pair": []}
    for number in range(runs):
        run_seconds, values = time_runs(ours, 1)
        seconds["ours"] += run_seconds
        for name, match in (("loop_by_word", by_word), ("loop_by_pair", by_pair)):
            run_seconds, plain = time_runs(lambda match=match: over(match), 1)
            seconds[name] += [run_seconds[0] * REPLIES / timed_replies]
        print(f"run {number + 1}: " + ", ".join(f"{name} {s[-1]:.2f} s" for name, s in seconds.items()), flush=True)
    middle = {name: median(found) for name, found in seconds.items()}
    return {
        "texts": source_name,
        "replies": REPLIES,
        "references_each": REFERENCES,
        "dimensions": 200,
        "vocabulary": len(words),
        "seconds": {name: [round(one, 3) for one in found] for name, found in seconds.items()},
        "loops_timed_on_replies": timed_replies,
        "ratio_to_loop_by_word": round(middle["loop_by_word"] / middle["ours"], 1),
        "ratio_to_loop_by_pair": round(middle["loop_by_pair"] / middle["ours"], 1),
        "largest_difference": float(np.nanmax(np.abs(values[: len(plain)] - np.array(plain)))),
    }


# ── bootstrap ─────────────────────────────────────────────────────────────────────────────────────────────────────


def resampling(data_folder: Path, runs: int) -> dict[str, Any]:
    """Measure intervals of five systems from stored statistics, beside scoring every resample again from its tokens."""
    systems, segments, draws, recomputed = 5, 10_000, 1_000, 3
    texts, source_name = texts_of(data_folder, segments * (systems + 1))
    metric = build("bleu")
    assert isinstance(metric, Bleu)
    tokens = metric.tokenize(texts)
    references = [[one] for one in tokens[:segments]]
    replies = {f"system-{n}": tokens[(n + 1) * segments : (n + 2) * segments] for n in range(systems)}
    rows = np.arange(segments)
    prepared = prepare_tokens(metric, references)
    statistics = {name: metric.statistics_of_tokens(one, prepared, rows, rows) for name, one in replies.items()}

    def stored() -> Any:
        return bootstrap(statistics, metric.value_of_sums, draws=draws, seed=1)

    def again() -> list[float]:
        drawn = np.random.default_rng(1).integers(0, segments, segments)
        corpus_scores = []
        for system_tokens in replies.values():
            chosen = prepare_tokens(metric, [references[i] for i in drawn])
            sums = metric.statistics_of_tokens([system_tokens[i] for i in drawn], chosen, rows, rows).sum(axis=0)
            corpus_scores.append(float(metric.values(sums, Level.CORPUS)))
        return corpus_scores

    stored()
    ours, theirs = list[float](), list[float]()
    for number in range(runs):
        ours += time_runs(stored, 1)[0]
        theirs += [seconds * draws for seconds in time_runs(again, recomputed)[0]]
        print(f"run {number + 1}: stored {ours[-1]:.2f} s, recomputing {theirs[-1]:.1f} s", flush=True)
    return {
        "texts": source_name,
        "systems": systems,
        "segments": segments,
        "draws": draws,
        "stored_s": [round(one, 3) for one in ours],
        "recomputing_s_extrapolated": [round(one, 1) for one in theirs],
        "recomputing_draws_timed_each_run": recomputed,
        "ratio": round(median(theirs) / median(ours), 1),
    }


PARTS = {"bleu": bleu, "greedy": greedy, "bootstrap": resampling}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", nargs="?", choices=PARTS)
    add_data_option(parser)
    parser.add_argument("--demo", action="store_true", help="measure on the demo log, without --data")
    parser.add_argument("--runs", type=int, default=3)
    arguments = parser.parse_args()
    data_folder = Path() if arguments.demo else require_data(parser, arguments.data, "; or --demo")
    for name in [arguments.part] if arguments.part else PARTS:
        figures = PARTS[name](data_folder, arguments.runs)
        print(write_result(f"metrics_{name}", figures, PACKAGES))
        print(json.dumps({key: value for key, value in figures.items() if key != "seconds"}, indent=2))


if __name__ == "__main__":
    main()
