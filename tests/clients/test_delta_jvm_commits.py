"""Delta 4.4.0's own clients in the JVM, unmodified: commits, conflicts, replays, publishing.

Every test runs with ``UCDeltaTokenBasedRestClient`` (delta/v1, Delta's default) and
``UCTokenBasedRestClient`` (preview commits, ``deltaRestApi.enabled=false``), both under
``UCCommitCoordinatorClient``, as in a Spark session.
"""

from __future__ import annotations

import re
import uuid
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest
from py4j.protocol import Py4JJavaError

from tests.support.clients import delta_jvm
from tests.support.clients.delta_jvm import COMMIT, Table, thrown
from tests.support.clients.engine import Engine, Files, fresh
from tests.support.stack import eventually
from tests.support.unity import metadata

if TYPE_CHECKING:
    from tests.support.flaky import Flaky
    from turnstile_server import Server


@pytest.fixture(params=["delta-v1", "preview"])
def preview(request: pytest.FixtureRequest) -> bool:
    return bool(request.param == "preview")


def created(jvm: Any, server: Server, preview: bool, through: str | None = None) -> Table:
    """A table made by the default client; what is asked of it from then on goes through the one
    under test."""
    table = Table(delta_jvm.client(jvm, server), fresh())
    table.client = delta_jvm.Client(jvm, through or server.url, server.token, preview=preview)
    return table


@pytest.fixture
def table(jvm: Any, server: Server, preview: bool) -> Table:
    return created(jvm, server, preview)


@pytest.fixture
def held(jvm: Any, held_server: Server, preview: bool) -> Table:
    """A table whose commits nobody publishes but the client."""
    return created(jvm, held_server, preview)


def verdict(error: Py4JJavaError) -> tuple[bool, bool]:
    """Of Delta's CommitFailedException: whether to try again, and whether to rebase first."""
    assert thrown(error) == "CommitFailedException", error
    return error.java_exception.getRetryable(), error.java_exception.getConflict()


def test_i6_a_commit_shows_at_once(table: Table) -> None:
    assert table.commits() == ([], 0)
    for version in (1, 2, 3):
        assert table.commit(version).getCommit().getVersion() == version
        assert table.commits()[1] == version


def test_i4_the_coordinator_publishes_what_was_ratified(held: Table) -> None:
    file = held.commit(1).getCommit().getFileStatus().getPath().toUri().getPath()
    files = Files(held.location)
    eventually(lambda: 1 in files.published())
    with open(file, "rb") as ratified:
        assert (files.log / f"{1:020d}.json").read_bytes() == ratified.read()


def test_i2_a_version_that_is_taken_is_a_conflict_to_rebase(table: Table) -> None:
    table.commit(1)
    with pytest.raises(Py4JJavaError) as caught:
        table.commit(1)
    assert verdict(caught.value) == (True, True)
    assert table.commit(2).getCommit().getVersion() == 2


def test_i1_a_gap_ends_the_attempt(table: Table) -> None:
    with pytest.raises(Py4JJavaError) as caught:
        table.commit(2)
    assert verdict(caught.value) == (False, False)
    assert table.commits() == ([], 0)


def test_i3_the_same_commit_again_is_no_second_one(held: Table) -> None:
    first = held.staged_commit(1)
    held.propose(first)
    held.propose(first)
    held.propose(held.staged_commit(2))
    held.propose(first)
    assert held.commits() == ([1, 2], 2)


def test_i3_a_replay_long_after_publication_is_known(table: Table) -> None:
    table.propose(first := table.staged_commit(1))
    for version in range(2, 15):
        table.propose(table.staged_commit(version))
    eventually(lambda: 14 in Files(table.location).published())
    table.propose(first)
    assert table.commits()[1] == 14


def test_i3_a_lost_answer_does_not_write_twice(jvm: Any, server: Server, preview: bool, flaky: Flaky) -> None:
    """The default client asks again by itself. The preview client gives up, and Delta's transaction
    proposes anew with another staged file: only the transaction's id tells that it had won."""
    table = created(jvm, server, preview, through=flaky.url)
    flaky.lose_answers("POST ", times=2)
    txn = str(uuid.uuid4())
    made = None
    failures = 0
    while made is None:
        try:
            made = table.commit(1, txn=txn)
        except Py4JJavaError as error:
            if verdict(error) != (True, False):
                raise
            failures += 1
    assert failures == (2 if preview else 0)
    assert sum(line.startswith("POST ") for line in flaky.seen) == 3
    assert (made.getCommit().getVersion(), table.commits()[1]) == (1, 1)


def test_i5_a_claim_of_what_is_not_published_forgets_nothing(held: Table) -> None:
    for version in (1, 2):
        held.propose(held.staged_commit(version))
    held.propose(held.staged_commit(3), backfilled=2)
    held.propose(backfilled=3)
    assert Files(held.location).published() == [0]
    assert held.commits() == ([1, 2, 3], 3)


def test_more_than_ten_unpublished_commits_need_no_pause(held: Table) -> None:
    """The reference refuses the eleventh; the preview client must also follow the answer's
    pages."""
    for version in range(1, 16):
        held.propose(held.staged_commit(version))
    assert held.commits() == ([*range(1, 16)], 15)


def test_getcommits_answers_the_range_that_is_asked_for(held: Table) -> None:
    for version in range(1, 7):
        held.propose(held.staged_commit(version))
    assert held.commits(start=3)[0] == [3, 4, 5, 6]
    assert held.commits(start=2, end=4)[0] == [2, 3, 4]


def test_i4_backfill_publishes_everything_in_order(held: Table) -> None:
    for version in range(1, 5):
        held.propose(held.staged_commit(version))
    held.client.coordinator.backfillToVersion(held.client.store, held.client.conf, held.descriptor, 4, None)
    assert Files(held.location).published() == [0, 1, 2, 3, 4]
    assert held.commit(5).getCommit().getVersion() == 5


def test_what_is_listed_lies_in_storage(jvm: Any, held_server: Server, preview: bool) -> None:
    """Inline commits of other clients included: this one knows files only."""
    engine = Engine(held_server).create().append(range(3)).append_inline(range(3, 5)).append(range(5, 6))
    client = delta_jvm.client(jvm, held_server, preview=preview)
    log = client.new("org.apache.hadoop.fs.Path", engine.location + "/_delta_log")
    conf = client.map({"io.unitycatalog.tableId": engine.id})
    name = client.maybe(client.identifier(engine.name))
    found = client.coordinator.getCommits(client.new(f"{COMMIT}.TableDescriptor", log, name, conf), None, None)
    assert [commit.getVersion() for commit in found.getCommits()] == [1, 2, 3]
    for commit in found.getCommits():
        status = commit.getFileStatus()
        real = status.getPath().getFileSystem(client.conf).getFileStatus(status.getPath())
        assert real.getLen() == status.getLen() > 0


def test_i2_writers_that_race_all_get_a_version_of_their_own(jvm: Any, server: Server, preview: bool) -> None:
    table = created(jvm, server, preview)
    conflicts = []

    def write(_: int) -> list[int]:
        mine = []
        version = 1
        while len(mine) < 5:
            try:
                mine.append(table.commit(version).getCommit().getVersion())
            except Py4JJavaError as error:
                if verdict(error) != (True, True):
                    raise
                conflicts.append(version)
            version = table.commits()[1] + 1
        return mine

    with ThreadPoolExecutor(3) as pool:
        won = [version for mine in pool.map(write, range(3)) for version in mine]
    assert sorted(won) == [*range(1, 16)]
    assert conflicts, "three writers that start at version 1 meet at least once"


def test_a_new_column_is_in_the_catalog_once_its_commit_is_ratified(table: Table) -> None:
    columns = {"type": "struct", "fields": [
        {"name": "id", "type": "long", "nullable": True, "metadata": {}},
        {"name": "more", "type": "string", "nullable": True, "metadata": {"comment": "new"}},
    ]}  # fmt: skip
    config = {"io.unitycatalog.tableId": table.id, "delta.appendOnly": "false"}
    table.commit(1, metadata=metadata(columns, **config))
    reader = delta_jvm.Client(table.client._gateway, table.client.url)
    loaded = reader.uc.loadTable(table.identifier).getMetadata()
    assert re.findall(r'"name":"(\w+)"', loaded.getSchemaString().replace(" ", "")) == ["id", "more"]
    assert loaded.getConfiguration()["delta.appendOnly"] == "false"


def test_another_tables_id_is_refused(table: Table, jvm: Any, server: Server) -> None:
    """Someone dropped the table and made it anew: the writer must not commit into the new one."""
    other = created(jvm, server, table.client.preview)
    mine = table.staged_commit(1)
    table.id = other.id
    with pytest.raises(Py4JJavaError) as caught:
        table.propose(mine)
    assert thrown(caught.value) in ("CommitFailedException", "InvalidTargetTableException")
    for each in (table, other):
        each.client = delta_jvm.client(jvm, server)
        assert Engine(server, each.name).latest == 0
