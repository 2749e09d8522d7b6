"""`refaug studies power`: how many conversations or votes a study needs, and what it will see with those it has."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from refaug.cli.shared.output import JsonFlag, print_facts, print_json, print_table
from refaug.core.errors import Usage

_DIFFERENCES = (1.0, 0.75, 0.5, 0.3)
_WIN_RATES = (0.65, 0.6, 0.55)


def power_command(
    difference: Annotated[
        float | None, typer.Option(help="The difference of means that is to be seen.", metavar="NUMBER")
    ] = None,
    win_rate: Annotated[
        float | None,
        typer.Option(help="The share of wins without ties that is to be told from a half.", metavar="SHARE"),
    ] = None,
    n: Annotated[
        int | None, typer.Option("-n", help="Conversations of each bot, or votes: says the power instead.", min=2)
    ] = None,
    sd: Annotated[float, typer.Option(help="Standard deviation of a single rating.", metavar="NUMBER")] = 1.3,
    power: Annotated[float, typer.Option(help="The chance to see it.", metavar="SHARE")] = 0.8,
    alpha: Annotated[float, typer.Option(help="The chance to see what is not there, two-sided.")] = 0.05,
    per_participant: Annotated[int, typer.Option(help="Ratings of one bot, or votes, by each participant.", min=1)] = 1,
    rho: Annotated[float, typer.Option(help="Correlation of the ratings of one participant.", min=0.0, max=1.0)] = 0.3,
    crossed: Annotated[bool, typer.Option("--crossed", help="Each participant rates both bots.")] = False,
    simulate: Annotated[
        int, typer.Option(help="Check the result by so many simulated studies; 0 for none.", min=0, max=100_000)
    ] = 0,
    seed: Annotated[int, typer.Option(help="Seed of the simulation.", min=0)] = 1,
    as_json: JsonFlag = False,
) -> None:
    """Say how many ratings or votes a study needs.

    Without --difference and --win-rate, a table of usual ones. The numbers are without participants who will be left
    out, and, for votes, without ties.
    """
    if difference is not None and win_rate is not None:
        raise Usage("--difference and --win-rate at once", remedy="one of the two")
    design: dict[str, Any] = {"alpha": alpha, "per_participant": per_participant, "rho": rho}
    if difference is not None:
        figures = _ratings(difference, n, sd, power, crossed=crossed, simulate=simulate, seed=seed, **design)
    elif win_rate is not None:
        if crossed:
            raise Usage("--crossed is about ratings", remedy="leave it out")
        figures = _votes(win_rate, n, power, simulate=simulate, seed=seed, **design)
    else:
        if n is not None or simulate:
            raise Usage("-n and --simulate need something to be seen", remedy="--difference 0.5, or --win-rate 0.6")
        _table(sd, power, crossed=crossed, as_json=as_json, **design)
        return
    if as_json:
        print_json(figures)
    else:
        print_facts("power of a study", figures)


def _ratings(
    difference: float,
    n: int | None,
    sd: float,
    power: float,
    *,
    crossed: bool,
    simulate: int,
    seed: int,
    alpha: float,
    per_participant: int,
    rho: float,
) -> dict[str, Any]:
    from refaug.metrics.statistics.power import (  # noqa: PLC0415  scipy
        power_of_ratings,
        ratings_needed,
        simulated_rating_power,
        variance_factor,
    )

    settings: dict[str, Any] = {
        "sd": sd, "alpha": alpha, "per_participant": per_participant, "rho": rho, "crossed": crossed,
    }  # fmt: skip
    needed = ratings_needed(difference, power=power, **settings)
    of_bot = needed if n is None else n
    figures = {
        "difference": difference,
        **settings,
        "design_effect": variance_factor(per_participant, rho, crossed=crossed),
        "ratings_of_each_bot": of_bot,
        "participants": -(-of_bot // per_participant) * (1 if crossed else 2),
        "power": power_of_ratings(of_bot, difference, **settings),
    }
    if simulate:
        simulated = simulated_rating_power(of_bot, difference, **settings, studies=simulate, seed=seed)
        figures |= {"simulated_power": simulated.power, "simulated_error": simulated.error, "studies": simulate}
    return figures


def _votes(
    win_rate: float,
    n: int | None,
    power: float,
    *,
    simulate: int,
    seed: int,
    alpha: float,
    per_participant: int,
    rho: float,
) -> dict[str, Any]:
    from refaug.metrics.statistics.power import (  # noqa: PLC0415  scipy
        design_effect,
        power_of_votes,
        simulated_vote_power,
        votes_needed,
    )

    effect = design_effect(per_participant, rho)
    votes = votes_needed(win_rate, power=power, alpha=alpha, deff=effect) if n is None else n
    figures = {
        "win_rate": win_rate,
        "alpha": alpha,
        "per_participant": per_participant,
        "rho": rho,
        "design_effect": effect,
        "votes": votes,
        "participants": -(-votes // per_participant),
        "power": power_of_votes(votes, win_rate, alpha=alpha, deff=effect),
    }
    if simulate:
        simulated = simulated_vote_power(
            votes,
            win_rate,
            alpha=alpha,
            per_participant=per_participant,
            rho=rho if per_participant > 1 else 0.0,
            studies=simulate,
            seed=seed,
        )
        figures |= {"simulated_power": simulated.power, "simulated_error": simulated.error, "studies": simulate}
    return figures


def _table(
    sd: float, power: float, *, crossed: bool, as_json: bool, alpha: float, per_participant: int, rho: float
) -> None:
    from refaug.metrics.statistics.power import design_effect, ratings_needed, votes_needed  # noqa: PLC0415  scipy

    ratings = {
        f"{difference:g}": ratings_needed(
            difference, sd=sd, power=power, alpha=alpha, per_participant=per_participant, rho=rho, crossed=crossed
        )
        for difference in _DIFFERENCES
    }
    effect = design_effect(per_participant, rho)
    votes = {f"{rate:g}": votes_needed(rate, power=power, alpha=alpha, deff=effect) for rate in _WIN_RATES}
    if as_json:
        print_json({"ratings_of_each_bot": ratings, "votes": votes})
        return
    print_table(
        f"ratings of each bot, SD {sd:g}, power {power:g}", ("difference of means", "ratings"), list(ratings.items())
    )
    print_table(f"votes without ties, power {power:g}", ("win rate", "votes"), list(votes.items()))
