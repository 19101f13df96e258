"""Records of findings about the changes of a branch: a program that reads large tables, such as
Spark, checks expectations that the server cannot (``expectations.core.findings``).

A record is about one state: exactly these versions of tables and entities of names. Another state
has other records, as has a branch that was dropped and made again under the name. A record is
written once under the state and a number, and ends with its branch. It is trusted: only a principal
that may promote the tables writes it (``promotion``).
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Annotated, Final

import msgspec

from turnstile.branches.comparison import Comparison
from turnstile.expectations.core.findings import Finding
from turnstile.store.core.errors import ErrorType, StateConflict, TooLarge
from turnstile.store.core.rows import CHECKS
from turnstile.store.ports import Obj, World

RECORDS_MAX: Final = 16
"""Records of one state."""
RECORD_BYTES: Final = 256 * 1024
_AFTER_END_S: Final = 86_400
"""How long a record outlives the end of its branch: gc drops the branch by then."""


class BranchFindings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``POST .../checks``; ``state``: of the changes that ``findings`` are about."""

    state: Annotated[str, msgspec.Meta(min_length=1)]
    findings: Annotated[list[Finding], msgspec.Meta(min_length=1, max_length=1_000)]


class Record(msgspec.Struct, frozen=True, omit_defaults=True):
    """Findings of one check; ``by``: the principal that sent them; ``at``: when (ms)."""

    by: str
    at: int
    findings: list[Finding]


class Answers:
    """The findings of records; of two for the same expectation the later one counts."""

    def __init__(self, records: Sequence[Record]) -> None:
        self._found = {finding.key: (finding, record) for record in records for finding in record.findings}

    def find(self, table: str, expectation: str, text: str) -> tuple[Finding, Record] | None:
        """Returns the finding for an expectation of a table, with its record."""
        return self._found.get((table, expectation, text))


class Records:
    """The records of the branch of a comparison."""

    def __init__(self, world: World, plan: Comparison) -> None:
        self._world = world
        self._space = world.space.objs(plan.branch.catalog)
        self._branch = plan.base.branch
        self._expires_s = plan.base.until // 1000 + _AFTER_END_S

    def read(self, state: str) -> list[Record]:
        """Returns the records of a state, the oldest first. Costs one request."""
        ids = [_id(state, number) for number in range(RECORDS_MAX)]
        found = self._world.objs.get_many(self._space, ids)
        return [found[id].decode_with(_DECODER.decode) for id in ids if id in found]

    def add(self, state: str, record: Record) -> None:
        """Writes a record, unless its principal has written the same findings before. Raises
        TooLarge for one that is too long, or one too many."""
        payload = _ENCODER.encode(record)
        if len(payload) > RECORD_BYTES:
            raise TooLarge(
                f"the findings have {len(payload)} bytes",
                field="findings",
                remedy="send those of fewer tables, or shorter examples",
                limit=RECORD_BYTES,
                size=len(payload),
            )
        known = self.read(state)
        if any((each.by, each.findings) == (record.by, record.findings) for each in known):
            return
        created_us = self._world.clock.now_ms() * 1000
        for number in range(len(known), RECORDS_MAX):
            try:
                obj = Obj(self._space, _id(state, number), CHECKS.name, payload, created_us, self._expires_s)
                self._world.objs.put(obj)
            except ValueError:  # another writer has this number
                continue
            return
        problem = f"these changes of branch '{self._branch}' have {RECORDS_MAX} records of checks"
        remedy = "change a table of the branch, and check again"
        raise TooLarge(problem, field="state", remedy=remedy, limit=RECORDS_MAX, size=RECORDS_MAX + 1)


def state_of(plan: Comparison, created: Mapping[str, int]) -> str:
    """Identifies the changes of a branch: the versions of its tables, of the ``created`` ones, too,
    and the entities of names."""
    tables = sorted((table.own.table_id, table.own.latest) for table in plan.tables if not table.change.is_empty)
    names = [(each.path, each.kind, None if each.after is None else each.after.obj) for each in plan.names]
    content = msgspec.json.encode([plan.base.branch, plan.base.created, tables, names, sorted(created.items())])
    return hashlib.sha256(content).hexdigest()[:32]


def other_state(plan: Comparison, remedy: str) -> StateConflict:
    """Returns the refusal of a request for a state that the branch has not."""
    problem = f"branch '{plan.base.branch}' has other changes than those of the state that was given"
    return StateConflict(ErrorType.BRANCH_CONFLICT, problem, field="state", remedy=remedy, conflicts=[problem], count=1)


def _id(state: str, number: int) -> str:
    return CHECKS.id(f"{state}/{number:02d}")


_ENCODER: Final = msgspec.msgpack.Encoder()
_DECODER: Final = msgspec.msgpack.Decoder(Record)
