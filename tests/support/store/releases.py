"""Two releases of the product on one store: this one, and a newer one that knows one format more.

``NewerRelease`` is a process on a copy of ``layers`` in which ``KNOWN`` is raised by one and
entries have a member more, which every commit of it fills.
``python -m tests.support.store.releases <file>`` runs it: commands as lines of JSON, and an answer
to each. ``act`` carries out the same commands in this process, as the older release.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import msgspec

from tests.support.fakes import delta
from tests.support.repository import ROOT
from turnstile.adapters.machine import RandomIds, SystemClock
from turnstile.adapters.opening import FileStorages
from turnstile.adapters.sqlite.database import Database
from turnstile.adapters.sqlite.objs import SqliteObjs
from turnstile.adapters.sqlite.refs import SqliteRefs
from turnstile.delta.commits import read_head
from turnstile.delta.core.content import read_content
from turnstile.delta.core.head import cost, new_head_row
from turnstile.delta.core.metadata import first_metadata
from turnstile.delta.proposals import CommitRequest
from turnstile.delta.publish import Publisher
from turnstile.delta.ratify import Ratifier
from turnstile.delta.sweep import Sweeper
from turnstile.store.core import writes as formats
from turnstile.store.core.errors import TurnstileError
from turnstile.store.core.names import published_path
from turnstile.store.core.rows import METADATA, Space
from turnstile.store.core.writes import Change, Insert, Set, new_row
from turnstile.store.ports import Obj, World

_PACKED: Final = """if self.origin:
            return packed
        empty = 1 if self.principal else 2 if self.digest else 3  # as older releases pack it
"""
NEWER: Final = (
    ("store/core/writes.py", "KNOWN: Final = 1\n", "KNOWN: Final = 2\n"),
    ("delta/core/head.py", '    principal: str = ""\n\n', '    principal: str = ""\n    origin: str = ""\n\n'),
    (
        "delta/core/head.py",
        "if self.principal:\n            return packed\n        empty = 1 if self.digest else 2\n",
        _PACKED,
    ),
    ("delta/proposals.py", "        entry=Entry(\n", '        entry=Entry(\n            origin="newer",\n'),
)
"""The differences of the newer release: file, text, and its replacement."""


class NewerRelease:
    """A process of the newer release on the store in ``path``; its code is copied below ``folder``.
    A context: it is gone at its end."""

    def __init__(self, path: Path, folder: Path) -> None:
        layers = folder / "layers"
        shutil.copytree(ROOT / "layers", layers, ignore=shutil.ignore_patterns("__pycache__"))
        for name, before, after in NEWER:
            file = layers / "turnstile" / name
            text = file.read_text()
            if text.count(before) != 1:
                raise ValueError(f"{name} has not once: {before}")
            file.write_text(text.replace(before, after))
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join((str(layers), str(ROOT), *sys.path))}
        self._process = subprocess.Popen(
            [sys.executable, "-m", __name__, str(path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()

    def __call__(self, do: str, table: str = "", **more: Any) -> dict[str, Any]:
        """The answer of the newer release to a command."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"do": do, "table": table, **more}) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            raise ChildProcessError("the newer release has ended")
        return dict(json.loads(answer))


def open_world(database: Database) -> World:
    """The world on a file, for either release."""
    clock = SystemClock()
    return World(
        refs=SqliteRefs(database, realm="r", clock=clock),
        objs=SqliteObjs(database, clock=clock),
        storages=FileStorages(),
        clock=clock,
        ids=RandomIds(),
        space=Space("r"),
    )


def create_table(world: World, id: str, lake: Path) -> None:
    """A table with version 0, published."""
    now = world.clock.now_ms()
    location = f"file://{lake}/{id}"
    zero = delta.version_zero(f"zero-{id}", now)
    world.storages.open(location).put_if_absent(published_path(0), zero)
    payload = msgspec.json.encode(first_metadata(read_content(zero, first_version=True)))
    metadata = METADATA.id(f"{id}/0")
    world.objs.put(Obj(world.space.objs("main"), metadata, METADATA.name, payload, created_us=now * 1000))
    row = new_head_row(
        key=world.space.table(id),
        table_id=id,
        catalog="main",
        name=f"main.default.{id[:8]}",
        location=location,
        metadata=metadata,
        version=0,
        ict=now,
        row_hwm=None,
        created=now,
        managed=True,
    )
    world.refs.write(Insert(row, (new_row("I2"),)))


def act(world: World, do: str, table: str = "", **more: Any) -> dict[str, Any]:
    """Carries out one command with the code of this process; a refusal is the answer ``refused``,
    with its type."""
    try:
        return _act(world, do, table, more)
    except TurnstileError as error:
        return {"refused": error.type, "message": error.message}


def _act(world: World, do: str, table: str, more: dict[str, Any]) -> dict[str, Any]:
    if do == "code":
        return {"known": formats.KNOWN, "file": formats.__file__}
    if do == "commit":
        later = world.clock.now_ms() + more["version"]  # than the version before, also within a millisecond
        content = delta.append(more["txn"], later, base=more["version"] - 1)
        decision = Ratifier(world).commit(CommitRequest(table, more["version"], content=content))
        return {"decision": type(decision).__name__, "version": getattr(decision, "version", None)}
    if do == "publish":
        return dict(msgspec.to_builtins(Publisher(world).publish(table)))
    if do == "sweep":
        swept = Sweeper(world, Publisher(world)).sweep(
            until_ms=world.clock.now_ms() + 60_000, each_ms=60_000, workers=1
        )
        return dict(msgspec.to_builtins(swept))
    if do == "raise format":
        world.refs.write(Change(world.space.table(table), (), (Set(formats.FORMAT, formats.KNOWN),)))
        return {}
    head = read_head(world, table)
    return {
        "latest": head.latest,
        "floor": head.floor,
        "origins": {entry.txn: getattr(entry, "origin", None) for entry in head.tail},
        "bytes": [head.bytes, sum(map(cost, head.tail))],
    }


def main() -> None:
    """Answers commands until there are no more."""
    database = Database(Path(sys.argv[1]))
    world = open_world(database)
    for line in sys.stdin:
        print(json.dumps(act(world, **json.loads(line))), flush=True)
    database.close()


if __name__ == "__main__":
    main()
