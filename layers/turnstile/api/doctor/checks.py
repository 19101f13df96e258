"""Checks of a deployment, end to end: whether its stores work as Turnstile assumes, and whether its
work is done.

For operators, after a deployment and before an incident is reported: ``turnstile doctor``. Each
check uses rows and files of its own and removes them again, with the rights of the function that
answers. A failed check names the remedy, and does not stop the other checks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final, Literal

import msgspec

from turnstile.api.doctor import clocks, damage, folders, imports
from turnstile.coordination.core.rows import Updateable
from turnstile.coordination.tasks import OtherVersion, Updateables
from turnstile.delta.attention import releases_of
from turnstile.delta.core.head import ACTIVE, RECOVERING, STUCK, TableHead, tail_by_version
from turnstile.store.core.errors import TurnstileError, first_of
from turnstile.store.core.names import LOG
from turnstile.store.core.rows import IDENTITY, TASK
from turnstile.store.core.writes import Row
from turnstile.store.ports import LogStorage, Obj, World, parse_rows
from turnstile_release import version

Result = Literal["ok", "warning", "failed"]

FOLDER: Final = "_turnstile_checks"
"""Below the lake's root, where the checks write."""

SKEW_MS: Final = 60_000
"""The largest allowed difference of clocks (docs/invariants.md, "Assumptions")."""

ROWS_MS: Final = 8_000
"""The time after which a look at the rows ends: an HTTP API waits for 30 s, and other looks come
before it."""

_MANY: Final = 2
"""So many tables without a folder are a lake that was moved."""

LAG_MS: Final = 120_000
"""How long a commit may wait for publication: the sweeper comes by every minute."""

_REMEDY_STORE: Final = "see the message; the service's rights to this table and its endpoint are in template.yaml"
_REMEDY_S3: Final = "see the message; the service needs to list, read, write and delete below the lake's root"
_REMEDY_ROW: Final = (
    "restore the row from a backup (docs/operations.md, A row that cannot be read); the others are not affected"
)
_REMEDY_BEHIND: Final = (
    "let no client write; 'turnstile repair --all' adopts the commits of Delta tables, and for an Iceberg table "
    "register its latest metadata file with overwrite (docs/operations.md, A store behind its lake)"
)
_REMEDY_TASK: Final = "wait; a damaged row of a task is replaced, and only its last result is lost"
_REMEDY_LEFT: Final = "look at the others with 'turnstile verify TABLE --files'"
_REMEDY_PUT: Final = (
    "do not use this store: it does not honour If-None-Match on PutObject, so two publishers could overwrite each "
    "other's commits"
)


class Check(msgspec.Struct, frozen=True):
    """The subject of a check, its result, the observation, and the remedy (empty if there is
    none)."""

    name: str
    result: Result
    message: str
    remedy: str = ""


class Checks(msgspec.Struct, frozen=True):
    """All checks; ``now_ms`` is the service's clock, for clients to compare theirs with."""

    now_ms: int
    checks: list[Check]


def run(world: World, lake_root: str) -> Checks:
    """Runs every check, in this order. A few dozen requests, two scans of the HEADs, one of all
    rows, the trees of all catalogs, and a request for each of up to ``folders.TABLES`` tables of
    each format."""
    checks: list[Check] = []
    for name, remedy, results in (
        ("refs", _REMEDY_STORE, _refs(world)),
        ("releases", _REMEDY_STORE, _releases(world)),
        ("objs", _REMEDY_STORE, _objs(world)),
        ("storage", _REMEDY_S3, _storage(world, lake_root)),
        ("tables", _REMEDY_STORE, _tables(world)),
        ("folders", _REMEDY_S3, _folders(world)),
        ("clocks", _REMEDY_STORE, _rows(world)),
        ("imports", _REMEDY_STORE, _imports(world)),
    ):
        try:
            checks += results
        except TurnstileError as error:
            checks.append(Check(name, "failed", error.message, error.remedy or remedy))
        except (
            Exception
        ) as error:  # a client's own error, such as one of rights or endpoints: it is what was to be found out
            checks.append(Check(name, "failed", f"{type(error).__name__}: {error}", remedy))
    return Checks(world.clock.now_ms(), checks)


def _refs(world: World) -> Iterator[Check]:
    """Conditional writes of refs: one of two creations wins, and an update of an old version
    loses."""
    objects = Updateables(world)
    id = f"check-{world.ids.uuid()}"
    first = objects.create(TASK.name, id, b"1")
    assert isinstance(first, Updateable), "no other entity has the name"
    last = first
    try:
        wrong = []
        if not isinstance(objects.create(TASK.name, id, b"2"), OtherVersion):
            wrong.append("a second creation of a row was not refused")
        second = objects.update(first, b"2")
        if isinstance(second, Updateable):
            last = second
        if not isinstance(objects.update(first, b"3"), OtherVersion):
            wrong.append("an update of an old version was not refused")
        read = objects.read(TASK.name, id)
        if read is None or read.payload != b"2":
            wrong.append("a row was not read back as it was written")
    finally:
        objects.delete(last)
    yield _outcome("refs", wrong, "conditional writes are honoured", "do not use this store: it loses commits")


def _releases(world: World) -> Iterator[Check]:
    """Which versions of the code have worked on this store, the one that answers among them."""
    before = [f"{one.version} since {one.since}" for one in releases_of(world) if one.version != version()]
    text = f"this is {version()}; the store was swept by " + (", ".join(before[-3:]) or "no other version")
    yield Check("releases", "ok", text)


def _objs(world: World) -> Iterator[Check]:
    """Objs are written, read and removed."""
    space = world.space.objs("main")
    id = IDENTITY.id(f"check/{world.ids.uuid()}")
    now = world.clock.now_ms()
    world.objs.put(Obj(space, id, IDENTITY.name, b"1", created_us=now * 1000, expires_s=now // 1000 + 3600))
    read = world.objs.get(space, id)
    world.objs.delete(space, id)
    wrong = [] if read is not None and read.payload == b"1" else ["an obj was not read back as it was written"]
    yield _outcome(
        "objs", wrong, "objs are written and read", "do not use this store: commits would lose their content"
    )


def _storage(world: World, lake_root: str) -> Iterator[Check]:
    """Files of the lake: put-if-absent, reads and listings after writes; and how far the store's
    clock is from this one."""
    storage = world.storages.open(f"{lake_root}/{FOLDER}")
    path = f"{LOG}check-{world.ids.uuid()}.json"
    before_ms = world.clock.now_ms()
    try:
        wrong = list(_faults_of_files(storage, path))
        stat = storage.stat(path)
    finally:
        storage.delete(path)
    after_ms = world.clock.now_ms()
    yield _outcome("storage", wrong, f"files of {lake_root} are written once and read back", _REMEDY_PUT)
    if stat is not None:
        skew_ms = max(before_ms - stat.modified_ms, stat.modified_ms - after_ms, 0)
        text = (
            f"the store's clock and this one are {skew_ms} ms apart"
            if skew_ms
            else "the store's clock agrees with this one"
        )
        remedy = "set the clocks: commits with a timestamp that is minutes ahead are refused"
        yield Check("clock", "failed" if skew_ms > SKEW_MS else "ok", text, remedy if skew_ms > SKEW_MS else "")


def _faults_of_files(storage: LogStorage, path: str) -> Iterator[str]:
    storage.put_if_absent(path, b"1")  # False is also the answer to an attempt after a lost answer: its bytes decide
    if storage.put_if_absent(path, b"2"):
        yield "a file was overwritten by a put that must fail where one exists"
    file = storage.read(path)
    if file is None or file[0] != b"1":
        yield "a file was not read back as it was written"
    if path not in [stat.path for stat in storage.list(LOG)]:
        yield "a file was not listed after it was written"


def _tables(world: World) -> Iterator[Check]:
    """Whether every table is published, and which are not."""
    states: Counter[str] = Counter()
    now_ms = world.clock.now_ms()
    stopped = []
    waiting = 0
    oldest_ms = now_ms
    for head in parse_rows(TableHead, world.refs.scan(TableHead.kind), []):
        states[head.state] += 1
        if head.state in (STUCK, RECOVERING):
            stopped.append(f"{head.name} ({head.state})")
        elif head.state == ACTIVE and head.floor < head.latest:
            waiting += 1
            places = tail_by_version(head)
            since_ms = min(place.entry.ratified_ms for place in places if not place.published)
            oldest_ms = min(oldest_ms, since_ms)
    yield Check("tables", "ok", f"{sum(states.values())} tables: " + (_counts(states) or "none"))
    if stopped:
        names = ", ".join(sorted(stopped)[:5]) + (f" and {len(stopped) - 5} more" if len(stopped) > 5 else "")
        yield Check("stuck", "failed", names, "turnstile repair --all shows the reason and the remedy")
    lag_ms = now_ms - oldest_ms
    late = lag_ms > LAG_MS
    text = f"{waiting} tables wait to be published, the first for {lag_ms // 1000} s" if waiting else "all is published"
    yield Check("publishing", "failed" if late else "ok", text, "docs/operations.md: PublishLag" if late else "")


def _folders(world: World) -> Iterator[Check]:
    """Checks that the log of each Delta table, and the metadata file of each Iceberg table, is at
    its location in the store, and has no later commits. After a lake or a home was moved, all are
    elsewhere; after an older store was restored, some have later commits. A warning has the number
    of tables that were not looked at."""
    found = folders.look(world)
    left = f"{found.left} more" if found.all_counted else f"{found.left} and more"
    looked = f"{found.looked} tables" + (f" ({left} were not looked at)" if found.left else "")
    if found.gone:
        first = first_of([f"{each.name} at {each.location}" for each in found.gone])
        text = f"{len(found.gone)} of {looked} have no log or metadata file where the store says: {first}"
        yield Check("folders", "failed", text, _remedy_of_gone(found.gone))
    elif found.unknown:
        text = f"{len(found.unknown)} of {looked} could not be looked at: {first_of(found.unknown)}"
        yield Check("folders", "failed", text, _REMEDY_S3)
    else:
        text = (
            f"the log or metadata file is where the store says, of each of {looked}; for the files that a table names: "
            "turnstile verify TABLE --files"
        )
        yield Check("folders", "warning" if found.left else "ok", text, _REMEDY_LEFT if found.left else "")
    yield from _behind(found.behind, looked)


def _behind(found: Sequence[folders.Behind], looked: str) -> Iterator[Check]:
    """The check of a store that is behind its lake; no check if no table has later commits."""
    certain = [f"{each.name} ({each.file})" for each in found if each.certain]
    if certain:
        text = f"{len(certain)} of {looked} have commits in the lake that the store does not know: {first_of(certain)}"
        yield Check("behind", "failed", text, _REMEDY_BEHIND)
    elif found:
        files = first_of([f"{each.name} ({each.file})" for each in found])
        text = f"a writer died before its commit, or the store lacks the last commit of a table: {files}"
        yield Check("behind", "warning", text, _REMEDY_BEHIND)


def _remedy_of_gone(gone: Sequence[folders.Gone]) -> str:
    locations = [each.location for each in gone if not each.is_iceberg]
    if not locations:
        return "put the files back where they were: Iceberg's metadata holds absolute paths"
    root = folders.common_root(locations)
    if len(locations) < _MANY or not root:
        return "put the folder back; 'turnstile repair NAME' lists other ways"
    return (
        f"put the files back below {root}, or stop the server and run 'turnstile relocate OLD NEW', OLD being {root} "
        "or a folder above it (docs/operations.md, A lake that moved)"
    )


def _rows(world: World) -> Iterator[Check]:
    """Rows that cannot be read, and times in rows that a clock which was ahead has written. One
    pass over the rows of every kind."""
    now_ms = world.clock.now_ms()
    found = list[clocks.Ahead]()
    waiting = list[str]()

    def look(row: Row) -> None:
        if row["kind"] in clocks.KINDS:
            found.extend(clocks.ahead(row, now_ms))
        if text := damage.assumed_lease(row, now_ms):
            waiting.append(text)

    looked = damage.look_at_rows(world.refs, look, lambda: world.clock.now_ms() < now_ms + ROWS_MS)
    rest = f"rows after {looked.after!r} were not looked at within {ROWS_MS // 1_000} s" if looked.after else ""
    if looked.damaged:
        text = first_of([row.message for row in looked.damaged]) + (f"; {rest}" if rest else "")
        yield Check("rows", "failed", text, _REMEDY_ROW)
    elif rest:
        yield Check("rows", "warning", rest, "'turnstile repair --all' looks at the rows of all tables")
    if waiting:
        yield Check("tasks", "warning", first_of(waiting), _REMEDY_TASK)
    yield _clocks(found)


def _clocks(found: list[clocks.Ahead]) -> Check:
    if not found:
        return Check("clocks", "ok", "no row has a time that only a clock which was ahead can have written")
    found.sort(key=lambda each: -each.ahead_ms)
    text = f"a clock was ahead when these were written: {first_of(list(map(clocks.description_of, found)))}"
    remedy = (
        "see that the clocks of all servers are synchronised; ends of leases, pauses and turns among them count as "
        "over already"
    )
    return Check("clocks", "warning", text, remedy)


def _imports(world: World) -> Iterator[Check]:
    """Imports that were cut off; nothing where there are none."""
    found = sorted(imports.half_imported(world), key=lambda each: each.claimed_ms)
    if found:
        text = first_of([imports.description_of(each, world.clock.now_ms()) for each in found])
        yield Check("imports", "warning", text, imports.remedy(found[0]))


def _counts(states: Counter[str]) -> str:
    return ", ".join(f"{count} {state}" for state, count in sorted(states.items()))


def _outcome(name: str, wrong: list[str], right: str, remedy: str) -> Check:
    return Check(name, "failed", "; ".join(wrong), remedy) if wrong else Check(name, "ok", right)
