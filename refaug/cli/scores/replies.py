"""`refaug bots reply`: bots reply to the items of a test file, each as a further system."""

from __future__ import annotations

from collections import defaultdict
from contextlib import ExitStack
from pathlib import Path

import typer

from refaug.cli.shared.field_options import with_options
from refaug.cli.shared.item_inputs import ItemInputs
from refaug.cli.shared.output import print_json_line
from refaug.cli.shared.progress import display_progress
from refaug.cli.shared.score_options import StrictFlag, report_problems, require_all
from refaug.operations.replies import ReplyToItems
from refaug.scoring.items import BadItem, item_json
from refaug.scoring.settings import WithoutReply


@with_options
def replies_command(context: typer.Context, *, order: ReplyToItems, strict: StrictFlag = False) -> None:
    """Let bots reply to the items of a test file, each as a further system, such as C-BM25 from an index."""
    from refaug.bots.replier import Latency  # noqa: PLC0415  numpy
    from refaug.scoring.replies import ReplyRemarks, add_replies  # noqa: PLC0415  compiles
    from refaug.service.bots.opening import bot_systems, open_bots  # noqa: PLC0415

    bad, remarks, milliseconds = list[BadItem](), ReplyRemarks(), defaultdict[str, list[float]](list)
    inputs = ItemInputs(items=Path(order.items), table=order, allow_truncated=order.allow_truncated)
    with display_progress(quiet=context.obj.quiet) as progress, ExitStack() as stack:
        opened = open_bots(context.obj, order.bots_named(), stack=stack, threads=order.threads)
        systems = bot_systems(order.bots, opened, progress)
        test_items = inputs.within_stage(progress)
        for answered in add_replies(test_items, systems, replace_systems=order.replace, progress=progress):
            if isinstance(answered, BadItem):
                bad.append(answered)
                continue
            if order.without_reply is WithoutReply.REFUSE:
                answered.require_replies()
            is_skipped = bool(answered.missing) and order.without_reply is WithoutReply.SKIP
            remarks.add(answered, is_skipped=is_skipped)
            for name, ms in answered.reply_ms.items():
                milliseconds[name].append(ms)
            if not is_skipped:
                times = {"reply_ms": answered.reply_ms} if order.timing and answered.reply_ms else {}
                print_json_line({**item_json(answered.item), **answered.item.search_notes, **times})
        report_problems(bad, tuple(remarks.warnings), progress, rest="")
        for system in systems:
            for remark in system.replier.remarks:
                progress.say(f"{system.name}: {remark}")
            if order.timing and (latency := Latency.of(milliseconds[system.name])) is not None:
                progress.say(f"{system.name}: {latency.line}")
    require_all(bad, strict=strict)
