"""Recovery of a transaction that lost: it is put on top of the winning commits, if they changed
nothing that it wrote or read.

The server compares versions. Here the commits in between are read and checked by their files
(:mod:`turnstile_spark.transactions.conflicts.conflict_check`), and the transaction's own commits
are rewritten for later versions (:mod:`turnstile_spark.transactions.conflicts.rebase`). Data files
are never written again. Source: LakeVilla, recovery; TreeCat, precision locking.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from turnstile_predicates.file_stats import TableSchema
from turnstile_predicates.predicates import Or
from turnstile_predicates.sql import sql_of
from turnstile_spark.context import LakeContext
from turnstile_spark.delta.log_files import STAGED
from turnstile_spark.errors import TransactionConflict
from turnstile_spark.transactions.conflicts.conflict_check import Isolation, Read, Winner, assess, judged_reads, parse
from turnstile_spark.transactions.conflicts.rebase import CannotRebase, TableHead, rebase
from turnstile_spark.transactions.scopes.scope import ScopedTable


@dataclass(frozen=True, slots=True)
class Later:
    """The new base of a table's part of the transaction: on top of ``base``. ``content``: its
    commit for the version after that; None for a table that was only read, whose reads are valid in
    ``base``. ``predicate``: of the reads' rows, by which the server checks commits after ``base``;
    empty: of any.
    """

    base: int
    content: str | None
    predicate: str = ""


class Reconciler:
    """The state of one transaction. ``tables``: its tables, by id; ``own``: the commit of each that
    it writes, as made for the version after the cut; ``reads``: returns its reads, called at the
    first conflict and under ``serializable`` only; ``slack``: by how many versions a table that is
    only read may be behind, by id, where it may.
    """

    def __init__(
        self,
        lake: LakeContext,
        isolation: Isolation,
        tables: Mapping[str, ScopedTable],
        own: Mapping[str, str],
        reads: Callable[[], Mapping[str, list[Read]]],
        *,
        slack: Mapping[str, int] | None = None,
    ) -> None:
        self._lake = lake
        self._isolation = isolation
        self._tables = tables
        self._own = own
        self._reads_of = reads
        self._slack = slack or {}
        self._winners: dict[str, list[Winner]] = {}
        self._reads: Mapping[str, list[Read]] | None = None

    def put_on_top(self, conflict: TransactionConflict) -> dict[str, Later]:
        """The parts of the tables that ``conflict`` names, on top of their winners. Raises
        ``conflict``, with the reasons, where a winner matters; then the statements have to run
        again.
        """
        later: dict[str, Later] = {}
        reasons: list[str] = []
        for member in conflict.members:
            table = self._tables.get(str(member.get("table_id")))
            if table is None or member.get("type") != "CommitVersionConflict":
                raise conflict
            try:
                outcome = self._part(table, int(member["latest"]))
            except CannotRebase as e:
                outcome = [str(e)]
            if isinstance(outcome, Later):
                later[table.state.table_id] = outcome
            else:
                reasons += [f"{table.state.name}: {reason}" for reason in outcome]
        if reasons or not later:
            raise conflict.with_reasons(reasons)
        return later

    def _part(self, table: ScopedTable, latest: int) -> Later | list[str]:
        """The part of one table on top of version ``latest``, or why that is not possible."""
        table_id = table.state.table_id
        content = self._own.get(table_id)
        if content is None:  # what was read has to hold in a version that is behind by no more than the slack (R1)
            latest = max(table.base, latest - self._slack.get(table_id, 0))
        winners = self.winners(table, latest)
        own = [] if content is None else parse(content)
        schema = TableSchema.of_loaded(table.state.metadata)
        assessment = assess(self._reads_in(table_id), own, winners, self._isolation, schema=schema, base=table.base)
        if not assessment.is_rebase:
            return [str(conflict) for conflict in assessment.conflicts[:5]]
        if content is None:
            return Later(latest, None, predicate_of_reads(self._reads_in(table_id), table.base))
        base = TableHead.before(own, table.base)
        actions = rebase(own, base, base.after(winners))
        return Later(latest, "".join(json.dumps(action, separators=(",", ":")) + "\n" for action in actions))

    def _reads_in(self, table_id: str) -> list[Read]:
        if self._isolation == "snapshot":
            return []
        if self._reads is None:
            self._reads = self._reads_of()
        return self._reads.get(table_id, [])

    def winners(self, table: ScopedTable, latest: int) -> list[Winner]:
        """The commits of a table after the cut up to ``latest``. Commits that were read before are
        cached. Raises :class:`CannotRebase` when they cannot be read."""
        table_id = table.state.table_id
        winners = self._winners.setdefault(table_id, [])
        first = table.base + 1 + len(winners)
        if first <= latest:
            tail = self._lake.api.commits(table_id, first, latest)
            files = {c.version: f"{STAGED}/{c.name}" for c in tail.commits if not c.published}
            for version in range(first, latest + 1):
                winners.append(Winner.parse(version, self._content(table, files.get(version, f"{version:020d}.json"))))
        return winners[: latest - table.base]

    def _content(self, table: ScopedTable, file: str) -> str:
        """The lines of a commit's file, by the log store of the table."""
        log = table.delta_log
        if log is None:
            raise CannotRebase("its log was not opened in the transaction")
        path = self._lake.jvm.new("org.apache.hadoop.fs.Path", f"{log.logPath().toString()}/{file}")
        return str(log.store().read(path, log.newDeltaHadoopConf()).mkString("\n"))


def predicate_of_reads(reads: Sequence[Read], base: int) -> str:
    """The rows that these reads of one table were of, as the server reads predicates; empty where
    they may have been any."""
    of_now = judged_reads(reads, base)
    predicates = [read.predicate for read in of_now if read.predicate is not None]
    if not of_now or len(predicates) < len(of_now):
        return ""
    return sql_of(Or(tuple(dict.fromkeys(predicates)))) or ""
