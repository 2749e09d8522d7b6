"""What the statistics of studies are worth: coverage of intervals, power, whom exclusions catch, a published study.

    python bench/bench_study_statistics.py [--data FOLDER] [--part all|figures|model|ordinal|routing]

Everything is simulated from seeds but what needs --data FOLDER, whose dialogues/ji2022_run1.jsonl.gz has the rated
conversations of Ji et al. (2022): the rule of the degraded bot is compared with what the authors left out, and active
routing with balanced pairs on votes that their ratings amount to. Each mixed model and active routing have a part and a
file of results of their own.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any, Final

from common import write_result
from interval_coverage import (
    ORDINAL_DESIGNS,
    RATER_DESIGNS,
    RaterDesign,
    interval_coverage,
    model_coverage,
    ordinal_coverage,
)
from vote_routing import EXPLORED, rated_pairs, routed_coverage, votes_saved

from refaug.extras.studies.exclusions import exclusions
from refaug.extras.studies.imports import imported_conversations
from refaug.extras.studies.questions import protocol_questions
from refaug.extras.studies.simulation.people import SimulatedPeople
from refaug.extras.studies.simulation.rehearsal import rehearse
from refaug.metrics.statistics.power import (
    ratings_needed,
    simulated_rating_power,
    simulated_vote_power,
    votes_needed,
)

RATINGS: Final[Mapping[str, dict[str, Any]]] = {
    "difference_1.0": {"difference": 1.0},
    "difference_0.5": {"difference": 0.5},
    "clustered": {"difference": 0.5, "per_participant": 4, "rho": 0.3},
    "crossed": {"difference": 0.5, "rho": 0.3, "crossed": True},
}
WIN_RATES: Final = {"win_rate_0.65": 0.65, "win_rate_0.60": 0.6}
QUALITIES: Final = {"bot-1": 4.6, "bot-2": 4.2, "bot-3": 3.8, "bot-4": 3.4}
CLOSE: Final = {"bot-1": 4.3, "bot-2": 4.15, "bot-3": 4.0, "bot-4": 3.85}  # bots that are hard to tell apart
STRENGTHS: Final = {  # of bots whose order is sought: logits
    "far": (3.2, 2.4, 1.6, 0.8, 0.0),
    "apart": (2.0, 1.5, 1.0, 0.5, 0.0),
    "closer": (1.2, 0.9, 0.6, 0.3, 0.0),
    "close": (0.6, 0.45, 0.3, 0.15, 0.0),
    "three": (1.2, 0.6, 0.0),
}
_PACKAGES: Final = ("numpy", "scipy")


def simulated_power(studies: int) -> dict[str, Any]:
    """Return the simulated power of six designs at the size that is said to have 80 %."""
    powers = dict[str, Any]()
    for name, design in RATINGS.items():
        n = ratings_needed(**design)
        powers[name] = {"n": n, "power": round(simulated_rating_power(n, **design, studies=studies, seed=1).power, 4)}
    for name, rate in WIN_RATES.items():
        n = votes_needed(rate)
        powers[name] = {"n": n, "power": round(simulated_vote_power(n, rate, studies=studies, seed=1).power, 4)}
    return powers


def recovered(qualities: Mapping[str, float], studies: int) -> dict[str, Any]:
    """Return whom the rules leave out of studies with one careless participant in five, and the order of the bots."""
    rehearsal = rehearse(SimulatedPeople(qualities=qualities), studies=studies, seed=1)
    return {
        "studies": rehearsal["studies"],
        "percent_left_out": {str(kind): round(100 * row["share"], 1) for kind, row in rehearsal["caught"].items()},
        "order_found": {name: round(row["found"], 2) for name, row in rehearsal["order"].items()},
        "spearman": {name: round(row["spearman"], 3) for name, row in rehearsal["order"].items()},
        "balance": rehearsal["balance"],
    }


def published_study(folder: Path) -> dict[str, Any]:
    """Return how many participants the rule leaves out of those that the authors kept and did not keep."""
    study = imported_conversations(folder / "dialogues" / "ji2022_run1.jsonl.gz", study="ji2022_run1")
    assert study.protocol is not None
    questions = protocol_questions(study.protocol, study.tasks)
    left_out = exclusions(study.tasks, study.protocol["exclude"], questions).reasons
    of_authors = {task.participant: bool((task.item or {})["kept_by_authors"]) for task in study.tasks}
    shares = dict[str, Any]()
    for name, is_kept in (("kept_by_authors", True), ("rejected_by_authors", False)):
        people = [participant for participant, kept_there in of_authors.items() if kept_there is is_kept]
        caught = sum(participant in left_out for participant in people)
        shares[name] = {
            "participants": len(people),
            "left_out": caught,
            "percent": round(100 * caught / len(people), 1),
        }
    return shares


def mixed_models(
    designs: Mapping[str, RaterDesign], coverage: Callable[..., dict[str, float]], studies: int
) -> dict[str, Any]:
    """Return how often a mixed model's intervals hold the truth, and its variances, in several designs."""
    figures = dict[str, Any]()
    for name, design in designs.items():
        planted = {"raters": design.of_raters, "items": design.of_items if design.items else 0.0}
        residual = {} if design.thresholds else {"residual": design.residual}
        figures[name] = {**coverage(design, studies=studies), "planted": {**planted, **residual}}
        print(name, figures[name], flush=True)
    return {"studies": studies, "level": 0.95, "designs": figures}


def routing(studies: int, folder: Path | None) -> dict[str, Any]:
    """Return what active routing saves, and what intervals are worth after its own stopping."""
    coverage = dict[str, Any]()
    for name, strengths in STRENGTHS.items():
        coverage[name] = {"strengths": strengths, **routed_coverage(strengths, studies=studies)}
        print(name, coverage[name], flush=True)
    saved = votes_saved(rated_pairs(folder), studies=studies // 2) if folder is not None else None
    print(
        "saved", saved if saved is not None else "skipped: --data names the folder of rated conversations", flush=True
    )
    return {"studies": studies, "explored": EXPLORED, "rho": 0.3, "coverage": coverage, "votes_saved": saved}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="folder with dialogues/ji2022_run1.jsonl.gz")
    parser.add_argument("--coverage", type=int, default=2_000, help="simulated studies of the coverage")
    parser.add_argument("--power", type=int, default=10_000, help="simulated studies of each design")
    parser.add_argument("--rehearsals", type=int, default=100, help="simulated studies with careless people")
    parser.add_argument("--models", type=int, default=1_000, help="simulated studies of each mixed model")
    parser.add_argument("--routed", type=int, default=2_000, help="simulated studies of each routing")
    parser.add_argument("--part", choices=("all", "figures", "model", "ordinal", "routing"), default="all")
    arguments = parser.parse_args()
    parts = {
        "study_statistics": ("figures", partial(figures, arguments)),
        "study_model": ("model", partial(mixed_models, RATER_DESIGNS, model_coverage, arguments.models)),
        "study_ordinal": ("ordinal", partial(mixed_models, ORDINAL_DESIGNS, ordinal_coverage, arguments.models)),
        "study_routing": ("routing", partial(routing, arguments.routed, arguments.data)),
    }
    for name, (part, measure) in parts.items():
        if arguments.part in ("all", part):
            began = time.process_time()
            result = {**measure(), "processor_seconds": round(time.process_time() - began, 1)}
            print(write_result(name, result, packages=_PACKAGES))


def figures(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the coverage of drawn intervals, power, and whom exclusions catch."""
    coverage = interval_coverage(studies=arguments.coverage)
    percents = {name: round(100 * share, 2) for name, share in asdict(coverage).items() if name != "studies"}
    print("coverage", percents, flush=True)
    power = simulated_power(arguments.power)
    print("power", power, flush=True)
    recovery = {
        name: recovered(qualities, arguments.rehearsals) for name, qualities in (("apart", QUALITIES), ("close", CLOSE))
    }
    print("recovery", recovery, flush=True)
    return {
        "coverage": {"studies": coverage.studies, "participants": 60, "rho": 0.3, "percent": percents},
        "power": power,
        "recovery": recovery,
        "published": published_study(arguments.data) if arguments.data is not None else None,
    }


if __name__ == "__main__":
    main()
