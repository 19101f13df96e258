"""Recovery of a transaction that lost: it moves to a new cut, and only the affected statements run
again.

:mod:`turnstile_spark.transactions.recovery.replay_choice` decides for each statement. Here the
winning commits are read, kept commits are held at the new cut, and statements are run. Nothing of
this is visible to others: the resulting group is proposed as any other, and the server's condition
decides (I8). Source: LakeVilla, recovery.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from turnstile_http.errors import ApiError
from turnstile_predicates.file_stats import TableSchema
from turnstile_spark.context import LakeContext
from turnstile_spark.errors import TransactionConflict, TurnstileError
from turnstile_spark.transactions.conflicts.conflict_check import Winner
from turnstile_spark.transactions.conflicts.fold import CannotFold, fold
from turnstile_spark.transactions.conflicts.rebase import CannotRebase
from turnstile_spark.transactions.recovery.replay_choice import (
    MovedTable,
    Replay,
    Statement,
    at_cut,
    content_of,
    explain_refusal,
    refusal,
)
from turnstile_spark.transactions.recovery.statements import Recorded, Statements
from turnstile_spark.transactions.scopes.scope import Held, Scope, ScopedTable

#: How often a transaction moves to a new cut before its conflict is raised.
REPLAYS = 5
#: Seconds: the pause before the first replay is a random part of it, that before the next of twice
#: as much, and so on.
PAUSE_S = 0.05
LONGEST_PAUSE_S = 5.0


@dataclass(frozen=True, slots=True)
class Plan:
    """A replay that is not refused. ``cut``: the new versions, by table id; ``tables``: at both
    cuts; ``statements``: as they were."""

    conflict: TransactionConflict
    cut: Mapping[str, int]
    tables: Mapping[str, MovedTable]
    statements: Sequence[Statement]


class Replayer:
    """Replays one transaction, at most ``limit`` times, and begins none later than ``until``
    (``time.monotonic``; None: no such limit). ``jitter``: a number from 0 to 1.

    ``count``: how often it did; ``kept``, ``run_again``: statements, summed over all of these.
    """

    def __init__(
        self,
        lake: LakeContext,
        statements: Statements,
        *,
        limit: int,
        until: float | None,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self._lake = lake
        self._statements = statements
        self._limit = limit
        self._until = until
        self._jitter = jitter
        self.count = self.kept = self.run_again = 0

    def plan(
        self,
        conflict: TransactionConflict,
        latest: Callable[[list[str]], dict[str, int]],
        winners: Callable[[ScopedTable, int], list[Winner]],
    ) -> Plan:
        """Pauses, takes a new cut, and says whether the transaction can be moved there. ``latest``:
        of each of these tables, by id, at one moment; ``winners``: of a table, up to a version.
        Raises ``conflict``, with the reason why not.
        """
        if self.count >= self._limit:
            raise _conflict(conflict, f"it has been replayed {self.count} times")
        pause = self._jitter() * min(LONGEST_PAUSE_S, PAUSE_S * 2**self.count)
        if self._until is not None and time.monotonic() + pause >= self._until:
            raise _conflict(conflict, "the time for replays is over")
        time.sleep(pause)
        self.count += 1
        scope = self._statements.scope
        if scope.changes:
            raise _conflict(conflict, "a transaction that changes the catalog is not replayed")
        if scope.catalog_reads is not None and scope.catalog_reads.has_answers:
            raise _conflict(conflict, "a transaction that lists or searches the catalog is not replayed")
        statements = [entry.statement(scope) for entry in self._statements.entries]
        try:
            cut = latest(list(scope.tables()))
            tables = {table_id: _move(table, cut, winners) for table_id, table in scope.tables().items()}
        except (ApiError, CannotRebase) as e:
            raise _conflict(conflict, str(e)) from None
        except KeyError as e:
            raise _conflict(conflict, f"table {e} is not there any more") from None
        if why := refusal(statements, tables):
            raise _conflict(conflict, why)
        return Plan(conflict, cut, tables, statements)

    def run(self, plan: Plan, scope: Scope) -> None:
        """Keeps and runs the statements in ``scope``, a fresh one at the plan's cut that the
        calling thread is in. Raises the plan's conflict, with the reason, when a statement fails or
        cannot run again.
        """
        replay = Replay(plan.tables)
        entries = self._statements.start_over(scope)
        for recorded, statement in zip(entries, plan.statements, strict=True):
            reason = replay.reason(statement)
            if not reason:
                try:
                    self._keep(scope, plan, recorded, statement, replay)
                    self.kept += recorded.text is not None
                    continue
                except CannotRebase as e:
                    reason = str(e)
                except CannotFold as e:
                    raise _conflict(plan.conflict, f"{recorded.name} is kept, but {e}") from None
            if statement.obstacle:
                raise _conflict(plan.conflict, explain_refusal(statement, reason))
            if not self._statements.is_as_it_was(recorded):
                changed = replace(statement, obstacle="the settings of the session are others than when it ran")
                raise _conflict(plan.conflict, explain_refusal(changed, reason))
            try:
                again = self._statements.run_again(recorded)
            except Exception as e:
                why = (
                    f"{recorded.name} ran again ({reason}), and failed: "
                    f"{str(e).splitlines()[0] if str(e) else type(e).__name__}"
                )
                raise _conflict(plan.conflict, why) from e
            replay.ran_again(statement, again.statement(scope).commits)
            self.run_again += 1

    def _keep(self, scope: Scope, plan: Plan, recorded: Recorded, statement: Statement, replay: Replay) -> None:
        """Holds a statement's commits in ``scope``. Raises :class:`CannotRebase` before anything is
        held."""
        placed = replay.reuse_commits(statement)
        for table_id, commits in placed.items():
            table = scope.tables()[table_id]
            for held, old, actions in zip(recorded.held[table_id], statement.commits[table_id], commits, strict=True):
                self._hold(scope, table, held, None if actions == old else content_of(actions))
        cut = plan.cut
        tables = plan.tables
        reads = [
            moved
            for table_id, some in statement.reads.items()
            for moved in at_cut(some, tables[table_id].base, cut[table_id])
        ]
        held_now = {table_id: scope.tables()[table_id].held[-len(commits) :] for table_id, commits in placed.items()}
        self._statements.keep(recorded, reads, held_now)

    def _hold(self, scope: Scope, table: ScopedTable, held: Held, content: str | None) -> None:
        """Holds a commit as the next version of a table. ``content``: its content there, if it is
        another. Raises :class:`CannotFold` when one version of the table cannot have the held
        commits and this one.
        """
        version = table.latest + 1
        file = table.files
        assert file is not None, "a commit was held"
        fold([*(earlier.content for earlier in table.held), content or held.content], table.base + 1, "")
        folder = file.path.rpartition("/")[0]
        if content is None and version == held.commit.version:
            file = replace(file, path=f"{folder}/{held.commit.name}", content=held.content)  # it is there
        else:
            held = Held.of(version, held.content if content is None else content)
            file = replace(file, path=f"{folder}/{held.commit.name}", content=held.content)
            self._lake.files.write(file, durable=len(held.content) > self._lake.inline_limit)
        if not scope.hold(table, held, file):
            raise TurnstileError(desc="[TURNSTILE_REFUSED] another thread writes in the transaction", stackTrace="")


def _move(
    table: ScopedTable, cut: Mapping[str, int], winners: Callable[[ScopedTable, int], list[Winner]]
) -> MovedTable:
    version = cut[table.state.table_id]
    schema = TableSchema.of_loaded(table.state.metadata)
    return MovedTable(table.state.name, table.base, winners(table, version), schema)


def _conflict(conflict: TransactionConflict, why: str) -> TransactionConflict:
    return conflict.with_reasons([*conflict.reasons, f"not replayed: {why}"])
