"""`refaug studies power`: how many conversations or votes a study needs, and what it will see with those it has."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import typer

from refaug.cli.shared.field_options import with_options
from refaug.cli.shared.output import JsonFlag, print_facts, print_json, print_table
from refaug.core.errors import Usage
from refaug.core.options.declaring import Doc, Ge, Gt, Le, Lt, Metavar
from refaug.core.options.decoding import Options

_DIFFERENCES = (1.0, 0.75, 0.5, 0.3)
_WIN_RATES = (0.65, 0.6, 0.55)


@dataclass(frozen=True, kw_only=True)
class PowerOptions(Options):
    """What is to be seen, and by which design."""

    difference: Annotated[float | None, Metavar("NUMBER"), Doc("The difference of means that is to be seen.")] = None
    win_rate: Annotated[
        float | None, Metavar("SHARE"), Doc("The share of wins without ties that is to be told from a half.")
    ] = None
    n: Annotated[int | None, Ge(2), Doc("Conversations of each bot, or votes: says the power instead.")] = None
    sd: Annotated[float, Gt(0), Doc("Standard deviation of a single rating.")] = 1.3
    power: Annotated[float, Gt(0), Lt(1), Metavar("SHARE"), Doc("The chance to see it.")] = 0.8
    alpha: Annotated[float, Gt(0), Lt(1), Doc("The chance to see what is not there, two-sided.")] = 0.05
    per_participant: Annotated[int, Ge(1), Doc("Ratings of one bot, or votes, by each participant.")] = 1
    rho: Annotated[float, Ge(0), Le(1), Doc("Correlation of the ratings of one participant.")] = 0.3
    crossed: Annotated[bool, Doc("Each participant rates both bots.")] = False
    simulate: Annotated[
        int, Ge(0), Le(100_000), Doc("Check the result by this many simulated studies; 0 for none.")
    ] = 0
    seed: Annotated[int, Ge(0), Doc("Seed of the simulation.")] = 1

    def check(self) -> None:
        """Refuse two things to be seen, and what has no effect on the one."""
        if self.difference is not None and self.win_rate is not None:
            raise Usage("a difference of means is named, too", remedy="one of the two", field="win_rate")
        if self.win_rate is not None and self.crossed:
            raise Usage("it is about ratings", remedy="leave it out", field="crossed")
        is_table = self.difference is None and self.win_rate is None
        if is_table and (idle := next((name for name in ("n", "simulate") if getattr(self, name)), None)):
            raise Usage("it needs something to be seen", remedy="--difference 0.5, or --win-rate 0.6", field=idle)

    @property
    def ratings(self) -> dict[str, Any]:
        """The design of a study of ratings."""
        return {name: getattr(self, name) for name in ("sd", "alpha", "per_participant", "rho", "crossed")}


@with_options
def power_command(context: typer.Context, *, options: PowerOptions, as_json: JsonFlag = False) -> None:  # noqa: ARG001
    """Say how many ratings or votes a study needs.

    Without --difference and --win-rate, a table of usual ones. The numbers are without participants who will be left
    out, and, for votes, without ties.
    """
    if options.difference is not None:
        figures = _ratings(options, options.difference)
    elif options.win_rate is not None:
        figures = _votes(options, options.win_rate)
    else:
        _table(options, as_json=as_json)
        return
    if as_json:
        print_json(figures)
    else:
        print_facts("power of a study", figures)


def _ratings(options: PowerOptions, difference: float) -> dict[str, Any]:
    from refaug.metrics.statistics.power import (  # noqa: PLC0415  scipy
        power_of_ratings,
        ratings_needed,
        simulated_rating_power,
        variance_factor,
    )

    design, simulate = options.ratings, options.simulate
    of_bot = ratings_needed(difference, power=options.power, **design) if options.n is None else options.n
    figures = {
        "difference": difference,
        **design,
        "design_effect": variance_factor(options.per_participant, options.rho, crossed=options.crossed),
        "ratings_of_each_bot": of_bot,
        "participants": -(-of_bot // options.per_participant) * (1 if options.crossed else 2),
        "power": power_of_ratings(of_bot, difference, **design),
    }
    if simulate:
        simulated = simulated_rating_power(of_bot, difference, **design, studies=simulate, seed=options.seed)
        figures |= {"simulated_power": simulated.power, "simulated_error": simulated.error, "studies": simulate}
    return figures


def _votes(options: PowerOptions, win_rate: float) -> dict[str, Any]:
    from refaug.metrics.statistics.power import (  # noqa: PLC0415  scipy
        design_effect,
        power_of_votes,
        simulated_vote_power,
        votes_needed,
    )

    alpha, per_participant, simulate = options.alpha, options.per_participant, options.simulate
    effect = design_effect(per_participant, options.rho)
    needed = options.n or votes_needed(win_rate, power=options.power, alpha=alpha, deff=effect)
    figures = {
        "win_rate": win_rate,
        "alpha": alpha,
        "per_participant": per_participant,
        "rho": options.rho,
        "design_effect": effect,
        "votes": needed,
        "participants": -(-needed // per_participant),
        "power": power_of_votes(needed, win_rate, alpha=alpha, deff=effect),
    }
    if simulate:
        simulated = simulated_vote_power(
            needed,
            win_rate,
            alpha=alpha,
            per_participant=per_participant,
            rho=options.rho if per_participant > 1 else 0.0,
            studies=simulate,
            seed=options.seed,
        )
        figures |= {"simulated_power": simulated.power, "simulated_error": simulated.error, "studies": simulate}
    return figures


def _table(options: PowerOptions, *, as_json: bool) -> None:
    from refaug.metrics.statistics.power import design_effect, ratings_needed, votes_needed  # noqa: PLC0415  scipy

    power = options.power
    ratings = {
        f"{difference:g}": ratings_needed(difference, power=power, **options.ratings) for difference in _DIFFERENCES
    }
    effect = design_effect(options.per_participant, options.rho)
    votes = {f"{rate:g}": votes_needed(rate, power=power, alpha=options.alpha, deff=effect) for rate in _WIN_RATES}
    if as_json:
        print_json({"ratings_of_each_bot": ratings, "votes": votes})
        return
    print_table(
        f"ratings of each bot, SD {options.sd:g}, power {power:g}",
        ("difference of means", "ratings"),
        list(ratings.items()),
    )
    print_table(f"votes without ties, power {power:g}", ("win rate", "votes"), list(votes.items()))
