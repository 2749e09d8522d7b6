"""`refaug judge`: judges behind endpoints, and what one says of the items of a test file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from refaug.cli.shared.item_inputs import ItemInputs
from refaug.cli.shared.output import (
    JsonFlag,
    count_of,
    print_facts,
    print_json,
    print_json_line,
    print_line,
    print_table,
)
from refaug.cli.shared.progress import display_progress
from refaug.cli.shared.score_options import SeedOption, number, report_problems
from refaug.core.errors import BadInput, Unavailable, Usage
from refaug.core.progress import Progress
from refaug.core.records import Item
from refaug.scoring.items import item_json
from refaug.scoring.settings import MAX_DRAWS

if TYPE_CHECKING:
    from refaug.extras.judges.language_models.asking import Asking
    from refaug.extras.judges.language_models.rubric import Rubric
    from refaug.metrics.statistics.resampling import Estimate


JudgeArgument = Annotated[
    str, typer.Argument(help="A name of the folder judges/ of the home, or the path of a file.", metavar="JUDGE")
]


def list_command(context: typer.Context, as_json: JsonFlag = False) -> None:
    """List the judges of the home, with the model and the address of each."""
    from refaug.bots.endpoint.judge_files import find_judge, judge_names  # noqa: PLC0415  httpx
    from refaug.core.errors import RefaugError  # noqa: PLC0415

    rows = list[tuple[str, str, str]]()
    for name in judge_names(context.obj):
        try:
            endpoint = find_judge(context.obj, name)
        except RefaugError as error:
            rows.append((name, "-", error.message))
        else:
            rows.append((name, endpoint.model, endpoint.url))
    if as_json:
        print_json({"judges": [{"name": name, "model": model, "url": url} for name, model, url in rows]})
    else:
        print_table("judges", ("name", "model", "address"), rows)


def rubrics_command(
    name: Annotated[
        str | None, typer.Argument(help="A rubric to show, or the path of one.", metavar="[RUBRIC]")
    ] = None,
    *,
    as_json: JsonFlag = False,
) -> None:
    """List the rubrics that come with refaug, or show what a judge reads of one."""
    from refaug.extras.judges.language_models.rubric import built_in_rubrics, find_rubric  # noqa: PLC0415  httpx

    rubrics = [find_rubric(name)] if name is not None else list(built_in_rubrics().values())
    if as_json:
        print_json({"rubrics": [_rubric_json(rubric) for rubric in rubrics]})
    elif name is not None:
        _show_rubric(rubrics[0])
    else:
        rows = [(rubric.name, f"{rubric.low} to {rubric.high}", rubric.content_hash, rubric.task) for rubric in rubrics]
        print_table("rubrics", ("name", "scale", "hash", "task"), rows)


def _rubric_json(rubric: Rubric) -> dict[str, object]:
    return {
        "name": rubric.name,
        "hash": rubric.content_hash,
        "task": rubric.task,
        "scale": [rubric.low, rubric.high],
        "answer": rubric.answer,
        "criteria": [
            {"name": criterion.name, "question": criterion.question, "weight": criterion.weight}
            for criterion in rubric.criteria
        ],
        "levels": [{"score": score, "meaning": meaning} for score, meaning in rubric.levels],
    }


def _show_rubric(rubric: Rubric) -> None:
    from refaug.extras.judges.language_models.rubric import reply_messages  # noqa: PLC0415
    from refaug.extras.judges.metrics.judged_replies import JudgeQuestion  # noqa: PLC0415  numpy

    print_line(f"{rubric.spec}, asked with an example:")
    question = JudgeQuestion(turns=("How was your trip?",), reply="Long, but lovely.")
    for message in reply_messages(rubric, question, is_weighted=False):
        print_line("")
        print_line(f"[{message.role}]")
        for line in message.content.splitlines():
            print_line(line)


def check_command(
    context: typer.Context,
    judge: JudgeArgument,
    rubric: Annotated[str, typer.Option(help="The rubric of the question.", metavar="NAME")] = "overall",
    *,
    as_json: JsonFlag = False,
) -> None:
    """Ask a judge about one reply, and say what it gives: a number, probabilities, a fingerprint, counts of tokens.

    The answer is not stored. Exit code 4 if the endpoint gives no answer, 3 if the answer is no rating.
    """
    from refaug.extras.judges.language_models.asking import check_judge  # noqa: PLC0415  httpx
    from refaug.extras.judges.language_models.rubric import find_rubric  # noqa: PLC0415

    with display_progress(quiet=context.obj.quiet) as progress:
        asking = open_judge(context, judge, progress)
        asking.answers = None
        facts = check_judge(asking, find_rubric(rubric))
    if facts.fault is not None:
        raise Unavailable(
            f"{judge} gives no answer: {facts.fault.message}", remedy="docs/judge.md has the fields of its file"
        )
    if as_json:
        print_json(facts.as_json())
    else:
        print_facts(f"judge {asking.endpoint.name}", facts.as_facts())
    if facts.problem is not None:
        raise BadInput(f"{judge}: {facts.problem.message}", remedy="another model, or a rubric that it understands")


def open_judge(context: typer.Context, judge: str, progress: Progress) -> Asking:
    """Return the judge of a name or of a path, with the stored answers of the home."""
    from refaug.extras.judges.bindings import open_asking  # noqa: PLC0415  httpx

    return open_asking(context.obj, judge, progress)


ItemsArgument = Annotated[Path, typer.Argument(help="A test file; - for JSONL from stdin.", metavar="ITEMS")]
RubricOption = Annotated[str, typer.Option(help="A rubric of refaug, or the path of one.", metavar="NAME")]
DrawsOption = Annotated[int, typer.Option(help="Draws of the bootstrap over items.", min=1, max=MAX_DRAWS)]


def compare_command(
    context: typer.Context,
    judge: JudgeArgument,
    items: ItemsArgument,
    systems: Annotated[str, typer.Option(help="The two systems, with a comma between them.", metavar="A,B")],
    *,
    rubric: RubricOption = "overall",
    draws: DrawsOption = 1_000,
    seed: SeedOption = 1,
    as_json: JsonFlag = False,
) -> None:
    """Ask a judge which of two systems has the better reply to each item, in both orders.

    A verdict counts if it is the same in both orders; otherwise, and for a tie, both systems get half a win.
    """
    from refaug.extras.judges.language_models.pairwise import PairVerdict, PairwiseJudge, compare_systems  # noqa: PLC0415  httpx2
    from refaug.extras.judges.language_models.rubric import find_rubric  # noqa: PLC0415

    names = [name.strip() for name in systems.split(",")]
    if len(names) != 2 or not all(names) or names[0] == names[1]:
        raise Usage(f"--systems {systems}", remedy="--systems new,old: two systems of the items")
    with display_progress(quiet=context.obj.quiet) as progress:
        asking = open_judge(context, judge, progress)
        pairwise, usable = PairwiseJudge(asking, find_rubric(rubric)), _usable(items, progress)
        compared = compare_systems(pairwise, usable, (names[0], names[1]), draws=draws, seed=seed)
        for remark in asking.remarks():
            progress.warn(remark)
    if as_json:
        print_json(compared.as_json())
        return
    counts = compared.counts()
    labels = {
        PairVerdict.FIRST: f"{names[0]} is better",
        PairVerdict.SECOND: f"{names[1]} is better",
        PairVerdict.TIE: "a tie",
        PairVerdict.ORDER: "it depends on the order",
    }
    rows: list[Sequence[object]] = [(labels[verdict], counts[verdict.value]) for verdict in PairVerdict]
    rows += [(code, count) for code, count in compared.as_json()["problems"].items()]
    print_table(compared.signature.short, ("verdict", "pairs"), rows)
    print_line(f"{names[0]} wins {_with_interval(compared.share)} of the pairs, ties as half")
    print_line(f"place A is chosen in {_with_interval(compared.first_place)} of the decided questions")


def probe_command(
    context: typer.Context,
    judge: JudgeArgument,
    items: ItemsArgument,
    *,
    rubric: RubricOption = "overall",
    base: Annotated[
        str | None, typer.Option(help="The system whose replies are altered; without it, the golds.", metavar="SYSTEM")
    ] = None,
    most: Annotated[int, typer.Option(help="Probe with the first items, this many.", min=2, max=100_000)] = 100,
    draws: DrawsOption = 1_000,
    seed: SeedOption = 1,
    as_json: JsonFlag = False,
) -> None:
    """Probe a judge for bias: by place, by length, and by words that say nothing.

    Six questions an item. The effect of place is from -1 (always B) to 1 (always A); those of length and verbosity are
    differences of scores, from -1 to 1.
    """
    from refaug.extras.judges.language_models.bias import probe_bias  # noqa: PLC0415  httpx2
    from refaug.extras.judges.language_models.rubric import find_rubric  # noqa: PLC0415

    with display_progress(quiet=context.obj.quiet) as progress:
        asking, usable = open_judge(context, judge, progress), _usable(items, progress)[:most]
        findings = probe_bias(asking, find_rubric(rubric), usable, base=base, draws=draws, seed=seed)
        for remark in asking.remarks():
            progress.warn(remark)
    if as_json:
        print_json({"judge": asking.endpoint.name, "rubric": rubric, "findings": [each.as_json() for each in findings]})
        return
    verdicts = {True: "yes", False: "no", None: "not known"}
    rows = [
        (each.bias.value, _with_interval(each.effect), verdicts[each.is_biased], each.items, each.unusable)
        for each in findings
    ]
    print_table(f"judge {asking.endpoint.name}", ("bias", "effect", "biased", "items", "unusable"), rows)


def weigh_command(
    context: typer.Context,
    judge: JudgeArgument,
    items: ItemsArgument,
    *,
    rubric: RubricOption = "overall",
) -> None:
    """Weigh the retrieved references of a test file by a judge instead of a rater, and print the items.

    ITEMS is the output of refaug sets references. A reference that the judge does not rate is left out. The printed
    items can be frozen: refaug sets freeze.
    """
    from refaug.extras.judges.language_models.pointwise import (  # noqa: PLC0415  httpx2
        PointwiseJudge,
        SampleSettings,
        weigh,
    )
    from refaug.extras.judges.language_models.rubric import find_rubric  # noqa: PLC0415

    with display_progress(quiet=context.obj.quiet) as progress:
        pointwise = PointwiseJudge(open_judge(context, judge, progress), find_rubric(rubric), SampleSettings())
        weighed = weigh(pointwise, _usable(items, progress))
        for test_item in weighed.items:
            print_json_line({**item_json(test_item), **test_item.search_notes})
        for remark in pointwise.remarks():
            progress.warn(remark)
        if weighed.left_out:
            progress.warn(f"{count_of(weighed.left_out, 'reference')} without a rating left out")
        if not weighed.weighed:
            progress.warn("no reference was weighed: refaug sets references finds some")


def _usable(items: Path, progress: Progress) -> list[Item]:
    """Return the items that can be used, and warn of the others."""
    from refaug.scoring.cases import split  # noqa: PLC0415  numpy

    usable, bad = split(ItemInputs(items=items).read(progress))
    report_problems(bad, (), progress, rest="")
    return usable


def _with_interval(estimate: Estimate) -> str:
    if estimate.value is None:
        return "-"
    bounds = "" if estimate.low is None else f" [{number(estimate.low)}, {number(estimate.high)}]"
    return f"{number(estimate.value)}{bounds}"
