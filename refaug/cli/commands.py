"""Every command by its words, with the function that it runs; modules are imported when their command is used."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from importlib import import_module
from typing import Any, Final

from refaug.core.installation import BUILT_IN, find, registered
from refaug.core.installation import COMMANDS as REGISTERED


class EntryPanel(StrEnum):
    """The headings of `refaug --help`."""

    SCORE = "Score"
    PREPARE = "Prepare"
    JUDGE = "Judge"
    STUDY = "Study"
    SERVE = "Serve"


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A first word after `refaug`; its line in the help stands here, so that the help imports no command."""

    panel: EntryPanel
    help: str


# What is done daily stands first.
ENTRIES: Final[Mapping[str, Entry]] = {
    "score": Entry(panel=EntryPanel.SCORE, help="Score replies; verify scores, cite them, write their pages again."),
    "compare": Entry(panel=EntryPanel.SCORE, help="Compare two score files, two systems of one, or two signatures."),
    "agreement": Entry(panel=EntryPanel.SCORE, help="Say how far metrics agree with people's ratings."),
    "start": Entry(panel=EntryPanel.PREPARE, help="Make a home that scores, from real everyday dialogues."),
    "log": Entry(panel=EntryPanel.PREPARE, help="Ingest dialogue logs, look into them, take texts out of them."),
    "index": Entry(panel=EntryPanel.PREPARE, help="Plan, build, search and update indexes of logs."),
    "sets": Entry(panel=EntryPanel.PREPARE, help="Convert test sets, find references, freeze and score them."),
    "train": Entry(panel=EntryPanel.PREPARE, help="Train raters, judges, word vectors and tokenizers on your data."),
    "judge": Entry(panel=EntryPanel.JUDGE, help="Judge by a language model, a network or a fitted judge."),
    "bots": Entry(panel=EntryPanel.JUDGE, help="Bots by name: let them reply to test sets, and play."),
    "studies": Entry(panel=EntryPanel.STUDY, help="Studies with people, from the protocol to the report."),
    "serve": Entry(panel=EntryPanel.SERVE, help="Answer over HTTP, run jobs and keep schedules."),
    "artefacts": Entry(panel=EntryPanel.SERVE, help="Versions of every kind: list, publish, roll back, share."),
    "admin": Entry(panel=EntryPanel.SERVE, help="Keys, jobs, schedules, backups, audit log, health."),
}

# The sentences of groups below an entry.
GROUPS: Final[Mapping[str, str]] = {
    "score metrics": "The metrics by name: needs, range and parameters of each.",
    "index encoder": "Encoders of texts, for refaug-1, bertscore and sentence-cosine.",
    "index vectors": "Word vectors: import published ones, try them, write them as text.",
    "train resume": "Resume a training that was stopped, with the settings that it was started with.",
    "train report": "Say how good a network is.",
    "judge score": "Score replies or conversations by a network or a fitted judge.",
    "admin keys": "Make and revoke the keys of the service.",
    "admin jobs": "Queue jobs, follow them, and work them off.",
    "admin schedules": "Start jobs by the clock.",
}

# Those of the core; extras and packages of others register theirs by the same words.
COMMANDS: Final[Mapping[str, str]] = {
    "score": "refaug.cli.scores.score:score_command",
    "score verify": "refaug.cli.score_files.verify:verify_command",
    "score cite": "refaug.cli.score_files.cite:cite_command",
    "score diagnose": "refaug.cli.scores.diagnose:diagnose_command",
    "score report": "refaug.cli.score_files.render:render_command",
    "compare": "refaug.cli.score_files.compare:compare_command",
    "agreement": "refaug.cli.scores.meta:meta_command",
    "agreement leaderboard": "refaug.cli.scores.meta:leaderboard_command",
    "agreement probe": "refaug.cli.scores.probe:probe_command",
    "agreement references": "refaug.cli.scores.reference_sets:references_command",
    "agreement rater": "refaug.cli.raters.rater:evaluate_command",
    "score metrics list": "refaug.cli.scores.metrics:list_command",
    "score metrics describe": "refaug.cli.scores.metrics:describe_command",
    "score metrics baseline": "refaug.cli.scores.metrics:baseline_command",
    "start": "refaug.cli.everyday:start_command",
    "log ingest": "refaug.cli.logs.log:ingest_command",
    "log list": "refaug.cli.logs.log:list_command",
    "log show": "refaug.cli.logs.log:show_command",
    "log sample": "refaug.cli.logs.log:sample_command",
    "log stats": "refaug.cli.logs.log:stats_command",
    "log shared": "refaug.cli.logs.log:shared_command",
    "log verify": "refaug.cli.logs.log:verify_command",
    "log delete": "refaug.cli.logs.log:delete_command",
    "log demo": "refaug.cli.logs.log:demo_log_command",
    "log tokenizers": "refaug.cli.logs.tokenizer:list_command",
    "log tokenize": "refaug.cli.logs.tokenizer:run_command",
    "index plan": "refaug.cli.indexes.index:plan_command",
    "index build": "refaug.cli.indexes.index:build_command",
    "index encode": "refaug.cli.indexes.index:encode_command",
    "index check": "refaug.cli.indexes.index:check_command",
    "index search": "refaug.cli.indexes.index_search:search_command",
    "index update": "refaug.cli.indexes.index_versions:update_command",
    "index delete": "refaug.cli.indexes.index_versions:delete_command",
    "index compact": "refaug.cli.indexes.index_versions:compact_command",
    "index encoder add": "refaug.cli.indexes.encoders:add_command",
    "index encoder calibrate": "refaug.cli.indexes.encoders:calibrate_command",
    "index encoder forget": "refaug.cli.indexes.encoders:forget_command",
    "index vectors import": "refaug.cli.indexes.vectors:import_command",
    "index vectors try": "refaug.cli.indexes.vectors:try_command",
    "index vectors write": "refaug.cli.indexes.vectors:write_command",
    "sets convert": "refaug.cli.items:convert_command",
    "sets standard": "refaug.cli.scores.sets:standard_command",
    "sets add": "refaug.cli.scores.sets:add_command",
    "sets references": "refaug.cli.scores.sets:refs_command",
    "sets freeze": "refaug.cli.scores.sets:freeze_command",
    "sets derive": "refaug.cli.scores.sets:derive_command",
    "sets score": "refaug.cli.scores.sets:score_command",
    "sets list": "refaug.cli.scores.sets:list_command",
    "sets show": "refaug.cli.scores.sets:show_command",
    "sets verify": "refaug.cli.scores.sets:verify_command",
    "sets withdraw": "refaug.cli.scores.sets:withdraw_command",
    "sets history": "refaug.cli.score_files.set_history:history_command",
    "sets leaderboard": "refaug.cli.score_files.set_history:leaderboard_command",
    "train rater": "refaug.cli.raters.rater:train_command",
    "train ruber": "refaug.cli.raters.ruber:train_command",
    "train vectors": "refaug.cli.indexes.vectors:train_command",
    "train tokenizer": "refaug.cli.logs.tokenizer:train_command",
    "train resume rater": "refaug.cli.raters.rater:resume_command",
    "train resume ruber": "refaug.cli.raters.ruber:resume_command",
    "train report rater": "refaug.cli.raters.rater:report_command",
    "train negatives": "refaug.cli.raters.rater:negatives_command",
    "judge score rater": "refaug.cli.raters.rater:rate_command",
    "judge score ruber": "refaug.cli.raters.ruber:score_command",
    "bots add": "refaug.cli.bots:add_command",
    "bots list": "refaug.cli.bots:list_command",
    "bots show": "refaug.cli.bots:show_command",
    "bots try": "refaug.cli.bots:try_command",
    "bots remove": "refaug.cli.bots:remove_command",
    "bots reply": "refaug.cli.bots:replies_command",
    "serve": "refaug.cli.server.serve:serve_command",
    "artefacts list": "refaug.cli.artefacts.artefacts:list_command",
    "artefacts show": "refaug.cli.artefacts.artefacts:show_command",
    "artefacts verify": "refaug.cli.artefacts.artefacts:verify_command",
    "artefacts publish": "refaug.cli.artefacts.artefacts:publish_command",
    "artefacts rollback": "refaug.cli.artefacts.artefacts:rollback_command",
    "artefacts gc": "refaug.cli.artefacts.artefacts:gc_command",
    "artefacts remove": "refaug.cli.artefacts.artefacts:remove_command",
    "artefacts export": "refaug.cli.artefacts.stores:export_command",
    "artefacts import": "refaug.cli.artefacts.stores:import_command",
    "artefacts push": "refaug.cli.artefacts.stores:push_command",
    "artefacts fetch": "refaug.cli.artefacts.stores:fetch_command",
    "admin doctor": "refaug.cli.server.doctor:doctor_command",
    "admin backup": "refaug.cli.server.backup:backup_command",
    "admin restore": "refaug.cli.server.backup:restore_command",
    "admin audit": "refaug.cli.server.audit:audit_command",
    "admin jobs start": "refaug.cli.server.jobs:start_command",
    "admin jobs list": "refaug.cli.server.jobs:list_command",
    "admin jobs show": "refaug.cli.server.jobs:show_command",
    "admin jobs events": "refaug.cli.server.jobs:events_command",
    "admin jobs cancel": "refaug.cli.server.jobs:cancel_command",
    "admin jobs retry": "refaug.cli.server.jobs:retry_command",
    "admin jobs work": "refaug.cli.server.jobs:work_command",
    "admin schedules put": "refaug.cli.server.schedules:put_command",
    "admin schedules list": "refaug.cli.server.schedules:list_command",
    "admin schedules show": "refaug.cli.server.schedules:show_command",
    "admin schedules delete": "refaug.cli.server.schedules:delete_command",
    "admin schedules tick": "refaug.cli.server.schedules:tick_command",
    "admin keys create": "refaug.cli.server.keys:create_command",
    "admin keys list": "refaug.cli.server.keys:list_command",
    "admin keys revoke": "refaug.cli.server.keys:revoke_command",
}


def target_of(path: str) -> str | None:
    """Return module:function of a command of the core or of our extras, there or not; None for any other words."""
    return COMMANDS.get(path) or BUILT_IN[REGISTERED].get(path)


def function_of(path: str) -> Any:
    """Return the function that a command runs; MissingPart where its extra is not installed."""
    if path not in COMMANDS:
        return find(REGISTERED, path)
    module, _, name = COMMANDS[path].partition(":")
    return getattr(import_module(module), name)


def known_below(path: str) -> list[str]:
    """Return the next words after these, of the core and of our extras; what is installed is not read."""
    return _next_words(path, (*COMMANDS, *BUILT_IN[REGISTERED]))


def commands_below(path: str) -> list[str]:
    """Return the next words after these that can be run, in the order of the help."""
    return _next_words(path, (*COMMANDS, *registered(REGISTERED)))


def _next_words(path: str, commands: Iterable[str]) -> list[str]:
    start = f"{path} " if path else ""
    following = (words.removeprefix(start) for words in commands if words.startswith(start))
    names = list(dict.fromkeys(words.partition(" ")[0] for words in following))
    return names if path else [name for name in ENTRIES if name in names]


def path_of(words: Sequence[str]) -> str:
    """Return the command that a command line names, as far as its words lead; empty where none is named."""
    words = list(words)
    while words and words[0].startswith("-"):
        del words[: 2 if words[0] == "--home" else 1]
    path = ""
    for word in words:
        if word not in known_below(path):
            break
        path = f"{path} {word}".strip()
    return path
