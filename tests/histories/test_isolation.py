"""The isolation checker accepts correct histories, and names each kind of anomaly (I2, I8)."""

from __future__ import annotations

import random
from itertools import pairwise, permutations

import pytest

from tests.histories.isolation import (
    CYCLES,
    SERIALIZABLE,
    SNAPSHOT,
    TWO_WRITERS,
    UNWRITTEN,
    Transaction,
    check,
    violations,
)


def transaction(id: str, reads: str = "", writes: str = "", **times: int) -> Transaction:
    """Reads and writes as ``"a1 b2"``: objects a and b, versions 1 and 2."""
    began = times.get("began")
    ended = times.get("ended")
    return Transaction(id, _versions(reads), _versions(writes), began, ended)


def _versions(text: str) -> tuple[tuple[str, int], ...]:
    return tuple((part[0], int(part[1:])) for part in text.split())


PLANTED = {
    "G0": [transaction("s", writes="a1 b2"), transaction("t", writes="a2 b1")],
    "G1c": [transaction("s", "b1", "a1"), transaction("t", "a1", "b1")],
    # A lost update.
    "G-single": [transaction("s", "a0", "a1"), transaction("t", "a0", "a2")],
    # A long fork: two readers that see two writes in different orders.
    "G-nonadjacent": [
        transaction("s", writes="a1"),
        transaction("t", writes="b1"),
        transaction("u", "a1 b0"),
        transaction("v", "a0 b1"),
    ],
    # Write skew.
    "G2": [transaction("s", "a0 b0", "a1"), transaction("t", "a0 b0", "b1")],
}


@pytest.mark.parametrize("kind", CYCLES)
def test_i8_a_planted_cycle_is_reported_by_its_kind(kind: str) -> None:
    (anomaly,) = check(PLANTED[kind])
    assert anomaly.kind == kind, anomaly
    assert all(a.target == b.source for a, b in pairwise((*anomaly.edges, anomaly.edges[0])))
    assert {edge.source for edge in anomaly.edges} <= {planted.id for planted in PLANTED[kind]}


def test_i8_a_planted_cycle_is_reported_beside_thousands_of_transactions_that_are_right() -> None:
    for kind in CYCLES:
        (anomaly,) = check([*serial(2000, seed=1), *PLANTED[kind]])
        assert anomaly.kind == kind


def test_i8_a_reader_that_sees_a_part_of_a_transaction_is_reported() -> None:
    (anomaly,) = check([transaction("group", "a0 b0", "a1 b1"), transaction("reader", "a1 b0")])
    assert anomaly.kind == "G-single"
    assert [str(edge) for edge in anomaly.edges] == ["reader -rw(b)-> group", "group -wr(a)-> reader"]


def test_i8_a_read_that_is_not_repeatable_is_reported() -> None:
    (anomaly,) = check([transaction("writer", writes="a1"), transaction("reader", "a0 a1")])
    assert anomaly.kind == "G-single"


def test_i2_a_version_of_two_writers_is_reported() -> None:
    anomalies = check([transaction("s", writes="a1"), transaction("t", writes="a1")])
    assert [anomaly.kind for anomaly in anomalies] == [TWO_WRITERS]


def test_i2_a_read_of_a_version_that_was_never_written_is_reported() -> None:
    anomalies = check([transaction("s", writes="a1"), transaction("t", writes="a3"), transaction("u", "a2")])
    assert [anomaly.kind for anomaly in anomalies] == [UNWRITTEN]


def test_versions_below_the_first_write_are_the_state_at_the_start() -> None:
    assert check([transaction("s", "a4 b0", "a5"), transaction("t", "a5 b9")]) == []


def test_i6_an_answer_before_the_other_began_counts_only_in_real_time() -> None:
    """A reader that is told a state of before a write that was acknowledged."""
    history = [
        transaction("writer", writes="a1", began=1, ended=2),
        transaction("between", "b0", began=3, ended=4),
        transaction("reader", "a0", began=5, ended=6),
    ]
    assert check(history) == []
    (anomaly,) = check(history, real_time=True)
    assert (anomaly.kind, anomaly.in_real_time) == ("G-single", True)
    assert [str(edge) for edge in anomaly.edges] == ["reader -rw(a)-> writer", "writer -rt-> reader"]


def test_what_overlaps_may_be_in_either_order_in_real_time() -> None:
    reader = transaction("reader", "a0", began=2, ended=6)
    assert check([transaction("writer", writes="a1", began=1, ended=2), reader], real_time=True) == []


def test_a_transaction_without_a_known_end_may_be_at_any_time_after_it_began() -> None:
    history = [transaction("lost", writes="a1", began=1), transaction("reader", "a0", began=5, ended=6)]
    assert check(history, real_time=True) == []
    late = [transaction("reader", "a1", began=1, ended=2), transaction("lost", writes="a1", began=3)]
    assert [anomaly.kind for anomaly in check(late, real_time=True)] == ["G1c"], "it was read before it began"


def test_snapshot_isolation_excludes_every_kind_but_write_skew() -> None:
    excluded = {kind for kind in CYCLES if violations(check(PLANTED[kind]), SNAPSHOT)}
    assert excluded == set(CYCLES) - {"G2"}
    assert {kind for kind in CYCLES if violations(check(PLANTED[kind]), SERIALIZABLE)} == set(CYCLES)


def test_two_ids_that_are_the_same_are_refused() -> None:
    with pytest.raises(ValueError, match="one id"):
        check([transaction("s"), transaction("s")])


def serial(count: int, seed: int) -> list[Transaction]:
    """Transactions one after the other over four objects of their own, shuffled; with readers of
    past moments."""
    rng = random.Random(seed)
    latest = dict.fromkeys("wxyz", 0)
    cuts = [{"w": 0}]
    history = []
    for number in range(count):
        if rng.random() < 0.5:
            history.append(Transaction(f"cut {number}", tuple(rng.choice(cuts).items())))
            continue
        names = rng.sample("wxyz", rng.randint(1, 4))
        reads = tuple((name, latest[name]) for name in names)
        written = names[: rng.randint(1, len(names))]
        for name in written:
            latest[name] += 1
        cuts.append(dict(latest))
        writes = tuple((name, latest[name]) for name in written)
        history.append(Transaction(f"write {number}", reads, writes, 2 * number, 2 * number + 1))
    rng.shuffle(history)
    return history


@pytest.mark.parametrize("seed", range(5))
def test_i8_a_serial_history_in_any_order_is_right_also_in_real_time(seed: int) -> None:
    assert check(serial(3000, seed), real_time=True) == []


@pytest.mark.parametrize("seed", range(20))
def test_i8_a_read_of_one_version_earlier_is_noticed(seed: int) -> None:
    """A history that a coordinator without checks of reads would accept: a transaction on a version
    that was not the latest."""
    history = [t for t in serial(400, seed) if t.writes]
    rng = random.Random(seed)
    late = [t for t in history if any(name in dict(t.writes) and version > 0 for name, version in t.reads)]
    stale = rng.choice(late)
    name = next(name for name, version in stale.reads if name in dict(stale.writes) and version > 0)
    reads = tuple((other, version - (other == name)) for other, version in stale.reads)
    spoilt = [Transaction(t.id, reads, t.writes) if t is stale else t for t in history]
    assert [anomaly.kind for anomaly in check(spoilt)] == ["G-single"]


# -- beside definitions that need no graph ----------------------------------------------------------------------------


def arbitrary(rng: random.Random) -> list[Transaction]:
    """Up to four transactions over two objects, with reads of any version that there is."""
    ids = "stuv"[: rng.randint(2, 4)]
    latest = {"a": 0, "b": 0}
    writes: dict[str, list[tuple[str, int]]] = {id: [] for id in ids}
    for name in "ab":
        writers = rng.sample(ids, rng.randint(0, len(ids)))
        latest[name] = len(writers)
        for version, id in enumerate(writers, 1):
            writes[id].append((name, version))
    history = []
    for id in ids:
        reads = [
            (name, version)
            for name in latest
            if (version := rng.randint(-1, latest[name])) >= 0 and (name, version) not in writes[id]
        ]
        history.append(Transaction(id, tuple(reads), tuple(writes[id])))
    return history


def is_serializable(history: list[Transaction]) -> bool:
    """Whether the transactions, one after the other in some order, make the same reads and
    writes."""
    return any(_explains(order) for order in permutations(history))


def _explains(order: tuple[Transaction, ...]) -> bool:
    state = {"a": 0, "b": 0}
    for transaction in order:
        if any(state[name] != version for name, version in transaction.reads):
            return False
        if any(state[name] != version - 1 for name, version in transaction.writes):
            return False
        state |= dict(transaction.writes)
    return True


def is_of_snapshots(
    waiting: frozenset[Transaction], running: frozenset[tuple[Transaction, int, int]], a: int = 0, b: int = 0
) -> bool:
    """Whether they do if each reads at one moment and writes at a later one, and no other
    transaction writes its objects meanwhile. ``running`` have read, at versions of a and b."""
    if not waiting and not running:
        return True
    state = {"a": a, "b": b}
    for transaction in waiting:
        if all(state[name] == version for name, version in transaction.reads):
            begun = running | {(transaction, a, b)}
            if is_of_snapshots(waiting - {transaction}, begun, a, b):
                return True
    for transaction, *start in running:
        at_start = dict(zip("ab", start, strict=True))
        if all(state[name] == at_start[name] == version - 1 for name, version in transaction.writes):
            after = state | dict(transaction.writes)
            if is_of_snapshots(waiting, running - {(transaction, *start)}, after["a"], after["b"]):
                return True
    return False


def test_i8_the_graph_is_without_a_cycle_exactly_if_some_order_explains_the_history() -> None:
    rng = random.Random(7)
    kinds = set()
    for _ in range(3000):
        history = arbitrary(rng)
        anomalies = check(history)
        assert (anomalies == []) == is_serializable(history), (history, anomalies)
        kinds |= {anomaly.kind for anomaly in anomalies}
    assert kinds == set(CYCLES), "every kind is among them"


def test_i8_what_snapshot_isolation_allows_is_exactly_what_has_reads_and_writes_at_two_moments() -> None:
    rng = random.Random(7)
    kinds = set()
    for _ in range(3000):
        history = arbitrary(rng)
        anomalies = check(history)
        is_allowed = violations(anomalies, SNAPSHOT) == []
        assert is_allowed == is_of_snapshots(frozenset(history), frozenset()), (history, anomalies)
        kinds |= {anomaly.kind for anomaly in anomalies}
    assert kinds == set(CYCLES), "every kind is among them"
