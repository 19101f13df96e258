"""From the executions of one statement to its reads: what has no scan, or none that is sure, is
read whole (serializability)."""

from __future__ import annotations

from turnstile_predicates.predicates import IsNull
from turnstile_spark.transactions.conflicts.conflict_check import Read
from turnstile_spark.transactions.reads.plan_reads import Mention, PlanReads
from turnstile_spark.transactions.reads.read_sets import _merge_reads, _of_group

PREDICATE = IsNull(("id",))
SCAN = Read("t", 3, PREDICATE, files=frozenset({"f"}))


def mention(*ids: int, table: str = "t") -> Mention:
    return Mention(table, 3, frozenset(ids))


def is_whole(reads: list[Read]) -> bool:
    return any(read.predicate is None and read.files is None and read.why for read in reads)


def test_a_mention_with_a_scan_in_any_execution_of_the_statement_is_read_by_its_filters() -> None:
    assert _of_group([PlanReads(mentions=[mention(1, 2)]), PlanReads(scans=[(mention(2, 1), SCAN)])]) == [SCAN]


def test_a_mention_without_a_scan_of_its_own_is_read_whole() -> None:
    assert is_whole(_of_group([PlanReads(mentions=[mention(1)])]))
    assert is_whole(_of_group([PlanReads(mentions=[mention(1)], scans=[(mention(2), SCAN)])])), "of another mention"
    assert is_whole(_of_group([PlanReads(mentions=[mention(1)], scans=[(mention(1, table="u"), SCAN)])])), (
        "of another table"
    )


def test_an_answer_from_statistics_is_a_read_of_the_whole_table_whatever_else_was_scanned() -> None:
    plan = PlanReads(mentions=[mention(1)], scans=[(mention(1), SCAN)], is_from_statistics=True)
    assert is_whole(_of_group([plan]))
    plan.cached.add("t")
    assert is_whole(_of_group([plan]))


def test_a_cached_table_is_read_as_the_cache_read_it() -> None:
    plan = PlanReads(mentions=[mention(1)], scans=[(mention(7), SCAN)], cached={"t"})
    assert _of_group([plan]) == [SCAN]


def test_files_that_a_command_chose_are_read_by_its_condition() -> None:
    command = Read("t", 3, PREDICATE)
    inner = [PlanReads(fixed_files=[(mention(1), frozenset({name}))]) for name in "fg"]
    (read,) = _of_group([*inner, PlanReads(commands=[(mention(1), command)])])
    assert (read.predicate, read.files) == (PREDICATE, {"f", "g"})


def test_files_of_which_not_all_are_known_are_not_listed() -> None:
    inner = PlanReads(fixed_files=[(mention(1), frozenset({"f"})), (mention(1), None)])
    (read,) = _of_group([inner, PlanReads(commands=[(mention(1), Read("t", 3, PREDICATE))])])
    assert read.files is None


def test_files_of_two_commands_on_a_table_are_not_distinguished() -> None:
    inner = PlanReads(fixed_files=[(mention(1), frozenset({"f"}))])
    commands = [(mention(1), Read("t", 3, PREDICATE)), (mention(1), Read("t", 4, PREDICATE))]
    assert [read.files for read in _of_group([inner, PlanReads(commands=commands)])] == [None, None]


def test_a_scan_of_files_that_no_command_of_the_statement_chose_reads_the_whole_table() -> None:
    assert is_whole(_of_group([PlanReads(fixed_files=[(mention(1), frozenset({"f"}))])]))
    elsewhere = PlanReads(commands=[(mention(2, table="u"), Read("u", 1, PREDICATE))])
    assert is_whole(_of_group([PlanReads(fixed_files=[(mention(1), frozenset({"f"}))]), elsewhere]))


def test_equal_reads_are_one_with_the_columns_of_all() -> None:
    reads = [Read("t", 3, PREDICATE, frozenset({(name,)})) for name in "ab"]
    assert _merge_reads(reads) == [Read("t", 3, PREDICATE, frozenset({("a",), ("b",)}))]
    assert _merge_reads([*reads, Read("t", 3, PREDICATE)]) == [Read("t", 3, PREDICATE)]
    assert _merge_reads([Read("t", 3, PREDICATE), *reads]) == [Read("t", 3, PREDICATE)]
    assert len(_merge_reads([*reads, Read("t", 4, PREDICATE)])) == 2
