"""``python -m tests.support.damage.pages``: each page of a server's SQLite store, damaged, and a
table of the results.

Each page is zeroed, changed in 64 bytes (at eleven places), or the file is cut there; one at a
time, in a copy. Then the file is opened as a process of the server opens it, and requests are made:
tables are listed, HEADs, names and metadata read, a commit is made and its outcome asked for.
Outcomes:

    told       a typed error, of the opening or of a request
    at start   a request gave another answer than without the damage, and the check of the server's
               start names the damage
    found      every answer was right, and 'doctor --store' names the damage
    no effect  every answer was right, and the file is whole
    believed   another answer, and nothing names the damage
    untyped    an exception that is no error of the store
"""

from __future__ import annotations

import faulthandler
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

from tests.support.catalog import create
from tests.support.fakes import delta
from turnstile.adapters.sqlite.file import problem_in
from turnstile.catalog.services import build, ensure
from turnstile.delta.core.decide import Ratified
from turnstile.delta.core.head import TableHead
from turnstile.delta.identity import Outcomes
from turnstile.delta.proposals import CommitRequest
from turnstile.delta.ratify import Ratifier
from turnstile.store.core.errors import TurnstileError
from turnstile.store.core.limits import Limits
from turnstile_server.settings import ServerSettings
from turnstile_server.world import OpenStore, open_store

PAGE: Final = 4_096
FLIPPED: Final = 64
NEVER: Final = ("believed", "untyped")

Damage = Callable[[bytes, int], bytes]


def zeroed(content: bytes, page: int) -> bytes:
    return content[: page * PAGE] + bytes(PAGE) + content[(page + 1) * PAGE :]


def cut(content: bytes, page: int) -> bytes:
    return content[: page * PAGE]


def flipped(at: int) -> Damage:
    """Changes every bit of 64 bytes of a page."""

    def change(content: bytes, page: int) -> bytes:
        first = page * PAGE + at
        other = bytes(byte ^ 0xFF for byte in content[first : first + FLIPPED])
        return content[:first] + other + content[first + FLIPPED :]

    return change


DAMAGES: Final[dict[str, Damage]] = {
    "zeroed": zeroed,
    **{f"flipped at {at}": flipped(at) for at in (*range(0, PAGE - FLIPPED, 448), PAGE - FLIPPED)},
    "cut": cut,
}


def opened(home: Path) -> OpenStore:
    return open_store(ServerSettings(str(home), lake_root=(home / "lake").as_uri()), create=False)


def small_store(home: Path, tables: int = 3, commits: int = 4) -> None:
    """A store that is closed, made in this process."""
    settings = ServerSettings(str(home), lake_root=(home / "lake").as_uri())
    store = open_store(settings)
    ensure(store.world, lake_root=settings.lake_root)
    services = build(store.world, lake_root=settings.lake_root, limits=Limits())
    for number in range(tables):
        id = create(services, f"t{number}")
        for version in range(1, commits + 1):
            content = delta.append(f"c{version}", store.world.clock.now_ms() + version)
            assert isinstance(Ratifier(store.world).commit(CommitRequest(id, version, content=content)), Ratified)
        services.publisher.publish(id)
    store.close()


def answers(store: OpenStore, lake: str) -> list[Any]:
    """The answers to requests; times of the commit that is made here are left out. Raises their
    errors."""
    world = store.world
    services = build(world, lake_root=lake, limits=Limits())
    listed = services.listings.tables("main", ("default",)).items
    heads = [TableHead.from_row(row) for row in world.refs.scan("table")]
    found: list[Any] = [[table.name for table in listed], heads]
    for head in heads:
        found += [services.metadata.get(head.catalog, head.metadata)]
        found += [world.refs.read(world.space.location(head.location))]
    for table in listed:
        found.append(Outcomes(world).of(table.table_id, txn="c1"))
        found.append(services.reader.resolve("main", ("default",), table.name).table_id)
        row = world.refs.read(world.space.table(table.table_id))
        assert row is not None
        latest = row["latest"]
        sent_ms = row["last_ict"] + 1
        for _ in range(2):  # the second one is a replay
            content = delta.append("again", sent_ms)
            answer = Ratifier(world).commit(CommitRequest(table.table_id, latest + 1, content=content))
            found.append((type(answer).__name__, getattr(answer, "version", None), getattr(answer, "message", "")))
        found.append(Outcomes(world).of(table.table_id, txn="again"))
    return found


def outcome_of(home: Path, right: list[Any]) -> tuple[str, str]:
    """The result of one damage, and the message."""
    path = home / "turnstile.db"
    lake = (home / "lake").as_uri()
    try:
        outcome, said = _asked(home, lake, right)
        if outcome == "no effect":
            problem = problem_in(path)
            outcome, said = ("found", problem) if problem is not None else (outcome, said)
    except TurnstileError as error:
        outcome = "told"
        said = f"{error.type}: {error.message}"
    except Exception as error:
        outcome = "untyped"
        said = f"{type(error).__name__}: {error}"
    return outcome, said


def _asked(home: Path, lake: str, right: list[Any]) -> tuple[str, str]:
    store = opened(home)
    try:
        assert store.database is not None
        problem = ""
        try:
            store.database.require_whole()
        except TurnstileError as error:
            problem = error.message
            store.database.damage = None
        given = answers(store, lake)
    finally:
        store.close()
    if given == right:
        return "no effect", ""
    if problem:
        return "at start", problem
    wrong = next((pair for pair in zip(right, given, strict=False) if pair[0] != pair[1]), (len(right), len(given)))
    return "believed", f"{wrong[0]!r:.300} became {wrong[1]!r:.300}"


def run(home: Path, *, each: int = 1, show: Callable[[str], object] = lambda _: None) -> dict[str, Counter[str]]:
    """Damages every ``each``-th page of a closed store in copies of its home; returns the outcomes
    by damage."""
    content = (home / "turnstile.db").read_bytes()
    assert not (home / "turnstile.db-wal").exists(), "it was not closed"
    counts: dict[str, Counter[str]] = {name: Counter() for name in DAMAGES}
    with tempfile.TemporaryDirectory() as folder:
        right = _right(home, Path(folder) / "right")
        for name, page, copy in _copies(home, content, Path(folder), each):
            outcome, said = outcome_of(copy, right)
            counts[name][outcome] += 1
            if outcome in NEVER:
                show(f"page {page} {name}: {outcome}: {said}")
    return counts


def _right(home: Path, copy: Path) -> list[Any]:
    shutil.copytree(home, copy)
    store = opened(copy)
    try:
        return answers(store, (copy / "lake").as_uri())
    finally:
        store.close()


def _copies(home: Path, content: bytes, folder: Path, each: int) -> Iterator[tuple[str, int, Path]]:
    number = 0
    for page in range(len(content) // PAGE):
        for name, damage in DAMAGES.items():
            number += 1
            if number % each:
                continue
            copy = folder / str(number)
            copy.mkdir()
            (copy / "lake").symlink_to((home / "lake").absolute())
            (copy / "turnstile.db").write_bytes(damage(content, page))
            yield name, page, copy
            shutil.rmtree(copy)


def table_of(counts: dict[str, Counter[str]]) -> str:
    """The outcomes as a table for people."""
    names = ("told", "at start", "found", "no effect", *NEVER)
    lines = [f"{'':<26}" + "".join(f"{name:>11}" for name in names)]
    for damage, found in [*counts.items(), ("all", sum(counts.values(), Counter[str]()))]:
        lines.append(f"{damage:<26}" + "".join(f"{found[name]:>11}" for name in names))
    return "\n".join(lines)


def main() -> None:
    from tests.support.stack import Table
    from turnstile_server import Server

    faulthandler.dump_traceback_later(1_800, exit=True)
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder) / "home"
        with Server.start(home, 0) as server:
            for number in range(3):
                table = Table(server, f"t{number}")
                for version in range(1, 9):
                    table.append(version)
                table.published(8)
        sys.stdout.write(table_of(run(home, show=lambda text: sys.stderr.write(text + "\n"))) + "\n")


if __name__ == "__main__":
    main()
