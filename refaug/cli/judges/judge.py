"""`refaug judge …`: language models behind an endpoint as judges of replies."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from refaug.cli.shared.output import JsonFlag, print_facts, print_json, print_line, print_table
from refaug.cli.shared.progress import display_progress
from refaug.core.errors import BadInput, Unavailable
from refaug.core.progress import Progress

if TYPE_CHECKING:
    from refaug.evaluation.judge.asking import Asking
    from refaug.evaluation.judge.rubric import Rubric

app = typer.Typer(
    help="Language models behind an endpoint as judges: try them, compare replies in pairs, probe for bias.",
    no_args_is_help=True,
)

JudgeArgument = Annotated[
    str, typer.Argument(help="A name of the folder judges/ of the home, or the path of a file.", metavar="JUDGE")
]


@app.command("list")
def list_command(context: typer.Context, as_json: JsonFlag = False) -> None:
    """List the judges of the home, with the model and the address of each."""
    from refaug.core.errors import RefaugError  # noqa: PLC0415
    from refaug.evaluation.judge.judge_files import find_judge, judge_names  # noqa: PLC0415  httpx

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


@app.command("rubrics")
def rubrics_command(
    name: Annotated[
        str | None, typer.Argument(help="A rubric to show, or the path of one.", metavar="[RUBRIC]")
    ] = None,
    *,
    as_json: JsonFlag = False,
) -> None:
    """List the rubrics that come with refaug, or show what a judge reads of one."""
    from refaug.evaluation.judge.rubric import built_in_rubrics, find_rubric  # noqa: PLC0415  httpx

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
    from refaug.evaluation.judge.questions import reply_messages  # noqa: PLC0415
    from refaug.metrics.models.judged_replies import JudgeQuestion  # noqa: PLC0415  numpy

    print_line(f"{rubric.spec}, asked with an example:")
    question = JudgeQuestion(turns=("How was your trip?",), reply="Long, but lovely.")
    for message in reply_messages(rubric, question, is_weighted=False):
        print_line("")
        print_line(f"[{message.role}]")
        for line in message.content.splitlines():
            print_line(line)


@app.command("check")
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
    from refaug.evaluation.judge.check import check_judge  # noqa: PLC0415  httpx
    from refaug.evaluation.judge.rubric import find_rubric  # noqa: PLC0415

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
    from refaug.evaluation.metric_setup.judge_metrics import open_asking  # noqa: PLC0415  httpx

    return open_asking(context.obj, judge, progress)
