"""What the report of a VHCR says of its conversations, and that of a network with heads of these."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def part_facts(report: Mapping[str, Any]) -> dict[str, object]:
    """Return facts of the parts that a network has beside a VHRED."""
    facts = dict[str, object]()
    if "kl_conversation" in report:
        facts["kl_conversation"] = (
            f"{report['kl_conversation']:.4f} nats a conversation, variable {report['latent_conversation']}"
        )
        facts["active_units"] = (
            f"{report['active_units']} of a turn's, {report['active_units_conversation']} of a conversation's"
        )
        facts["skipped_dialogues"] = sum(report["skipped_dialogues"].values())  # of one exchange
    for head, losses in report.get("heads", {}).items():
        facts[head] = f"loss {losses['loss']:.4f}, {losses['constant_loss']:.4f} of a constant head"
    return facts
