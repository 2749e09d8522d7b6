"""What finding and rating references on a cluster costs beside one process: time and processor time.

    python bench/bench_cluster_scoring.py --home FOLDER [--pairs 100000] [--items 4000] [--rounds 3]

The index is of synthetic pairs (bench_cluster.py), in two shards; the rater, with the sizes of the preset base, is
drawn, since its weights change no time. The items are drawn from the texts of the log. `refaug score` runs whole, from
the command's start to its end, by turns: in one process with one thread, in one with two, and on a cluster of Ray on
this machine that has two workers of one core each: `--on local`, which the command starts and ends, and one that runs
already. All of them with one thread a process must print the same bytes. Processor time is that of all processes, of
Ray's own and the starts of workers, too, as in bench_cluster_build.py.
"""

from __future__ import annotations

import argparse
import os
import secrets
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

from bench_cluster import prepare
from bench_cluster_build import NODES, REFAUG, Watch, start_cluster
from common import median, tree_of, write_rated_items, write_result

from refaug.core.artefacts.kinds import artefact_stores
from refaug.core.home import Settings
from refaug.core.text.sentencepiece_tokenizer import open_sentencepiece
from refaug.core.text.tokenizer_training import TokenizerTraining, train_sentencepiece
from refaug.logs.store import StoredLog
from refaug.rater.nn.checkpoint import save_rater
from refaug.rater.nn.model import BiGRURater
from refaug.rater.nn.sizes import RaterConfig

PACKAGES = ("faiss-cpu", "numpy", "numba", "pyarrow", "torch", "ray")
MEASURED = ("-m", "upsilon-bleu", "--draws", "100", "--json")
READ_S = 0.05
TEXTS = 20_000  # pairs of the log that items are drawn from


def main() -> None:
    """Score by turns, and write the result."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--home", type=Path, required=True)
    parser.add_argument("--pairs", type=int, default=100_000)
    parser.add_argument("--items", type=int, default=4_000)
    parser.add_argument("--rounds", type=int, default=3)
    settings = parser.parse_args()
    os.environ |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32), "RAY_USAGE_STATS_ENABLED": "0"}
    texts = prepare_home(settings)
    figures = {"pairs": settings.pairs, "shards": NODES, "workers": NODES, **costs(settings, texts)}
    print(write_result("cluster_scoring", figures, PACKAGES))


def prepare_home(settings: argparse.Namespace) -> list[str]:
    """Make the log, the index and the rater where they are missing; return some texts of the log."""
    prepare(settings.home, settings.pairs)
    home, log = Settings(home=settings.home), f"synthetic-{settings.pairs}"
    pairs = StoredLog.open(home.logs, log).pairs()
    texts = [text for pair, _ in zip(pairs, range(TEXTS), strict=False) for text in (pair.utterance, pair.response)]
    if artefact_stores(home)["index"].current(log) is None:
        build = ["index", "build", log, "--name", log, "--vectors", "synthetic", "--tokenizer", "word"]
        subprocess.run([*REFAUG, "--home", str(settings.home), *build, "--shards", str(NODES)], check=True)
    raters = artefact_stores(home)["rater"]
    if raters.current("drawn") is None:
        folder = settings.home / "drawn"
        folder.mkdir(exist_ok=True)
        train_sentencepiece(iter(texts), folder / "tokenizer.model", TokenizerTraining(vocab_size=8_000, at_most=True))
        tokenizer = open_sentencepiece(folder / "tokenizer.model")
        model = BiGRURater(RaterConfig(vocabulary=tokenizer.vocab_size, embedding=128, hidden=128, width=256))
        save_rater(folder / "rater", model, tokenizer, temperature=1.0, languages=["en"], report={}, details={})
        raters.publish("drawn", raters.add("drawn", folder / "rater"))
    return texts


def costs(settings: argparse.Namespace, texts: Sequence[str]) -> dict[str, Any]:
    """Return seconds and processor seconds of every way, and their ratios."""
    items = write_rated_items(settings.home / f"items-{settings.items}.jsonl", texts, settings.items)
    command = ["score", str(items), "--index", f"synthetic-{settings.pairs}", "--rater", "drawn", *MEASURED]
    cluster = start_cluster()
    try:
        ways = {f"{count}_threads": ["--threads", str(count)] for count in (1, 2)}
        ways |= {"local": ["--on", "local"], "cluster": ["--on", cluster.address]}
        rounds = []
        for number in range(settings.rounds):
            of_round = {way: run(settings, [*command, *arguments], way) for way, arguments in ways.items()}
            if len({of_round[way]["printed"] for way in ("1_threads", "local", "cluster")}) > 1:
                sys.exit("other scores are printed on a cluster than in one process")
            rounds.append(of_round)
            print(number + 1, {way: (of["seconds"], of["cpu_seconds"]) for way, of in of_round.items()}, flush=True)
    finally:
        cluster.shutdown()
    return {
        "items": settings.items,
        "load": os.getloadavg(),
        "rounds": rounds,
        "items_a_second": {way: median([settings.items / of[way]["seconds"] for of in rounds]) for way in ways},
        "cpu_seconds": {way: median([of[way]["cpu_seconds"] for of in rounds]) for way in ways},
        **{
            f"{way}_to_{single}": {
                "throughput": median([of[single]["seconds"] / of[way]["seconds"] for of in rounds]),
                "cpu": median([of[way]["cpu_seconds"] / of[single]["cpu_seconds"] for of in rounds]),
            }
            for way in ("local", "cluster")
            for single in ("1_threads", "2_threads")
        },
    }


def run(settings: argparse.Namespace, command: Sequence[str], way: str = "") -> dict[str, Any]:
    """Run a command; return its seconds, the processor seconds of all processes, a hash of what it printed."""
    ray = tree_of(os.getpid())[1:] if way == "cluster" else []
    digest, is_over, began = sha256(), threading.Event(), time.perf_counter()
    watch = Watch(roots=ray)
    watch.begin()
    with subprocess.Popen([*REFAUG, "--home", str(settings.home), *command], stdout=subprocess.PIPE) as process:
        watch.roots = [*ray, process.pid]

        def sample() -> None:
            while not is_over.wait(READ_S):
                watch.read()

        sampler = threading.Thread(target=sample)
        sampler.start()
        assert process.stdout is not None
        while piece := process.stdout.read(1 << 16):
            digest.update(piece)
        process.wait()
        seconds = time.perf_counter() - began
        is_over.set()
        sampler.join()
    if process.returncode:
        sys.exit(f"{' '.join(command)} has ended with {process.returncode}")
    by_process = watch.seconds()
    by_process["command"] = by_process.pop("other")
    return {
        "seconds": round(seconds, 2),
        "cpu_seconds": round(sum(by_process.values()), 2),
        "cpu_by_process": by_process,
        "printed": digest.hexdigest()[:16],
    }


if __name__ == "__main__":
    main()
