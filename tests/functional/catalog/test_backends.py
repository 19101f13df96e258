"""The catalog on real tables: what the fakes promise, DynamoDB's API keeps. Requests are counted as
they are sent."""

from __future__ import annotations

import shutil
from functools import partial

import pytest

from tests.support.catalog import MAIN, create, head_of, names, staged
from tests.support.fakes import delta
from tests.support.legacy import Legacy
from tests.support.store.backends import Counter
from tests.support.store.realm import StoredRealm
from tests.support.threads import at_once
from turnstile.catalog.core.entities import External
from turnstile.catalog.history.core import AsOf
from turnstile.delta.core.decide import Ratified
from turnstile.delta.core.writes.state import mark_stuck
from turnstile.delta.log.lines import broken
from turnstile.delta.proposals import CommitRequest
from turnstile.delta.ratify import Ratifier
from turnstile.store.core.errors import AlreadyExists, NotFound, StateConflict, UnsupportedTable
from turnstile.transfer import imports as importing
from turnstile.transfer.exports import Exporter
from turnstile.transfer.imports import Claims, Importer
from turnstile.transfer.relocation import Relocator
from turnstile.transfer.survey import Surveyor


def test_a_table_lives_from_its_staging_to_its_drop(stored_realm: StoredRealm) -> None:
    counter = Counter()
    services = stored_realm.services(counter)
    services.namespaces.create("main", ("Sales", "eu"), comment="c", properties={"k": "v"})
    create(services, "warm")
    id = staged(services, "Orders")
    counter.sent.clear()
    services.registrar.register(*MAIN, "Orders", id)
    assert sorted(counter.operations) == ["batch_get_item", "batch_write_item", "put_item", "transact_write_items"]
    assert services.registrar.register(*MAIN, "orders", id).replayed
    with pytest.raises(StateConflict):
        services.registrar.register(*MAIN, "other", id)
    content = delta.append("a", services.world.clock.now_ms())
    assert isinstance(Ratifier(services.world).commit(CommitRequest(id, 1, content=content)), Ratified)
    counter.sent.clear()
    assert services.renamer.rename(*MAIN, "ORDERS", "o", ("sales", "EU")) == ("Sales", "eu", "o")
    assert len(counter.operations) <= 4  # one more for the spelling of a namespace not seen before
    elsewhere = stored_realm.services()
    assert elsewhere.reader.resolve("main", ("sales", "eu"), "O").table_id == id
    counter.sent.clear()
    services.dropper.drop("main", ("sales", "eu"), "o")
    assert sorted(counter.operations) == ["batch_write_item", "get_item", "transact_write_items"]
    with pytest.raises(NotFound):
        elsewhere.reader.resolve("main", ("sales", "eu"), "o")
    assert (head_of(services.world, id).state, head_of(services.world, id).latest) == ("dropped", 1)
    services.namespace_dropper.drop("main", ("sales",), cascade=True)
    assert [one.name for one in services.catalogs.list()] == ["main"]
    assert [found.name for found in services.listings.namespaces("main").items] == [("default",)]


@pytest.mark.slow
def test_i9_a_namespace_of_ninety_tables_is_renamed_and_goes_in_one_transaction_each(stored_realm: StoredRealm) -> None:
    counter = Counter()
    services = stored_realm.services(counter)
    services.namespaces.create("main", ("n",))
    ids = [create(services, f"t{n:02d}", "n") for n in range(90)]
    services.namespaces.get("main", ("default",))
    seq = services.reader.current("main").commit.seq
    counter.sent.clear()
    services.namespace_mover.rename("main", ("n",), "Moved", ("default",))
    assert sorted(counter.operations) == ["batch_write_item", "get_item", "transact_write_items"]
    assert len(names(stored_realm.services(), "default.moved")) == 90
    assert head_of(services.world, ids[-1]).name == "main.default.Moved.t89"
    services.namespace_dropper.drop("main", ("default", "moved"), cascade=True)
    assert services.reader.current("main").commit.seq == seq + 2


def test_i9_tables_take_commits_while_their_namespace_changes_its_name(stored_realm: StoredRealm) -> None:
    """A rename touches every HEAD in the namespace: clashes with commits are sent again, neither is
    lost."""
    services = stored_realm.services()
    services.namespaces.create("main", ("n0",))
    ids = [create(services, f"t{n}", "n0") for n in range(3)]

    def committing(id: str) -> None:
        ratifier = Ratifier(stored_realm.world())
        for version in range(1, 9):
            content = delta.append(f"a{version}", services.world.clock.now_ms() + version)
            assert isinstance(ratifier.commit(CommitRequest(id, version, content=content)), Ratified)

    def renaming() -> None:
        box = stored_realm.services()
        for n in range(6):
            box.namespace_mover.rename("main", (f"n{n}",), f"n{n + 1}")

    assert at_once([renaming, *(partial(committing, id) for id in ids)]) == [None] * 4
    found = [head_of(services.world, id) for id in ids]
    assert [(head.latest, head.name) for head in found] == [(8, f"main.n6.t{n}") for n in range(3)]


def test_a_table_comes_in_and_goes_out(stored_realm: StoredRealm) -> None:
    services = stored_realm.services()
    legacy = Legacy(services, stored_realm.old).created().append(2)
    first = Importer(services).run(*MAIN, "t", stored_realm.old)
    assert (first.version, Importer(stored_realm.services()).run(*MAIN, "t", stored_realm.old).replayed) == (3, True)
    with pytest.raises(StateConflict):
        Importer(services).run(*MAIN, "u", stored_realm.old)
    services.dropper.drop(*MAIN, "t")
    second = Importer(services).run(*MAIN, "t", stored_realm.old)
    assert second.version == 4
    assert Exporter(services).run(*MAIN, "t").release_version == 5
    assert legacy.actions(5)["commitInfo"]["txnId"].startswith("turnstile-export-")
    assert Importer(services).run(*MAIN, "t", stored_realm.old).version == 6
    assert names(services) == ["t"]


def test_i10_a_claim_is_taken_up_given_back_and_distinguished_from_registered_tables(
    stored_realm: StoredRealm, monkeypatch: pytest.MonkeyPatch
) -> None:
    services = stored_realm.services()
    legacy = Legacy(services, stored_realm.old).created()
    services.externals.register(*MAIN, "ext", location=stored_realm.old, format="delta", about=External())
    with pytest.raises(StateConflict, match="external table"):
        Importer(services).run(*MAIN, "t", stored_realm.old)
    services.dropper.drop(*MAIN, "ext")
    key = services.world.space.location(stored_realm.old)

    def unfit(*_: object) -> None:
        claimed = services.world.refs.read(key)
        assert claimed is not None and claimed["importing"]
        raise broken("a version is missing")

    with monkeypatch.context() as patched:
        patched.setattr(importing, "read_state", unfit)
        with pytest.raises(UnsupportedTable):
            Importer(services).run(*MAIN, "t", stored_realm.old)
    assert services.world.refs.read(key) is None
    found = Surveyor(services.world, services.reader, services.limits, stored_realm.lake)
    claimed = Claims(services.world).make("main", found.survey("main", ("default", "t"), stored_realm.old))
    assert Importer(services).run(*MAIN, "t", stored_realm.old).table_id == claimed
    assert "importing" not in (services.world.refs.read(key) or {})
    assert legacy.actions(1)["commitInfo"]["txnId"].endswith(str(claimed))


def test_i10_a_table_that_was_dropped_stuck_comes_back_stuck(stored_realm: StoredRealm) -> None:
    services = stored_realm.services()
    table_id = create(services, "t")
    moment = AsOf(head=services.reader.current("main").head)
    head = head_of(services.world, table_id)
    services.world.refs.write(mark_stuck(head, 1, "gone", services.world.clock.now_ms()))
    services.dropper.drop(*MAIN, "t")
    assert services.resetter.reset("main", moment).restored == ("main.default.t",)
    back = head_of(services.world, table_id)
    assert (back.state, back.reason) == ("stuck", "version 1: gone")


def test_tables_created_at_once_all_succeed_and_one_name_has_one_winner(stored_realm: StoredRealm) -> None:
    """I9."""
    boxes = [stored_realm.services() for _ in range(8)]
    made = at_once([partial(create, box, f"t{n}") for n, box in enumerate(boxes)])
    assert not [one for one in made if isinstance(one, Exception)]
    ids = [staged(box, "same") for box in boxes]
    answers = at_once([
        partial(box.registrar.register, *MAIN, "same", id) for box, id in zip(boxes, ids, strict=True)
    ])  # fmt: skip
    assert sum(isinstance(answer, AlreadyExists) for answer in answers) == 7
    assert names(stored_realm.services()) == sorted(["same", *(f"t{n}" for n in range(8))])


def test_i10_a_lake_that_moved_is_relocated(
    stored_realm: StoredRealm, tmp_path_factory: pytest.TempPathFactory
) -> None:
    services = stored_realm.services()
    id = create(services, "t")
    services.externals.register(*MAIN, "ext", location=stored_realm.old, format="delta", about=External())
    root = stored_realm.lake.removesuffix("/lake")
    new = f"file://{tmp_path_factory.mktemp('moved')}/new"
    shutil.copytree(root.removeprefix("file://"), new.removeprefix("file://"))
    for left in (False, True):
        relocator = Relocator(services.world, stored_realm.services().reader)
        plan = relocator.plan(root, new)
        assert (plan.problems, plan.empty) == ((), left)
        relocator.apply(plan)
    assert head_of(services.world, id).location.startswith(f"{new}/lake/main/default/")
    moved = stored_realm.services()
    assert moved.reader.resolve("main", ("default",), "t").table_id == id
    owners = [row["key"] for row in services.world.refs.scan("location") if row.get("table_id")]
    assert len(owners) == 2 and all(f"/location/{new}/" in key for key in owners)
