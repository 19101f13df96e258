"""A Delta table on fakes with known ratified bytes, so that tests can compare the published ones.

Also one that was restored from a backup behind its own log, and its repair.
"""

from __future__ import annotations

import hashlib
import struct
import zlib
from collections.abc import Callable, Iterable
from typing import Any

import msgspec
from pyroaring import BitMap64

from tests.support.fakes import delta
from tests.support.fakes.heads import recount
from tests.support.fakes.world import FakeWorld, fake_world
from turnstile.catalog.core.location_rows import owner_row
from turnstile.delta.core.content import read_content
from turnstile.delta.core.decide import Ratified
from turnstile.delta.core.head import TableHead, final_bytes, new_head_row, tail_by_version
from turnstile.delta.core.metadata import first_metadata
from turnstile.delta.metadata import MetadataStore
from turnstile.delta.proposals import CommitRequest
from turnstile.delta.publish import Published, Publisher
from turnstile.delta.ratify import Ratifier
from turnstile.delta.recover import Recoverer
from turnstile.delta.repair import Diagnosis, Repairer
from turnstile.store.core.evaluate import clone
from turnstile.store.core.names import published_path, staged_path
from turnstile.store.core.rows import METADATA
from turnstile.store.core.writes import Insert, Row, new_row
from turnstile.store.faults import no_faults
from turnstile.store.ports import Obj

TABLE = "11111111-1111-4111-8111-111111111111"


def table_id(number: int) -> str:
    return f"{number:08d}-1111-4111-8111-111111111111"


class Killed(BaseException):
    """The process ends here: nothing catches it, nothing cleans up."""


def kill_at(point: str, visit: int = 1) -> Callable[[str], None]:
    """Faults that end the process at the n-th visit to ``point``; ``reached`` on the function
    counts visits."""
    left = [visit]

    def faults(reached: str) -> None:
        if reached == point:
            left[0] -= 1
            if left[0] == 0:
                raise Killed(point)

    return faults


class Table:
    """One table of ``world``; ``ratified`` maps version to the bytes that were ratified."""

    def __init__(self, world: FakeWorld, id: str = TABLE, *, managed: bool = True, owned: bool = True) -> None:
        self.world = world
        self.id = id
        self.location = f"file:///lake/{id}"
        self.key = world.space.table(id)
        self.storage = world.storages.open(self.location)
        self.ratifier = Ratifier(world)
        now = world.clock.now_ms()
        zero = delta.version_zero(f"zero-{id}", now)
        self.ratified: dict[int, bytes] = {0: zero}
        self.names: dict[int, str] = {}
        self.storage.put_if_absent(published_path(0), zero)
        first = first_metadata(read_content(zero, first_version=True))
        payload = msgspec.json.encode(msgspec.structs.replace(first, timestamp=0))
        world.objs.put(Obj(world.space.objs("main"), "metadata/m", METADATA.name, payload, created_us=1))
        row = new_head_row(
            key=self.key,
            table_id=id,
            catalog="main",
            name=f"main.default.t{id[:8]}",
            location=self.location,
            metadata="metadata/m",
            version=0,
            ict=now,
            row_hwm=None,
            created=now,
            managed=managed,
        )
        world.refs.write(Insert(row, (new_row("I2"),)))
        if owned:
            self.own(id)
        self.ratifier.heads.facts(id)

    def supports(self, *features: str) -> None:
        """Give the table these features, without a commit."""
        zero = read_content(delta.version_zero("features", 1, *features), first_version=True)
        store = MetadataStore(self.world.objs, self.world.space)
        self.row["metadata"] = store.put("main", self.id, first_metadata(zero), 1)

    def own(self, id: str) -> None:
        """Make table ``id`` the owner of this location."""
        insert = owner_row(self.world.space, self.location, id, "main", 1)
        self.world.refs.rows[insert.key] = insert.row

    @property
    def row(self) -> Row:
        return self.world.refs.rows[self.key]

    @property
    def head(self) -> TableHead:
        return TableHead.from_row(self.row)

    def put(self, path: str, content: bytes) -> None:
        """Write past every condition, as a foreign process could."""
        self.world.storages.files[f"{self.location}/{path}"] = (content, self.world.clock.now_ms())

    def staged_name(self, version: int, mark: int) -> str:
        return f"{version:020d}.{mark:08d}-aaaa-4aaa-8aaa-aaaaaaaaaaaa.json"

    def stage(self, *, rows: int = 1, lose: bool = False) -> str:
        """Write a staged file for the next version and, unless it is to ``lose``, have it
        ratified."""
        version = self.head.latest + 1
        now = self.world.clock.now_ms()
        content = delta.append(f"s-{version}-{now}", now, rows=rows)
        name = self.staged_name(version, now % 100_000_000)
        self.storage.put_if_absent(staged_path(name), content)
        if not lose:
            answer = self.ratifier.commit(CommitRequest(self.id, version, staged=name, size=len(content)))
            self._ratified(answer, content, name)
        return name

    def inline(self, *, size: int = 0) -> int:
        """An inline commit of the next version, of at least ``size`` bytes that do not compress."""
        version = self.head.latest + 1
        now = self.world.clock.now_ms()
        noise = "".join(hashlib.sha256(f"{version}.{block}".encode()).hexdigest() for block in range(-(-size // 64)))
        content = delta.lines(delta.info(f"i-{version}-{now}", now, noise=noise), delta.add(f"{version}.parquet"))
        answer = self.ratifier.commit(CommitRequest(self.id, version, content=content))
        return self._ratified(answer, content, "")

    def ticket(self, txn: str) -> int:
        """A blind append that asks for the next version."""
        content = delta.append(txn, self.world.clock.now_ms() - 1_000)
        answer = self.ratifier.commit(CommitRequest(self.id, None, base=0, content=content))
        assert isinstance(answer, Ratified), answer
        assert answer.place is not None
        return self._ratified(answer, final_bytes(answer.place, content), "")

    def _ratified(self, answer: object, content: bytes, name: str) -> int:
        assert isinstance(answer, Ratified), answer
        self.ratified[answer.version] = content
        self.names[answer.version] = name or next(
            place.name for place in tail_by_version(self.head) if place.version == answer.version
        )
        return answer.version

    def mixed(self, count: int) -> None:
        """``count`` more commits of every kind, among them inline ones too large for the row."""
        for number in range(count):
            match number % 4:
                case 0:
                    self.stage()
                case 1:
                    self.inline()
                case 2:
                    self.ticket(f"t-{self.head.latest}-{number}")
                case _:
                    self.inline(size=12_000)

    def published(self) -> dict[int, bytes]:
        """The files of ``_delta_log``."""
        found = {}
        for stat in self.storage.list("_delta_log/"):
            name = stat.path.removeprefix("_delta_log/")
            if name.endswith(".json"):
                content = self.storage.read(stat.path)
                assert content is not None
                found[int(name[:20])] = content[0]
        return found

    def check_prefix(self) -> None:
        """I4, I5: the published commits are a prefix of the ratified ones, byte for byte, at least
        up to the floor."""
        found = self.published()
        assert found == {version: self.ratified[version] for version in range(len(found))}
        assert self.head.floor < len(found)

    def check_all_published(self) -> None:
        """I11: nothing is left, and the row says so."""
        self.check_prefix()
        assert sorted(self.published()) == sorted(self.ratified)
        head = self.head
        assert head.floor == head.latest == max(self.ratified)
        assert head.pending is None
        assert head.state == "active"


def inline_request(table: Table, version: int | None, txn: str, ict: int | None = None, **more: Any) -> CommitRequest:
    stamp = ict or max(table.world.clock.now_ms(), table.head.last_ict + 1)
    return CommitRequest(table.id, version, content=delta.append(txn, stamp), **more)


def with_metadata() -> Table:
    """Version 0 with its metadata snapshot."""
    made = Table(fake_world())
    snapshot = first_metadata(read_content(made.ratified[0], first_version=True))
    made.row["metadata"] = MetadataStore(made.world.objs, made.world.space).put("main", TABLE, snapshot, 1)
    return made


def publish(table: Table) -> Published:
    return Publisher(table.world).publish(TABLE)


def repair(table: Table, faults: Callable[[str], None] = no_faults, **more: Any) -> tuple[Published, Diagnosis]:
    world = table.world
    limits = more.pop("limits", None)
    publisher = Publisher(world, limits, faults=faults, **more)
    return Repairer(world, publisher, Recoverer(world, limits, faults=faults)).repair(TABLE)


def diagnosis(table: Table) -> Diagnosis:
    return Repairer(table.world, Publisher(table.world)).diagnose(TABLE)


def alter(table: Table, **configuration: str) -> int:
    """A commit that changes the table's properties."""
    stamp = max(table.world.clock.now_ms(), table.head.last_ict + 1)
    version = table.head.latest + 1
    content = delta.lines(delta.info(f"alter-{version}", stamp, "SET TBLPROPERTIES"), delta.metadata(**configuration))
    answer = table.ratifier.commit(CommitRequest(TABLE, version, content=content))
    return table._ratified(answer, content, "")


def restored(table: Table, before: int = 3, after: int = 6) -> Row:
    """A backup after ``before`` commits, ``after`` more that are published, and the backup is
    restored. Returns the HEAD that was lost."""
    table.mixed(before)
    backup = clone(table.row)
    table.mixed(after)
    alter(table, delta_note="after the backup")
    publish(table)
    table.check_all_published()
    lost = clone(table.row)
    table.world.refs.rows[table.key] = backup
    return lost


def adopted(table: Table, lost: Row) -> None:
    """The table is as good as it was before the restore."""
    table.check_all_published()
    recount(table.head)
    for member in ("latest", "floor", "last_ict", "metadata", "epoch", "state"):
        assert table.row[member] == lost[member], member
    assert table.row.get("row_hwm") == lost.get("row_hwm")
    assert "reason" not in table.row


def vector_data(rows: Iterable[int]) -> bytes:
    """A deletion vector as Delta encodes it."""
    return struct.pack("<i", 1681511377) + BitMap64(rows).serialize()


def vector_file(data: bytes, *, size: int | None = None, checksum: int | None = None) -> bytes:
    """The bytes of a vector in a file: its size, itself, its checksum; a wrong one where given."""
    first = struct.pack(">i", len(data) if size is None else size)
    return first + data + struct.pack(">I", zlib.crc32(data) if checksum is None else checksum)


def inline_vector(rows: set[int]) -> dict[str, Any]:
    """The descriptor of a deletion vector that is in the descriptor itself."""
    data = vector_data(rows)
    data += b"\0" * (-len(data) % 4)
    return {"storageType": "i", "pathOrInlineDv": z85(data), "sizeInBytes": len(data), "cardinality": len(rows)}


def z85(data: bytes) -> str:
    letters = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
    numbers = struct.unpack(f">{len(data) // 4}I", data)
    return "".join(letters[number // 85**place % 85] for number in numbers for place in (4, 3, 2, 1, 0))
