"""The log line of a refused commit: the loser, the table with its version, and the winner."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from turnstile.api.http.request import current, note
from turnstile.delta.core.decide import Conflict

WINNERS_MAX: Final = 3
"""Winners of a table that are named: the newest."""

TABLES_MAX: Final = 10
"""Tables of a transaction that are named."""


def note_conflicts(lost: Sequence[tuple[str, Conflict]], proposal: str) -> None:
    """Records that other commits won against this request's commits to the tables ``lost`` (id and
    decision).

    ``proposal`` is the loser's name of its commit: the name of its file, or the id of its
    transaction. Costs no request: winners are in the row that refused (I6).
    """
    conflicts = [
        {
            "table_id": table_id,
            "because": decision.because,
            "latest": decision.latest,
            "winners": [
                {"version": winner.version, "transaction": winner.entry.txn, "operation": winner.entry.operation}
                for winner in decision.winners[:WINNERS_MAX]
            ],
        }
        for table_id, decision in lost[:TABLES_MAX]
    ]
    client = current().headers.get("user-agent", "")[:100]
    note(outcome="conflict", proposal=proposal, client=client, conflicts=conflicts)
