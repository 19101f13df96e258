"""What the simulation has found and the services do not mend yet, each with its remedy: with it the simulation looks on,
and without it a test expects the failure. A defect that is mended is taken off this list."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

from turnstile.core.errors import OutcomeUnknown, Throttled
from turnstile.services.catalog.attempts import Attempts
from turnstile.services.gc_catalogs import GoneCatalogs
from turnstile.services.ids import SnowflakeIds


def _throttled_after_a_lost_answer() -> Any:
    """A swap whose answer was lost is sent again; if that is throttled, the change ends as ``Throttled``, which means that
    nothing was applied. Perhaps it was: a merge is repeated, and an Iceberg commit deletes the metadata files of its
    tables although the HEAD leads to them (I3, I9)."""

    def mended(send: Callable[..., Any]) -> Callable[..., Any]:
        def sends(self: Attempts, at: Any, id: str, writes: Any) -> Any:
            write, transact, unknown = self._world.refs.write, self._world.refs.transact, [False]

            def told(call: Callable[..., Any]) -> Callable[..., Any]:
                def asked(*args: Any) -> Any:
                    try:
                        return call(*args)
                    except OutcomeUnknown:
                        unknown[0] = True
                        raise
                    except Throttled:
                        if unknown[0]:
                            raise OutcomeUnknown("throttled after a lost answer") from None
                        raise

                return asked

            refs = self._world.refs
            with patch.object(refs, "write", told(write)), patch.object(refs, "transact", told(transact)):
                return send(self, at, id, writes)

        return sends

    return patch.object(Attempts, "_send", mended(Attempts._send))


def _an_older_note_decides() -> Any:
    """A catalog was dropped, created again and dropped again, before gc came by. The note of the first drop is old enough,
    and with it goes what the second catalog led to until just now, of which there may be page tokens (I10)."""

    def mended(look: Callable[..., Any]) -> Callable[..., Any]:
        def looks(self: GoneCatalogs, row: Any, now: int) -> Iterator[Any]:
            notes = [one["created"] for one in self._means.world.refs.scan("gone") if one["name"] == row["name"]]
            if max(notes, default=0) <= row["created"]:
                yield from look(self, row, now)

        return looks

    return patch.object(GoneCatalogs, "look", mended(GoneCatalogs.look))


def _closed_and_goes_on() -> Any:
    """A process gives its node up, the answer is lost, and it goes on making ids of a range that is another's by then
    (I2)."""

    def close(self: SnowflakeIds) -> None:
        with self._lock:
            lease, self._lease = self._lease, None
            if lease is not None:
                self._leases.release(lease, self._issuer.free)

    return patch.object(SnowflakeIds, "close", close)


DEFECTS: dict[str, Callable[[], Any]] = {
    "throttled after a lost answer": _throttled_after_a_lost_answer,
    "an older note decides": _an_older_note_decides,
    "closed and goes on": _closed_and_goes_on,
}


@contextmanager
def mended(*, but: str = "") -> Iterator[None]:
    """Everything on the list mended, except ``but``."""
    with ExitStack() as stack:
        for name, remedy in DEFECTS.items():
            if name != but:
                stack.enter_context(remedy())
        yield
