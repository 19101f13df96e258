"""Requests with rows that wait in one process become one commit, and each gets its own answer
(I26)."""

from __future__ import annotations

import contextlib
import copy
import json
import threading
import uuid
from collections.abc import Callable
from typing import Any, Final

import pytest

from tests.support.fakes import delta
from tests.support.lake import ORDERS, Lake, make_lake
from turnstile.catalog.changes.idempotency import KeyReused
from turnstile.delta.metadata import MetadataStore
from turnstile.delta.ratify import Ratifier
from turnstile.delta.transactions.groups import GroupRatifier
from turnstile.ingest import turns
from turnstile.ingest.appends import RowAppender
from turnstile.ingest.core.bodies import LINES
from turnstile.ingest.core.errors import InvalidRows
from turnstile.ingest.core.files import encode_parts
from turnstile.ingest.core.identity import Identity, identity_of
from turnstile.ingest.turns import Appended, RowsRequest
from turnstile.store.core.errors import OutcomeUnknown, TooLarge
from turnstile.store.ports import AllAccepted

KEYS: Final = uuid.UUID(int=1)


class Held(GroupRatifier):
    """Holds its first commit until it is let go."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.entered = threading.Event()
        self.release = threading.Event()
        self.calls = 0

    def commit(self, group: Any) -> Any:
        self.calls += 1
        if self.calls == 1:
            self.entered.set()
            assert self.release.wait(60)
        return super().commit(group)


@pytest.fixture
def lake() -> Lake:
    return make_lake()


def key(number: int) -> Identity:
    return identity_of("ann", str(uuid.uuid5(KEYS, str(number))), None, None)


def request(id: int, identity: Identity | None = None, body: bytes | None = None) -> RowsRequest:
    return RowsRequest(ORDERS, body or b'{"id":%d}' % id, LINES, identity or key(id))


def appender_of(lake: Lake, kind: type[GroupRatifier] = GroupRatifier) -> tuple[RowAppender, Any]:
    world = lake.world
    groups = kind(world, Ratifier(world))
    return RowAppender(world, groups, MetadataStore(world.objs, world.space)), groups


def together(lake: Lake, requests: list[RowsRequest]) -> list[Any]:
    """The outcomes of requests that come while a first one is written."""
    appender, groups = appender_of(lake, Held)
    answers: dict[int, Any] = {}

    def send(at: int, one: RowsRequest) -> None:
        try:
            answers[at] = appender.append("main", one)
        except Exception as error:
            answers[at] = error

    threads = [threading.Thread(target=send, args=(-1, request(1_000)))]
    threads[0].start()
    assert groups.entered.wait(60)
    for at, one in enumerate(requests):
        threads.append(threading.Thread(target=send, args=(at, one)))
        threads[-1].start()
    line = appender._queue._lines[ORDERS]
    while len(line.waiting) <= len(requests):
        threading.Event().wait(0.001)
    groups.release.set()
    for thread in threads:
        thread.join(60)
    assert isinstance(answers.pop(-1), Appended)
    return [answers[at] for at in range(len(requests))]


def actions(lake: Lake, version: int) -> list[dict[str, Any]]:
    commits = {one["version"]: one for one in lake.get("commits", content="true").json["commits"]}
    return [json.loads(line) for line in commits[version]["content"].splitlines()]


def test_i26_requests_that_wait_are_one_commit_with_one_file(lake: Lake) -> None:
    answers = together(lake, [request(number) for number in range(5)])
    (version,) = {answer.version for answer in answers}
    assert [answer.rows for answer in answers] == [1] * 5
    adds = [action["add"] for action in actions(lake, version) if "add" in action]
    assert [json.loads(add["stats"])["numRecords"] for add in adds] == [5]


def test_i26_a_request_whose_rows_do_not_fit_is_refused_alone(lake: Lake) -> None:
    good, bad, other = together(lake, [request(1), request(2, body=b'{"id":"x"}'), request(3)])
    assert isinstance(bad, InvalidRows)
    assert good.version == other.version


def test_i26_the_same_request_twice_in_one_line_is_added_once(lake: Lake) -> None:
    first, second = together(lake, [request(1), request(1)])
    assert first.version == second.version
    assert sorted((first.replayed, second.replayed)) == [False, True]


def test_i26_each_request_of_a_commit_is_recognised_by_another_process(lake: Lake) -> None:
    answers = together(lake, [request(number) for number in range(3)])
    other, _ = appender_of(lake)
    for number, answer in enumerate(answers):
        again = other.append("main", request(number))
        assert again == Appended(answer.version, None, replayed=True)


def test_i26_other_rows_under_the_identity_of_a_request_are_refused(lake: Lake) -> None:
    appender, _ = appender_of(lake)
    appender.append("main", request(1))
    with pytest.raises(KeyReused):
        appender.append("main", request(1, body=b'{"id":2}'))


def test_i26_the_identity_of_a_request_is_its_principals(lake: Lake) -> None:
    appender, _ = appender_of(lake)
    first = appender.append("main", request(1))
    other = identity_of("ben", key(1).key, None, None)
    second = appender.append("main", request(1, other))
    assert isinstance(first, Appended) and isinstance(second, Appended)
    assert second.version == first.version + 1 and not second.replayed


def test_requests_of_too_many_bytes_for_one_commit_are_several(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "_TURN_BYTES", 20)
    answers = together(lake, [request(number) for number in range(5)])
    versions = sorted(answer.version for answer in answers)
    assert versions[0] < versions[-1]
    assert sorted({*versions}) == list(range(versions[0], versions[-1] + 1))


def test_requests_of_too_many_partitions_for_one_commit_are_several(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each fits alone."""

    def encode(requests: Any, definition: Any) -> Any:
        if len(requests) > 2:
            raise TooLarge("too many partitions")
        return encode_parts(requests, definition)

    monkeypatch.setattr(turns, "encode_parts", encode)
    answers = together(lake, [request(number) for number in range(5)])
    assert all(isinstance(answer, Appended) for answer in answers)
    assert len({answer.version for answer in answers}) >= 3


def test_i26_a_request_is_recognised_by_a_head_that_was_read_before_its_commit(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The HEAD and the row of a request are read together, and not as of one moment."""
    appender, _ = appender_of(lake)
    table = lake.world.space.table(ORDERS)
    before = copy.deepcopy(lake.world.refs.rows[table])
    added = appender.append("main", request(1))
    assert isinstance(added, Appended)
    read_many = lake.world.refs.read_many

    def with_old_head(keys: Any) -> Any:
        monkeypatch.undo()
        return {**read_many(keys), table: before}

    monkeypatch.setattr(lake.world.refs, "read_many", with_old_head)
    assert appender.append("main", request(1)) == Appended(added.version, None, replayed=True)


def test_i26_another_process_that_adds_a_request_first_makes_it_a_replay(lake: Lake) -> None:
    """Both have looked for the request before either adds it."""
    other, _ = appender_of(lake)
    first: list[Any] = []

    class Overtaken(GroupRatifier):
        def commit(self, group: Any) -> Any:
            if not first:
                first.append(other.append("main", request(1)))
            return super().commit(group)

    appender, _ = appender_of(lake, Overtaken)
    assert appender.append("main", request(1)) == Appended(first[0].version, None, replayed=True)


def test_i26_a_transaction_whose_first_answer_was_lost_is_this_very_commit(lake: Lake) -> None:
    """The adapter sends a transaction again by itself, and the second copy is refused."""
    appender, _ = appender_of(lake)
    refs = lake.world.refs
    transact = refs.transact

    def twice(writes: Any, token: str) -> Any:
        refs.transact = transact
        assert isinstance(transact(writes, token), AllAccepted)
        return transact(writes, token + "/again")

    refs.transact = twice
    version = lake.head.latest + 1
    assert appender.append("main", request(1)) == Appended(version, 1, replayed=False)
    assert lake.head.latest == version


def test_i26_a_table_that_changes_at_every_attempt_refuses_and_adds_nothing(lake: Lake) -> None:
    class Changing(GroupRatifier):
        def commit(self, group: Any) -> Any:
            content = delta.lines(delta.info(str(uuid.uuid4()), lake.now()), delta.metadata(x=str(uuid.uuid4())))
            answer = lake.inline(lake.head.latest + 1, content)
            assert answer.status == 200, answer.text
            return super().commit(group)

    appender, _ = appender_of(lake, Changing)
    refused = appender.append("main", request(1))
    assert refused is turns.CHANGING
    assert lake.world.space.request("main", "ann", f"rows/{ORDERS}/{key(1).text}") not in lake.world.refs.rows


def test_i26_a_table_that_changes_once_gets_the_rows_by_its_new_definition(lake: Lake) -> None:
    schema = json.dumps({"type": "struct", "fields": [
        {"name": name, "type": "long", "nullable": True, "metadata": {}} for name in ("id", "n")]})  # fmt: skip
    changed: list[int] = []

    class Changing(GroupRatifier):
        def commit(self, group: Any) -> Any:
            if not changed:
                metadata = delta.metadata()
                metadata["metaData"]["schemaString"] = schema
                changed.append(lake.head.latest + 1)
                assert lake.inline(changed[0], delta.lines(delta.info("wider", lake.now()), metadata)).status == 200
            return super().commit(group)

    appender, _ = appender_of(lake, Changing)
    added = appender.append("main", request(1))
    assert isinstance(added, Appended) and added.version == changed[0] + 1
    (add,) = [action["add"] for action in actions(lake, added.version) if "add" in action]
    assert json.loads(add["stats"])["nullCount"] == {"id": 0, "n": 1}


def test_a_commit_has_the_last_number_of_each_producer(lake: Lake) -> None:
    def numbered(name: str, number: int) -> RowsRequest:
        return request(number, identity_of("ann", None, name, str(number)))

    answers = together(lake, [numbered("a", 4), numbered("a", 5), numbered("b", 1), numbered("c", 9)])
    txns = [action["txn"] for action in actions(lake, answers[0].version) if "txn" in action]
    assert {txn["appId"]: txn["version"] for txn in txns} == {
        "turnstile.rows/a": 5, "turnstile.rows/b": 1, "turnstile.rows/c": 9,
    }  # fmt: skip
    assert not lake.head.apps, "the HEAD counts streaming queries, and no producers"


@pytest.mark.parametrize("number", range(1, 8))
def test_i26_after_a_failure_at_any_request_the_same_rows_are_added_once(lake: Lake, number: int) -> None:
    """The n-th request to the store fails, before or after its effect; then the sender goes on."""
    for after in (False, True):
        appender, _ = appender_of(lake)
        own = request(100 + 10 * number + after)
        with failing(lake, number, after=after), contextlib.suppress(OutcomeUnknown):
            appender.append("main", own)
        versions = {answer.version for _ in range(2) if isinstance(answer := appender.append("main", own), Appended)}
        assert len(versions) == 1
        text = own.plain.decode()
        assert sum(text[6:-1] in stats for stats in all_stats(lake)) == 1


def all_stats(lake: Lake) -> list[str]:
    commits = lake.get("commits", content="true").json["commits"]
    found = [json.loads(line) for one in commits for line in one.get("content", "").splitlines()]
    return [str(json.loads(action["add"]["stats"]).get("minValues")) for action in found if "add" in action]


class failing:
    """The n-th call of the refs fails with an unknown outcome."""

    def __init__(self, lake: Lake, number: int, *, after: bool) -> None:
        self._refs = lake.world.refs
        self._left = number
        self._after = after
        self._saved: dict[str, Callable[..., Any]] = {}

    def __enter__(self) -> None:
        for name in ("read", "read_many", "write", "transact"):
            self._saved[name] = getattr(self._refs, name)
            setattr(self._refs, name, self._wrapped(self._saved[name]))

    def __exit__(self, *_: object) -> None:
        for name in self._saved:
            delattr(self._refs, name)

    def _wrapped(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*given: Any, **more: Any) -> Any:
            self._left -= 1
            if self._left:
                return call(*given, **more)
            if self._after:
                call(*given, **more)
            raise OutcomeUnknown("planted")

        return counted
