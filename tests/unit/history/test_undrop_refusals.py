"""An undrop that cannot bring back the table as it was is refused at once, with the reason, and
changes nothing (I9, I10)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.catalog import (
    MAIN,
    before_swaps,
    complete,
    create,
    fakes,
    fresh,
    head_of,
    names,
    no_attempt,
    seq,
    undrop,
)
from turnstile.catalog.core.entities import External
from turnstile.catalog.history.core import AsOf
from turnstile.catalog.services import CatalogServices
from turnstile.delta.core.writes.state import mark_purging
from turnstile.rights.grants import OPERATOR
from turnstile.store.core.errors import InvalidRequest, NotFound, StateConflict, TurnstileError


def dropped() -> tuple[CatalogServices, str]:
    """Returns a catalog in which ``main.default.t`` was dropped, and the uuid of the table."""
    services = fresh()
    id = create(services, "t")
    services.dropper.drop(*MAIN, "t")
    return services, id


def refused(services: CatalogServices, error: type[TurnstileError], **options: Any) -> TurnstileError:
    before = seq(services)
    with pytest.raises(error) as caught:
        undrop(services, **options)
    assert seq(services) == before
    return caught.value


def test_i10_a_purge_that_has_begun_is_seen_before_any_attempt() -> None:
    services, id = dropped()
    services.world.refs.write(mark_purging(head_of(services.world, id)))
    no_attempt(fakes(services))
    assert refused(services, StateConflict).type == "CannotUndrop"


def test_i10_a_table_that_left_no_head_is_refused_before_any_attempt() -> None:
    services, id = dropped()
    del fakes(services).refs.rows[services.world.space.table(id)]
    no_attempt(fakes(services))
    assert refused(services, StateConflict).type == "CannotUndrop"


def test_an_undrop_to_another_name_that_comes_between_wins() -> None:
    services, id = dropped()
    other = fresh(services.world)
    attempts = list[int]()

    def undrop_first() -> None:
        attempts.append(1)
        if len(attempts) == 1:
            undrop(other, to=("default", "u"))

    before_swaps(fakes(services), undrop_first)
    with pytest.raises(StateConflict) as refused:
        undrop(services)
    assert refused.value.type == "TableNotActive"
    assert names(services) == ["u"] and head_of(services.world, id).name == "main.default.u"
    complete(fakes(services))


def test_i10_a_head_that_goes_between_the_look_and_the_change_is_refused() -> None:
    services, id = dropped()
    before_swaps(fakes(services), lambda: fakes(services).refs.rows.pop(services.world.space.table(id), None))
    with pytest.raises(StateConflict) as refused:
        undrop(services)
    assert refused.value.type == "CannotUndrop"


@pytest.mark.parametrize("to", [("default", "a\nb"), ("default", ""), ("a\nb", "t")])
def test_a_new_name_that_no_table_may_have_is_refused(to: tuple[str, ...]) -> None:
    services, _ = dropped()
    assert refused(services, InvalidRequest, to=to).remedy


def test_a_table_whose_version_zero_was_awaited_never_comes_back() -> None:
    services = fresh()
    made = services.staging.create(*MAIN, "t", creator="")
    about = External(properties={"a": "1"})
    services.awaiting.register(*MAIN, "t", made.table_id, about=about, comment=None, principal=OPERATOR)
    services.dropper.drop(*MAIN, "t")
    refused(services, NotFound)


def test_a_table_that_moved_with_its_namespace_was_not_dropped_under_its_earlier_name() -> None:
    services = fresh()
    services.namespaces.create("main", ("old",))
    about = External(properties={"k": "v"})
    made = services.externals.register("main", ("old",), "e", location="s3://b/e", format="delta", about=about)
    services.namespace_mover.rename("main", ("old",), "new")
    services.externals.drop("main", ("new",), "e", made.table_id)
    services.namespaces.create("main", ("old",))
    refused(services, NotFound, path=("old", "e"))
    assert undrop(services, ("new", "e")) == ("new", "e")


def test_the_table_of_the_named_moment_comes_back_and_not_a_later_one_of_its_name() -> None:
    services = fresh()
    first = create(services, "t")
    there = seq(services)
    services.dropper.drop(*MAIN, "t")
    second = create(services, "t")
    for number in range(6):
        services.namespaces.update("main", ("default",), set={"n": str(number)})
    services.renamer.rename(*MAIN, "t", "u")
    undrop(services, at=AsOf(seq=there))
    assert head_of(services.world, first).name == "main.default.t"
    assert head_of(services.world, second).name == "main.default.u"


def test_a_moment_at_which_the_present_table_was_there_finds_the_one_before_it() -> None:
    services, first = dropped()
    second = create(services, "t")
    services.namespaces.update("main", ("default",), set={"n": "1"})
    undrop(services, to=("default", "u"), at=AsOf(seq=seq(services)))
    assert head_of(services.world, first).name == "main.default.u"
    assert head_of(services.world, second).name == "main.default.t"


def test_a_past_that_gc_has_ended_earlier_ends_the_search() -> None:
    """A server with a shorter history than this one may have collected."""
    services, _ = dropped()
    services.namespaces.update("main", ("default",), set={"n": "1"})
    objs = fakes(services).objs.rows
    newest = services.reader.current("main").head
    for key in [key for key in objs if key[1].startswith("commit/") and key[1] != newest and key[0].endswith("main")]:
        del objs[key]
    refused(fresh(services.world), NotFound)
