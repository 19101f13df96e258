"""The ports as one simulated process sees them: every call is a step, and every call may fail by
name."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any, Final, TypeVar

import msgspec

from tests.simulation.engine.plans import FREEZE, RESENT, Faults
from tests.simulation.engine.scheduler import Crashed
from tests.simulation.engine.state import State
from tests.support.fakes.storage import FakeStorage
from turnstile.store.core.errors import OutcomeUnknown, StorageFault, Throttled
from turnstile.store.core.rows import StoredRow
from turnstile.store.core.writes import Change, Row, Write
from turnstile.store.ports import TRANSACT_MAX, Accepted, AllAccepted, Obj, Rejected, SomeRejected, Stat, put_one_by_one

T = TypeVar("T")
_ANY: Final = frozenset({"before", "throttle", "crash", "stall", "jump", FREEZE})
READ: Final = _ANY | {"crash after"}
WRITE: Final = READ | {"lost", "late", "duplicate"}
DELETE: Final = READ | {"lost", "duplicate"}
SWAP: Final = WRITE | {RESENT}


class Process:
    """One process: its clock's deviation and its way to the stores. Lives until it crashes.

    Attributes:
        free: calls are no steps: preparations, before the run.
        ends: when a function's life is over (ms): it makes no call after that.
        freezes_at: the prefix of the call at which the sandbox is frozen once; empty for any call.
    """

    def __init__(self, state: State, name: str, *, client: bool = False, prone: bool = True) -> None:
        self.state = state
        self.name = name
        self.client = client
        self.prone = prone
        self.free = self.dead = False
        self.skew = 0 if client or not prone else state.skew_of()
        self.ends: int | None = None
        self.freezes_at: tuple[str, ...] = ()

    def now_ms(self) -> int:
        return self.state.scheduler.now + self.skew

    def pause(self, seconds: float) -> None:
        """The pause of a service between attempts; perhaps much longer."""
        if not self.free:
            self.state.scheduler.sleep(int(seconds * 1000))
            rate = self.state.frozen_pauses
            if rate and self.state.faults.draw(frozenset({FREEZE}), rate):
                self._freeze()

    def call(  # noqa: PLR0917 - what a call is made of
        self,
        what: str,
        effect: Callable[[], T],
        fitting: frozenset[str],
        fail: Callable[[str], Exception],
        lost: Callable[[str], Exception],
        again: Callable[[T], T] | None = None,
    ) -> T:
        """One call of a store, perhaps with a fault; ``again`` makes the answer one of a call whose
        first answer was lost."""
        state = self.state
        scheduler = self.state.scheduler
        if self.free:
            return effect()
        if self.dead:  # what a dead process would still do while its stack unwinds has no effect
            raise Crashed
        scheduler.pause()
        state.deliver()
        self._live()
        if what.startswith(self.freezes_at):
            self.freezes_at = ()
            self._freeze()
        faults: Faults = state.faults
        fault = faults.draw(fitting) if self.prone else ""
        if fault:
            scheduler.note(f"fault {faults.count} '{fault}' at {what}")
        match fault:
            case "":
                return effect()
            case "before" | "throttle":
                raise (Throttled() if fault == "throttle" else fail(what))
            case "lost":
                effect()
                raise lost(what)
            case "late":
                state.later(faults.soon(), what, effect)
                raise lost(what)
            case "duplicate":
                effect()
                scheduler.pause()
                return effect()
            case "resent":
                state.later(faults.soon(), what, effect)
                scheduler.pause()
                return again(effect()) if again is not None else effect()
            case "jump":
                self.skew = faults.skew(client=self.client)
                return effect()
            case "stall":
                scheduler.sleep(faults.long(client=self.client))
                state.deliver()
                self._live()
                return effect()
            case "freeze":
                if faults.rng.random() < 0.5:
                    self._freeze()
                    return effect()
                answer = effect()
                self._freeze()
                return answer
            case "crash after":
                effect()
        self.dead = not self.client
        raise Crashed

    def _freeze(self) -> None:
        """The process is frozen for hours, and does not notice."""
        state = self.state
        if self.dead:
            raise Crashed
        long = state.faults.frozen()
        state.scheduler.note(f"{self.name} is frozen for {long // 60_000} min")
        state.scheduler.sleep(long)
        state.deliver()
        if self.ends is not None:
            self.ends += long

    def _live(self) -> None:
        if self.ends is not None and self.state.scheduler.now > self.ends:
            self.dead = True
            raise Crashed


def _unknown(what: str) -> Exception:
    return OutcomeUnknown(f"no answer to {what}")


def _throttled(what: str) -> Exception:
    return Throttled(f"{what} failed")


def _uncertain(answer: Any) -> Any:
    """As the adapter gives it when an answer before this one was lost."""
    return msgspec.structs.replace(answer, uncertain=True) if isinstance(answer, Rejected | SomeRejected) else answer


def _storage(what: str) -> Exception:
    return StorageFault(f"{what} failed")


class SimRefs:
    """``turnstile.store.ports.Refs`` of one process."""

    transact_max = TRANSACT_MAX

    def __init__(self, process: Process) -> None:
        self._process = process
        self._state = process.state

    def read(self, key: str) -> Row | None:
        return self._call(f"read {key}", lambda: self._state.refs.read(key), READ)

    def read_many(self, keys: Sequence[str]) -> dict[str, Row]:
        return self._call(f"read {', '.join(keys)}", lambda: self._state.refs.read_many(keys), READ)

    def read_cut(self, keys: Sequence[str]) -> dict[str, Row]:
        return self._call(f"cut {', '.join(keys)}", lambda: self._state.refs.read_cut(keys), READ)

    def write(self, write: Write) -> Accepted | Rejected:
        fitting = (
            SWAP if isinstance(write, Change) else WRITE
        )  # a row that is inserted late is one too many, and no harm
        return self._call(f"write {write.key}", lambda: self._state.write(write), fitting)

    def read_damaged(self, of: type[StoredRow], key: str) -> object | None:
        found: object | None = self._call(f"read {key}", lambda: self._state.refs.read_damaged(of, key), READ)
        return found

    def replace_damaged(self, row: Row, content: object) -> bool:
        key = row["key"]
        return bool(self._call(f"replace {key}", lambda: self._state.refs.replace_damaged(row, content), WRITE))

    def transact(self, writes: Sequence[Write], token: str) -> AllAccepted | SomeRejected:
        what = "transact " + ", ".join(write.key for write in writes)
        return self._call(what, lambda: self._state.transact(writes, token), SWAP)

    def scan(self, kind: str, *, after: str = "", stale: bool = False) -> Iterator[Row]:
        found = self._call(f"scan {kind}", lambda: list(self._state.refs.scan(kind, after=after)), READ)
        yield from found

    def clock_ms(self) -> int | None:
        return None

    def scan_part(self, kinds: Collection[str], *, after: str, limit: int) -> tuple[list[Row], str]:
        found: tuple[list[Row], str] = self._call(
            f"scan {' '.join(kinds)}", lambda: self._state.refs.scan_part(kinds, after=after, limit=limit), READ
        )
        return found

    def _call(self, what: str, effect: Callable[[], Any], fitting: frozenset[str]) -> Any:
        return self._process.call(what, effect, fitting, _throttled, _unknown, _uncertain)


class SimObjs:
    """``turnstile.store.ports.Objs`` of one process."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._state = process.state

    def put(self, obj: Obj) -> None:
        self._call(f"put {obj.id[:60]}", lambda: self._state.objs.put(obj), WRITE)

    def put_many(self, objs: Iterable[Obj]) -> None:
        found = list(objs)
        self._call(f"put {len(found)} objs", lambda: self._state.objs.put_many(found), WRITE)

    def get(self, space: str, id: str) -> Obj | None:
        return self._call(f"get {id[:60]}", lambda: self._state.live(space, id), READ)

    def get_many(self, space: str, ids: Sequence[str]) -> dict[str, Obj]:
        def effect() -> dict[str, Obj]:
            found = {id: self._state.live(space, id) for id in ids}
            return {id: obj for id, obj in found.items() if obj is not None}

        return self._call(f"get {len(ids)} objs", effect, READ)

    def newest(self, space: str, prefix: str) -> Obj | None:
        return self._call(f"newest {prefix}", lambda: self._state.objs.newest(space, prefix), READ)

    def list(self, space: str, prefix: str) -> Iterator[Obj]:
        yield from self._call(f"list {prefix}", lambda: list(self._state.objs.list(space, prefix)), READ)

    def delete(self, space: str, id: str) -> None:
        self._call(f"delete {id[:60]}", lambda: self._state.delete_obj(space, id), DELETE)

    def __getattr__(self, name: str) -> Any:
        """Methods that the port has gained since: passed on as a read or write of its own."""
        plain = getattr(self._state.objs, name)
        return lambda *a, **k: self._call(f"{name} {a[:2]}", lambda: plain(*a, **k), READ)

    def _call(self, what: str, effect: Callable[[], Any], fitting: frozenset[str]) -> Any:
        return self._process.call(what, effect, fitting, _throttled, _unknown)


class SimStorages:
    """``turnstile.store.ports.Storages`` of one process."""

    def __init__(self, process: Process) -> None:
        self._process = process

    def open(self, location: str) -> SimStorage:
        return SimStorage(self._process, location.rstrip("/"))


class SimStorage:
    """``turnstile.store.ports.LogStorage`` of one process."""

    def __init__(self, process: Process, location: str) -> None:
        self._process = process
        self._state = process.state
        self._location = location
        self._plain: FakeStorage = process.state.storages.open(location)

    def read(self, path: str, limit: int | None = None, offset: int = 0) -> tuple[bytes, Stat] | None:
        return self._call(f"read {path}", lambda: self._plain.read(path, limit, offset), READ)

    def stat(self, path: str) -> Stat | None:
        return self._call(f"stat {path}", lambda: self._plain.stat(path), READ)

    def put_if_absent(self, path: str, content: bytes | Iterable[bytes]) -> bool:
        content = content if isinstance(content, bytes) else b"".join(content)
        effect = lambda: self._state.put_file(self._location, path, content)  # noqa: E731
        return self._call(f"put {path}", effect, WRITE)

    def replace(self, path: str, content: bytes) -> None:
        effect = lambda: self._state.replace_file(self._location, path, content)  # noqa: E731
        self._call(f"replace {path}", effect, WRITE)

    def put_in_order(self, files: Sequence[tuple[str, bytes]]) -> int:
        return put_one_by_one(self, files)

    def list(self, prefix: str, after: str = "") -> Iterator[Stat]:
        yield from self._call(f"list {prefix}", lambda: list(self._plain.list(prefix, after)), READ)

    def list_all(self) -> Iterator[Stat]:
        yield from self._call("list all", lambda: list(self._plain.list_all()), READ)

    def left_overs(self, before_ms: int) -> Iterator[Stat]:
        yield from ()

    def delete(self, path: str) -> None:
        self._call(f"delete {path}", lambda: self._state.delete_file(self._location, path), DELETE)

    def _call(self, what: str, effect: Callable[[], Any], fitting: frozenset[str]) -> Any:
        return self._process.call(what, effect, fitting, _storage, _storage)
