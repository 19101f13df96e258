"""Renaming a namespace during changes of its content: nothing is lost, no old name stays, and only
a real conflict is refused (I9)."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from tests.support.catalog import complete, create, fakes, fresh, head_of, names, sandbox, staged, widen
from tests.support.threads import at_once
from turnstile.catalog.core.tree import Tree
from turnstile.catalog.services import CatalogServices
from turnstile.store.core.errors import AlreadyExists, NotFound, TurnstileError

A = ("main", ("a",))
Act = Callable[[CatalogServices], object]


def prepared() -> CatalogServices:
    """``a`` with a table ``t``, ``a.b`` with ``u``; ``c`` with ``v``."""
    services = fresh()
    services.namespaces.create("main", ("a", "b"))
    services.namespaces.create("main", ("c",))
    for name, namespace in (("t", "a"), ("u", "a.b"), ("v", "c")):
        create(services, name, namespace)
    return services


def meanwhile(services: CatalogServices, act: Act) -> CatalogServices:
    """A sandbox whose next change is overtaken: ``act`` happens when its objs are written and its
    swap is not sent."""
    objs = fakes(services).objs
    original = fakes(services).objs.put_many

    def put_many(batch: Any) -> None:
        original(batch)
        objs.put_many = original  # type: ignore[method-assign]
        act(fresh(services.world))

    objs.put_many = put_many  # type: ignore[method-assign,assignment]
    return fresh(services.world)


def tree(services: CatalogServices) -> Tree:
    return fresh(services.world).reader.current("main")


MINE: dict[str, tuple[Act, set[str]]] = {
    "create a table": (lambda s: create(s, "w", "a"), {"z.t", "z.b.u", "z.w", "c.v"}),
    "create a nested one": (lambda s: create(s, "w", "a.b"), {"z.t", "z.b.u", "z.b.w", "c.v"}),
    "drop a table": (lambda s: s.dropper.drop(*A, "t"), {"z.b.u", "c.v"}),
    "rename a table": (lambda s: s.renamer.rename(*A, "t", "T2"), {"z.t2", "z.b.u", "c.v"}),
    "move a table out": (lambda s: s.renamer.rename(*A, "t", "t", ("c",)), {"z.b.u", "c.v", "c.t"}),
    "move a table in": (lambda s: s.renamer.rename("main", ("c",), "v", "v", ("a",)), {"z.t", "z.b.u", "z.v"}),
    "drop what is nested": (
        lambda s: s.namespace_dropper.drop("main", ("a", "b"), cascade=True), {"z.t", "c.v"}),
    "move what is nested out": (
        lambda s: s.namespace_mover.rename("main", ("a", "b"), "b", ()), {"z.t", "b.u", "c.v"}),
    "move a namespace in": (
        lambda s: s.namespace_mover.rename("main", ("c",), "c", ("a",)), {"z.t", "z.b.u", "z.c.v"}),
}  # fmt: skip


@pytest.mark.parametrize("name", MINE)
def test_i9_what_others_do_inside_meanwhile_is_kept_and_has_the_new_name(name: str) -> None:
    services = prepared()
    act, expected = MINE[name]
    meanwhile(services, act).namespace_mover.rename("main", ("a",), "Z")
    names = {key.replace("\x00", ".") for key, entry in tree(services).index.iterate() if entry.table_id}
    assert names == expected
    complete(fakes(services))


@pytest.mark.parametrize(
    ("act", "error"),
    [
        (lambda s: s.namespace_mover.rename("main", ("a",), "y"), NotFound),
        (lambda s: s.namespace_dropper.drop("main", ("a",), cascade=True), NotFound),
        (lambda s: s.namespaces.create("main", ("c", "Z")), AlreadyExists),
        (lambda s: create(s, "z", "c"), AlreadyExists),
        (lambda s: s.namespace_dropper.drop("main", ("c",), cascade=True), NotFound),
        (lambda s: s.namespace_mover.rename("main", ("c",), "c", ("a",)), NotFound),
    ],
    ids=["renamed", "dropped", "name taken", "name taken by a table", "parent dropped", "parent moved into it"],
)
def test_i9_what_really_conflicts_is_refused_and_the_other_change_stands(act: Act, error: type[TurnstileError]) -> None:
    services = prepared()
    seq = tree(services).commit.seq
    with pytest.raises(error):
        meanwhile(services, act).namespace_mover.rename("main", ("a",), "z", ("c",))
    assert tree(services).commit.seq == seq + 1
    assert tree(services).find(("c", "z", "t")) is None
    complete(fakes(services))


def test_i9_of_renames_at_once_one_wins() -> None:
    services = prepared()
    widen(services)
    calls = [partial(sandbox(services).namespace_mover.rename, "main", ("a",), f"z{n}") for n in range(6)]
    answers = at_once(calls)
    assert sum(isinstance(answer, NotFound) for answer in answers) == 5
    complete(fakes(services))


def test_i9_tables_created_while_their_namespace_changes_its_name_again_and_again_are_all_there() -> None:
    services = fresh()
    services.namespaces.create("main", ("n0",))
    widen(services)
    done = threading.Event()
    created: list[str] = []

    def rename() -> int:
        box = sandbox(services)
        at = 0
        while not done.is_set():
            box.namespace_mover.rename("main", (f"n{at}",), f"n{1 - at}")
            at = 1 - at
        return at

    def creating(n: int) -> list[str]:
        box = sandbox(services)
        own = []
        for i in range(4):
            id = staged(services, f"s{n}_{i}", "default")
            while True:  # under either name, whichever it has
                for name in ("n0", "n1"):
                    try:
                        box.registrar.register("main", (name,), f"t{n}_{i}", id)
                    except NotFound:
                        continue
                    own.append(id)
                    break
                if id in own:
                    break
        created.extend(own)
        if len(created) == 12:
            done.set()
        return own

    answers = at_once([rename, *(partial(creating, n) for n in range(3))])
    assert not [answer for answer in answers if isinstance(answer, Exception)]
    where = f"n{answers[0]}"
    assert names(fresh(services.world), where) == sorted(f"t{n}_{i}" for n in range(3) for i in range(4))
    assert {head_of(services.world, id).name.rpartition(".")[0] for id in created} == {f"main.{where}"}
    complete(fakes(services))
