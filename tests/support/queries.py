"""Catalogs to be searched, and the slow, obvious way to search them."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from hypothesis import strategies as st

from tests.support.catalog import LAKE, fakes, fresh
from turnstile.catalog.changes.waiting import Edit
from turnstile.catalog.core.entities import Entity, External, Namespace, Table, kind_of
from turnstile.catalog.core.paths import Path, fold
from turnstile.catalog.query.core.parser import KEYWORDS
from turnstile.catalog.query.core.query import (
    ATTRIBUTES,
    TYPES,
    All,
    Candidate,
    Compare,
    Exists,
    Field,
    In,
    Like,
    Not,
    Predicate,
    Prefix,
    Query,
    Some,
    Value,
    holds,
)
from turnstile.catalog.query.find import Finder
from turnstile.catalog.services import CatalogServices
from turnstile.delta.core.head import new_head_row
from turnstile.delta.core.metadata import DeltaMetadata
from turnstile.store.core.limits import SpillLimits
from turnstile.store.core.writes import Insert, new_row

CREATED = 1_770_000_000_000


@dataclass(frozen=True)
class Thing:
    """A namespace or a table of a test's catalog. ``external``: a table that is registered only."""

    table: bool = False
    external: bool = False
    comment: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)


def id_of(path: Path) -> str:
    return str(uuid.uuid5(uuid.NAMESPACE_URL, ".".join(path)))


def entity(path: Path, thing: Thing) -> Entity:
    if not thing.table:
        return Namespace(path[-1], id_of(path), CREATED, thing.comment, dict(thing.properties))
    external = External(properties=dict(thing.properties)) if thing.external else None
    location = f"{LAKE}/main/{id_of(path)}"
    return Table(path[-1], id_of(path), location, CREATED, comment=thing.comment, managed=not thing.external,
                 external=external)  # fmt: skip


def catalog_with(things: Mapping[Path, Thing], spill: SpillLimits | None = None) -> CatalogServices:
    """Services, their caches cold, on a catalog that has exactly these, in one change."""
    services = fresh(spill=spill)
    world = fakes(services)
    put = {path: entity(path, thing) for path, thing in things.items()}
    services.committer.commit("main", lambda _: Edit("fill", put=put, remove=(("default",),)))
    for path, thing in things.items():
        if thing.table and not thing.external:
            configuration = {"configuration": dict(thing.properties)}
            metadata = services.metadata.put("main", id_of(path), DeltaMetadata(0, {}, configuration, {}), 1)
            row = new_head_row(
                key=world.space.table(id_of(path)), table_id=id_of(path), catalog="main",
                name=".".join(("main", *path)),
                location=put[path].location, metadata=metadata, version=0, ict=1, row_hwm=None, created=1, managed=True,
            )  # fmt: skip
            world.refs.write(Insert(row, (new_row("I2"),)))
    return fresh(world)


def finder(services: CatalogServices) -> Finder:
    return Finder(services.world, services.reader, services.as_of_reader, services.metadata)


def find_all(services: CatalogServices, query: str, size: int | None = None) -> list[str]:
    """Everything a query leads to, page by page, as dotted names without the catalog."""
    return [".".join(path) for page in pages(services, query, size) for path in page]


def pages(services: CatalogServices, query: str, size: int | None = None) -> Iterator[list[Path]]:
    token = None
    while True:
        page = finder(services).find(query, page_token=token, max_results=size)
        yield [one.path for one in page.items]
        token = page.next_token
        if token is None:
            return


def naive(things: Mapping[Path, Thing], query: Query) -> list[str]:
    """The matches of a query, from its meaning alone: every name of its depth, every level
    evaluated with everything known."""

    def candidate(path: Path) -> Candidate:
        thing = things[path]
        item = entity(path, things[path])
        members: dict[str, Value | None] = {name: getattr(item, name, None) for name in ATTRIBUTES[kind_of(item)]}
        members |= {"kind": kind_of(item), "id": id_of(path), "updated": None}
        attributes = {name: value for name, value in members.items() if value is not None}
        return Candidate(kind_of(item), attributes, whole=True, properties=thing.properties)

    def fits(path: Path) -> bool:
        if len(path) != len(query.steps):
            return False
        for depth, step in enumerate(query.steps, 1):
            if step.name is not None and fold(step.name) != fold(path[depth - 1]):
                return False
            if not holds(step.where, candidate(path[:depth])):
                return False
        return True

    matching = [path for path in things if fits(path)]
    return [".".join(path) for path in sorted(matching, key=lambda path: [fold(level) for level in path])]


texts = st.text(st.characters(exclude_categories=("Cs",)), max_size=8)


words = st.from_regex(r"[A-Za-z_][A-Za-z0-9_.\-]{0,8}", fullmatch=True).filter(
    lambda word: word.lower() not in KEYWORDS and word not in TYPES
)


properties = words.map(Field) | texts.map(lambda text: Field(text, quoted=True))


attributes = st.sampled_from([Field(name) for name, type_ in TYPES.items() if type_ is str])


decimals = st.tuples(st.integers(-(10**6), 10**6), st.integers(0, 999)).map(lambda two: float(f"{two[0]}.{two[1]:03d}"))


literals = texts | st.integers(-(10**18) + 1, 10**18 - 1) | st.booleans() | decimals


operators = st.sampled_from(["=", "!=", "<", "<=", ">", ">="])


comparisons: st.SearchStrategy[Predicate] = st.one_of(
    st.builds(Compare, properties, operators, literals),
    st.builds(Compare, attributes, operators, texts),
    st.builds(Compare, st.just(Field("created")), operators, st.integers(0, 10**13)),
    st.builds(Compare, st.just(Field("managed")), operators, st.booleans()),
    st.builds(In, properties, st.lists(literals, min_size=1, max_size=3).map(tuple)),
    st.builds(Like, properties | attributes, texts),
    st.builds(Prefix, properties | attributes, texts),
    st.builds(Exists, properties | attributes),
)


predicates: st.SearchStrategy[Predicate] = st.recursive(
    comparisons,
    lambda inner: st.one_of(
        inner.map(Not),
        st.lists(inner, min_size=2, max_size=3).map(lambda parts: All(tuple(parts))),
        st.lists(inner, min_size=2, max_size=3).map(lambda parts: Some(tuple(parts))),
    ),
    max_leaves=6,
)
