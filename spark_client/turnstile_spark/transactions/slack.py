"""By how many versions tables that a transaction only reads may be behind when it commits
(docs/isolation.md, "Slack")."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from turnstile_spark.transactions.conflicts.conflict_check import Isolation

Slack = int | Mapping[str, int]
"""Of all tables, or by name, ``namespace.table``."""
#: The most that the server takes.
SLACK_MAX = 1_000_000


def check_slack(slack: Slack, isolation: Isolation) -> None:
    """Raises ``ValueError`` for a slack that is no number of versions, or has no meaning under this
    isolation."""
    by_table: dict[str, Any] = {"": slack} if isinstance(slack, int) else dict(slack)
    for name, versions in by_table.items():
        where = f"slack[{name!r}]" if name else "slack"
        if not isinstance(slack, int) and not all(name.partition(".")[::2]):
            raise ValueError(f"{where}: name a table of the lake as 'namespace.table'")
        if isinstance(versions, bool) or not isinstance(versions, int) or not 0 <= versions <= SLACK_MAX:
            raise ValueError(f"{where}={versions!r}: a number of versions, 0 to {SLACK_MAX}")
    if isolation != "serializable" and any(by_table.values()):
        raise ValueError(
            f"slack with isolation={isolation!r}: it is for 'serializable'; under 'snapshot' no read is judged"
        )


def slack_of(slack: Slack, table: str) -> int:
    """That of one table, ``namespace.table``."""
    return (
        slack if isinstance(slack, int) else {name.casefold(): n for name, n in slack.items()}.get(table.casefold(), 0)
    )
