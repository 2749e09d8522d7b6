"""Every route of the API as a function that returns a `Call`; nothing is sent here.

The main names:

- `score`: POST /v1/scores
- `references`: POST /v1/references
- `start_job`: POST /v1/jobs.
"""

from __future__ import annotations

from .artefacts import (
    get_index,
    get_rater,
    list_index_versions,
    list_indexes,
    list_rater_versions,
    list_raters,
    publish_index,
    publish_rater,
)
from .audit import list_audit
from .bodies import PAGE, SYSTEM, attach_replies, by_system, format_times, metric_list, request_body, to_list
from .bots import Dialogue, delete_bot, get_bot, list_bots, put_bot, reply_to_dialogues
from .jobs import (
    cancel_job,
    delete_schedule,
    follow_job,
    get_job,
    get_schedule,
    list_jobs,
    list_schedules,
    put_schedule,
    retry_job,
    start_job,
)
from .keys import create_key, get_own_key, list_keys, revoke_key
from .logs import erase_dialogue, get_log, list_ingests, list_logs, post_dialogues
from .readers import read_model, read_page
from .scoring import combine, metrics, pair_with_candidates, rate, references, replies, score, verify
from .server import explain, health, ready, server_metrics
from .sets import (
    derive_set,
    download_set,
    freeze_set,
    frozen_set_from_job,
    frozen_set_id,
    get_set,
    list_sets,
    score_set,
    withdraw_set,
)

__all__ = [
    "PAGE",
    "SYSTEM",
    "Dialogue",
    "attach_replies",
    "by_system",
    "cancel_job",
    "combine",
    "create_key",
    "delete_bot",
    "delete_schedule",
    "derive_set",
    "download_set",
    "erase_dialogue",
    "explain",
    "follow_job",
    "format_times",
    "freeze_set",
    "frozen_set_from_job",
    "frozen_set_id",
    "get_bot",
    "get_index",
    "get_job",
    "get_log",
    "get_own_key",
    "get_rater",
    "get_schedule",
    "get_set",
    "health",
    "list_audit",
    "list_bots",
    "list_index_versions",
    "list_indexes",
    "list_ingests",
    "list_jobs",
    "list_keys",
    "list_logs",
    "list_rater_versions",
    "list_raters",
    "list_schedules",
    "list_sets",
    "metric_list",
    "metrics",
    "pair_with_candidates",
    "post_dialogues",
    "publish_index",
    "publish_rater",
    "put_bot",
    "put_schedule",
    "rate",
    "read_model",
    "read_page",
    "ready",
    "references",
    "replies",
    "reply_to_dialogues",
    "request_body",
    "retry_job",
    "revoke_key",
    "score",
    "score_set",
    "server_metrics",
    "start_job",
    "to_list",
    "verify",
    "withdraw_set",
]
