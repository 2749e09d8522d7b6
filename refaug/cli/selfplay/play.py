"""`refaug selfplay …`: bots talk to themselves or to a partner."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from refaug.cli.shared.database import record_act
from refaug.cli.shared.field_options import with_options
from refaug.cli.shared.index_options import ThreadsOption
from refaug.cli.shared.output import JsonFlag, print_facts, print_json, print_table
from refaug.cli.shared.progress import display_progress
from refaug.core.errors import BadInput, Usage

if TYPE_CHECKING:
    from refaug.core.home import Settings
    from refaug.core.progress import Progress
    from refaug.evaluation.selfplay.check import SelfPlayCheck
    from refaug.evaluation.selfplay.order import PlayingBot

app = typer.Typer(
    help="Let bots talk to themselves or to a partner, and count what their conversations share.",
    no_args_is_help=True,
)

SpecArgument = Annotated[str, typer.Argument(help="Name of the self-play, or name@version.", metavar="NAME")]


RetryFlag = Annotated[
    bool,
    typer.Option(
        "--retry",
        help="Take the newest version that was played in this way, and play on only what an endpoint's fault ended.",
    ),
]


@dataclass(frozen=True, kw_only=True)
class _PlayOptions:
    """How conversations are played; a group of options."""

    count: Annotated[
        int, typer.Option("-n", "--conversations", help="So many conversations of each bot.", min=1, max=1_000_000)
    ] = 100
    turns: Annotated[int, typer.Option(help="Replies of a conversation.", min=1, max=1_000)] = 10
    seen_turns: Annotated[int, typer.Option("--context", help="The last turns that a bot sees.", min=1, max=1_000)] = 5
    start: Annotated[
        str,
        typer.Option(
            help="What conversations begin with: empty, file:FILE with an utterance a line, or log:NAME.",
            metavar="START",
        ),
    ] = "empty"
    rules: Annotated[
        str,
        typer.Option(
            help="plain, or published: bots see turns cut after 30 words and ended with a period, as in the released "
            "code of Ghandeharioun et al. (2019)."
        ),
    ] = "plain"
    seed: Annotated[int, typer.Option(help="Of starts and replies.", min=0, max=2**32 - 1)] = 1
    batch: Annotated[
        int, typer.Option(help="Conversations that are played in step; it changes no reply.", min=1, max=10_000)
    ] = 256


@app.command("play")
@with_options
def play_command(
    context: typer.Context,
    bots: Annotated[
        list[str],
        typer.Argument(
            help="Bots: names of stored ones, or such as retrieval:INDEX,mode=bm25-utterance,k=10.", metavar="BOT…"
        ),
    ],
    *,
    out: Annotated[str, typer.Option(help="Name of the self-play.", metavar="NAME")],
    partner: Annotated[
        str | None, typer.Option(help="The bot that each of them talks to; by default itself.", metavar="BOT")
    ] = None,
    play: _PlayOptions,
    retry: RetryFlag = False,
    threads: ThreadsOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Let each bot have conversations; what was stopped goes on where it was, with the same bytes.

    A bot without a reply to any start is named, with exit code 3; the others have played, and --retry asks it again.
    """
    from refaug.bots.selfplay import SelfPlayRules  # noqa: PLC0415  compiles
    from refaug.evaluation.selfplay.faults import early_end_warnings  # noqa: PLC0415
    from refaug.evaluation.selfplay.order import SelfPlayOrder  # noqa: PLC0415
    from refaug.evaluation.selfplay.recording import record_self_play  # noqa: PLC0415
    from refaug.evaluation.selfplay.starts import read_starts  # noqa: PLC0415

    if play.rules not in ("plain", "published"):
        raise Usage(f"--rules {play.rules}", remedy="plain or published")
    rules = SelfPlayRules(
        turns=play.turns, context=play.seen_turns, published=play.rules == "published", seed=play.seed
    )
    with display_progress(quiet=context.obj.quiet) as progress, ExitStack() as stack:
        opened = _open_bots(context.obj, [*bots, *([partner] if partner else [])], threads, stack)
        for bot in opened:
            for warning in bot.replier.warnings:
                progress.warn(f"{bot.name}: {warning}")
        starts = stack.enter_context(closing(read_starts(context.obj, play.start, play.count, play.seed)))
        order = SelfPlayOrder(
            bots=opened[: len(bots)],
            partner=opened[-1] if partner else None,
            start=play.start,
            starts=starts,
            rules=rules,
        )
        recorded = record_self_play(context.obj, out, order, batch=play.batch, retries_faults=retry, progress=progress)
        for warning in early_end_warnings(recorded.problems, recorded.silent):
            progress.warn(warning)
    record_act(context.obj, "publish", f"self-play {out}@{recorded.version}")
    facts: dict[str, Any] = {
        "version": recorded.version,
        "bots": [bot.name for bot in order.bots],
        "conversations": len(order.bots) * len(order.starts),
        "resumed_at": recorded.resumed_at,
        "played_again": recorded.played_again,
        "latency": {name: dict(figures) if figures else None for name, figures in recorded.latency.items()},
        "problems": {name: dict(reasons) for name, reasons in recorded.problems.items()},
        "silent": list(recorded.silent),
    }
    if as_json:
        print_json({"name": out, **facts})
    else:
        print_facts(f"self-play {out}@{recorded.version}", {"bots": ", ".join(facts["bots"]), **_counts(facts)})
    if recorded.silent:
        raise typer.Exit(BadInput.exit_code)


def _counts(facts: dict[str, Any]) -> dict[str, Any]:
    ended = sum(sum(reasons.values()) for reasons in facts["problems"].values())
    return {"conversations": facts["conversations"], "resumed_at": facts["resumed_at"], "ended_early": ended}


def _open_bots(home: Settings, texts: Sequence[str], threads: int | None, stack: ExitStack) -> list[PlayingBot]:
    """Open every bot until the stack closes; all are checked before, and an index is opened once."""
    from refaug.evaluation.selfplay.order import PlayingBot  # noqa: PLC0415
    from refaug.service.bots.opening import open_bots  # noqa: PLC0415  compiles

    opened = open_bots(home, texts, stack=stack, threads=threads)
    return [PlayingBot(name=bot.name, replier=bot.replier) for bot in opened]


@app.command("check")
def check_command(
    context: typer.Context,
    spec: SpecArgument,
    log: Annotated[
        str | None, typer.Option(help="A log that the bots were trained on, or retrieve from.", metavar="NAME")
    ] = None,
    tokenizer: Annotated[str, typer.Option(help="What counts as a word (refaug tokenizer list).")] = "word",
    as_json: JsonFlag = False,
) -> None:
    """Say what conversations share with each other and with a log, and how varied and long their replies are."""
    from refaug.evaluation.selfplay.check import check_self_play  # noqa: PLC0415
    from refaug.evaluation.selfplay.stored import open_self_play  # noqa: PLC0415
    from refaug.logs.store import StoredLog  # noqa: PLC0415

    opened_log = StoredLog.open(context.obj.logs, log) if log is not None else None
    with display_progress(quiet=context.obj.quiet) as progress, open_self_play(context.obj, spec) as played:
        _warn_of_changes(context.obj, played.manifest, progress)
        checks = check_self_play(played, opened_log, scratch=context.obj.cache, tokenizer=tokenizer, progress=progress)
    if as_json:
        print_json({"self_play": played.spec, "log": log, "bots": [check.as_json() for check in checks]})
        return
    _print_checks(played.spec, checks, log)


def _warn_of_changes(home: Settings, manifest: Mapping[str, Any], progress: Progress) -> None:
    """Warn of stored bots that are no longer what they were when they played."""
    from refaug.service.bots.stored_bots import changed_bots  # noqa: PLC0415  sqlalchemy

    players = [*manifest["bots"], *([manifest["partner"]] if manifest["partner"] else [])]
    specs = [player["provenance"]["bot"] for player in players if "bot" in player["provenance"]]
    for change in changed_bots(home, specs):
        progress.warn(change)


def _print_checks(spec: str, checks: Sequence[SelfPlayCheck], log: str | None) -> None:
    among = [f"w={overlap.window}" for overlap in checks[0].among]
    print_table(
        f"self-play {spec}: per cent of pairs of conversations that share w replies",
        ("bot", "conversations", *among),
        [(check.bot, check.conversations, *(f"{overlap.percent:.2f}" for overlap in check.among)) for check in checks],
    )
    if log is not None:
        print_table(
            f"per cent of conversations with w replies that log {log} has word for word",
            ("bot", "conversations", *(f"w={overlap.window}" for overlap in checks[0].with_log)),
            [
                (check.bot, check.conversations, *(f"{overlap.percent:.2f}" for overlap in check.with_log))
                for check in checks
            ],
        )
    columns = ("bot", "ended early", "distinct-1", "distinct-2", "repeated", "looping", "words first", "last", "ms")
    print_table(
        "replies",
        columns,
        [
            (
                check.bot,
                check.ended_early,
                *(f"{share:.3f}" for share in (check.distinct_1, check.distinct_2, check.repeated, check.looping)),
                *_first_and_last(check.words_by_turn),
                "-" if check.latency is None else f"{check.latency['median_ms']:,.1f}",
            )
            for check in checks
        ],
    )


def _first_and_last(words_by_turn: Sequence[float]) -> tuple[str, str]:
    """Return the words of the first and of the last reply; a bot without any reply has none."""
    return (f"{words_by_turn[0]:.1f}", f"{words_by_turn[-1]:.1f}") if words_by_turn else ("-", "-")


@app.command("show")
def show_command(context: typer.Context, spec: SpecArgument, as_json: JsonFlag = False) -> None:
    """What a version was played with: bots with their versions, starts, rules, and conversations that ended early."""
    from refaug.evaluation.selfplay.stored import open_self_play  # noqa: PLC0415

    with display_progress(quiet=context.obj.quiet) as progress, open_self_play(context.obj, spec) as played:
        manifest = dict(played.manifest)
        _warn_of_changes(context.obj, manifest, progress)
    if as_json:
        print_json({"self_play": played.spec, "manifest": manifest})
        return
    shown = ("start", "conversations_per_bot", "turns", "context", "rules", "seed")
    print_facts(f"self-play {played.spec}", {name: manifest[name] for name in shown})
    partner = manifest["partner"]
    print_table(
        "bots",
        ("bot", "partner", "made of", "ended early"),
        [
            (
                bot["name"],
                partner["name"] if partner else "itself",
                ", ".join(f"{key} {text}" for key, text in bot["provenance"].items()),
                sum(manifest["problems"][bot["name"]].values()),
            )
            for bot in manifest["bots"]
        ],
    )
