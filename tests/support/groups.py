"""Groups of commits as tests request them, and their answers."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any

from tests.support.delta_table import Table, inline_request
from turnstile.delta.commits import read_head
from turnstile.delta.core.decide import Conflict
from turnstile.delta.proposals import CommitRequest, GroupRequest, ReadVersion
from turnstile.delta.ratify import Ratifier
from turnstile.delta.transactions.groups import GroupRatified, GroupRatifier, GroupRefused
from turnstile.delta.transactions.journal import Journal
from turnstile.store.ports import World


def groups(world: World, **more: Any) -> GroupRatifier:
    """As a sandbox that has seen nothing yet."""
    return GroupRatifier(world, Ratifier(world), **more)


def journal(world: World) -> Journal:
    """As a sandbox that has seen nothing yet."""
    return Journal(world, groups(world))


def group(*commits: CommitRequest, reads: Sequence[ReadVersion] = (), id: str = "") -> GroupRequest:
    return GroupRequest(id or str(uuid.uuid4()), commits, tuple(reads))


def appends(tables: Sequence[Table], txn: str = "t", **more: Any) -> GroupRequest:
    """The next version of each table."""
    return group(*(inline_request(table, table.head.latest + 1, f"{txn}-{table.id}") for table in tables), **more)


def latest(tables: Sequence[Table]) -> list[int]:
    """The latest version of each table, as readers see it."""
    return [read_head(table.world, table.id).latest for table in tables]


def ratified(answer: GroupRatified | GroupRefused) -> GroupRatified:
    assert isinstance(answer, GroupRatified), answer
    return answer


def refused(answer: GroupRatified | GroupRefused) -> list[tuple[str, int, str]]:
    """The refusing member: a commit or a read, its place in the request, and the reason."""
    assert isinstance(answer, GroupRefused), answer
    return [
        (
            "read" if member.was_read else "commit",
            member.index,
            member.decision.because if isinstance(member.decision, Conflict) else member.decision.kind,
        )
        for member in answer.members
    ]
