"""Planted mistakes: the simulation must find each of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pkgutil import resolve_name
from typing import Any
from unittest.mock import patch

from msgspec.structs import replace

from turnstile.delta.identity import IdentityIndex
from turnstile.delta.publish import Publisher
from turnstile.delta.ratify import CommitQueue
from turnstile.store.core.writes import Change


@contextmanager
def swapped(path: str, make: Callable[[Any], Any]) -> Iterator[None]:
    """The object at ``path`` replaced by the result of ``make`` for it."""
    module, name = path.rsplit(".", 1)
    owner = resolve_name(module)
    with patch.object(owner, name, make(getattr(owner, name))):
        yield


def without(path: str, *clauses: str) -> Callable[[], Any]:
    """A builder of conditional writes that forgets clauses."""

    def forgetful(build: Callable[..., Any]) -> Callable[..., Any]:
        def built(*args: Any, **more: Any) -> Any:
            made = build(*args, **more)
            if isinstance(made, list | tuple):
                return type(made)(replace(one, clauses=_kept(one)) for one in made)
            return replace(made, clauses=_kept(made))

        return built

    def _kept(made: Change) -> tuple[Any, ...]:
        return tuple(clause for clause in made.clauses if clause.name not in clauses)

    return lambda: swapped(path, forgetful)


NAMED = "turnstile.delta.prepare.named_change"
TICKET = "turnstile.delta.prepare.ticket_change"
FLOOR = "turnstile.delta.publish.raise_floor"
SWAP = "turnstile.catalog.changes.attempts.swap_head"


def _refused_means_won() -> Any:
    """After a refusal, look whether the table has that version by now (the client of another
    coordinator does)."""

    def wrong(commit: Callable[..., Any]) -> Callable[..., Any]:
        def looks_won(self: CommitQueue, ratifier: Any, prepared: Any) -> Any:
            answer = commit(self, ratifier, prepared)
            if type(answer).__name__ == "Conflict" and prepared.proposal.version is not None:
                from turnstile.delta.core.decide import Ratified

                return Ratified(None, prepared.proposal.version, answer.latest, "", replayed=True)
            return answer

        return looks_won

    return patch.object(CommitQueue, "commit", wrong(CommitQueue.commit))


def _clears_pending_always() -> Any:
    """The floor write removes ``pending`` whether or not something was ratified meanwhile."""
    forget = without(FLOOR, "idle", "same application")

    @contextmanager
    def both() -> Iterator[None]:
        with (
            swapped(
                FLOOR, lambda build: lambda head, published, idle, keep: build(head, published, idle=True, keep=keep)
            ),
            forget(),
        ):
            yield

    return both()


def _premature_floor() -> Any:
    """The floor is raised to versions that the publisher is about to copy."""

    def wrong(copy: Callable[..., Any]) -> Callable[..., Any]:
        def claims(self: Publisher, head: Any, run: Any) -> Any:
            run.seen = head.latest
            head_after = self._raise(head, run.seen)
            return copy(self, head_after, run)

        return claims

    return patch.object(Publisher, "_copy", wrong(Publisher._copy))


@contextmanager
def _collects_above_the_floor() -> Iterator[None]:
    """Staged files go because they are old."""
    gc = "turnstile.gc.kinds.staged."
    with (
        swapped(gc + "staged_candidates", lambda _: lambda files, floor, carried: list(files)),
        swapped(gc + "staged_since", lambda _: lambda file, published, left: file.modified_ms),
    ):
        yield


MISTAKES: dict[str, tuple[Callable[[], Any], str]] = {
    "named: without 'next'": (without(NAMED, "next"), "I1"),
    "named: without 'later'": (without(NAMED, "later"), "I7"),
    "named: without 'new identity' and 'next'": (without(NAMED, "new identity", "next"), "I1"),
    "named: without 'active'": (without(NAMED, "active"), "I10"),
    "named: without 'fresh rows' and 'next'": (without(NAMED, "fresh rows", "next"), "I1"),
    "ticket: without 'new identity'": (without(TICKET, "new identity"), "I3"),
    "ticket: without 'remembered'": (without(TICKET, "remembered"), "I3"),
    "ticket: without 'active'": (without(TICKET, "active"), "I10"),
    "ticket: without 'same epoch'": (without(TICKET, "same epoch"), "I2"),
    "ticket: without 'own application'": (without(TICKET, "own application", "remembered"), "I3"),
    "ticket: without 'later'": (without(TICKET, "later", "clock behind"), "I7"),
    "floor: without 'same floor'": (without(FLOOR, "same floor"), "I5"),
    "floor: without 'same tail'": (without(FLOOR, "same tail", "same floor"), "I1"),
    "floor: without 'idle'": (without(FLOOR, "idle"), "I11"),
    "floor: clears pending always": (_clears_pending_always, "I11"),
    "floor: raised before copying": (_premature_floor, "I5"),
    "catalog: without 'same head'": (without(SWAP, "same head"), "I9"),
    "purge: at once": (
        lambda: swapped(
            "tests.simulation.actors.maintenance.Grace", lambda grace: lambda **more: grace(**more, dropped_ms=0)
        ),
        "I10",
    ),
    "identities are not remembered": (lambda: patch.object(IdentityIndex, "remember", lambda *_: None), "I3"),
    "a refused write looks won": (_refused_means_won, "I3"),
    "tickets are published as proposed": (
        lambda: swapped("turnstile.delta.commits.final_bytes", lambda _: lambda place, raw: raw),
        "I4",
    ),
    "gc: staged files above the floor": (_collects_above_the_floor, "I10"),
    "gc: age counts from creation": (
        lambda: swapped(
            "turnstile.gc.kinds.staged.staged_since", lambda _: lambda file, published, left: file.modified_ms
        ),
        "I10",
    ),
    "gc: objs that a HEAD refers to": (
        lambda: swapped(
            "turnstile.gc.kinds.objs.InlineObjScanner._objs_to_keep", lambda _: lambda self, key: (set(), set())
        ),
        "I10",
    ),
}
"""The planted mistake, and the invariant that it breaks first most often."""
