"""The context of one request: its principal and rights, and the committer of its changes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from turnstile.catalog.changes.commit import ChangeFunction, Committer
from turnstile.catalog.changes.waiting import RejectionHandler
from turnstile.catalog.core.entities import IcebergEntity
from turnstile.catalog.core.paths import Path
from turnstile.catalog.core.tree import Tree
from turnstile.catalog.history.core import AsOf
from turnstile.catalog.reader import View
from turnstile.catalog.services import CatalogServices
from turnstile.iceberg.core.requirements import CommitFailed
from turnstile.iceberg.files import FileMissing, MetadataFiles
from turnstile.iceberg.locations import LocationClaims
from turnstile.rights.grants import Access, Principal, owner_for
from turnstile.store.core.errors import ErrorType, NotFound, OutcomeUnknown, StateConflict, TurnstileError
from turnstile.store.ports import World
from turnstile.store.retry import Pause, no_pause

if TYPE_CHECKING:
    from turnstile.iceberg.core.table_updates import TableChange
    from turnstile.iceberg.first_look import IcebergFirstLook

T = TypeVar("T")


class AppendLine(Protocol[T]):
    """The appends that wait in a process (``shared_appends.AppendQueue``)."""

    def commit(self, context: Context, catalog: str, change: TableChange, alone: Callable[[], T]) -> T:
        """Returns the table with ``change``, a plain append: as a group leaves it, or as ``alone``
        returns it. Raises as ``alone``."""


@dataclass(frozen=True, slots=True)
class Context:
    """The common state of one request's operations: services with its rights, and a committer (with
    an idempotency key, of one change). ``elsewhere`` raises PermissionDenied when it may not use
    locations that the catalog did not choose; ``as_of`` is the moment that it reads, None for the
    present, the only state that can be changed; ``pause`` waits for other work (s); in ``appends``
    wait the appends of other requests of the process; ``first_look`` is asked before commits on a
    server.
    """

    catalog: CatalogServices
    committer: Committer
    files: MetadataFiles
    principal: Principal
    elsewhere: Callable[[], None]
    as_of: AsOf | None = None
    pause: Pause = no_pause
    appends: AppendLine[Any] | None = None
    first_look: IcebergFirstLook | None = None

    @property
    def world(self) -> World:
        return self.catalog.world

    @property
    def locations(self) -> LocationClaims:
        return LocationClaims(self.catalog, self.elsewhere)

    @property
    def owner_access(self) -> Access:
        """The rights on entities that the request creates: its principal owns them."""
        return Access(owner_for(self.principal))

    def view(self, catalog: str) -> View:
        """Returns the catalog as the request reads it: one request when warm."""
        return View(self.catalog.as_of_reader.at(catalog, self.as_of).tree, self.catalog.reader.store)

    def look(self, catalog: str, path: Path, what: str) -> View:
        """As ``view``, to read the table or view ``path``; raises NotFound if the request may not
        see it in the past."""
        tree_as_of = self.catalog.as_of_reader.at(catalog, self.as_of)
        if self.as_of is not None:
            self.catalog.as_of_reader.require(tree_as_of, path, what, what)
        return View(tree_as_of.tree, self.catalog.reader.store)

    @contextmanager
    def opening(self, entity: IcebergEntity, what: str) -> Iterator[None]:
        """Guards the read of a metadata file. One that is missing in the past was purged: raises
        NotFound."""
        try:
            yield
        except FileMissing:
            if self.as_of is None:
                raise
            raise NotFound(what, entity.name, field=what, remedy="it was purged; nothing is left of its past") from None

    def commit(self, catalog: str, change: ChangeFunction, on_rejected: RejectionHandler | None = None) -> Tree:
        return self.committer.commit(catalog, change, on_rejected=on_rejected)

    def commit_files(
        self, catalog: str, change: ChangeFunction, written: Sequence[str], on_rejected: RejectionHandler | None = None
    ) -> None:
        """Applies a change that writes metadata files, as ``sweeping``; raises CommitFailed if
        others kept winning."""
        try:
            with self.sweeping(written):
                self.commit(catalog, change, on_rejected)
        except StateConflict as error:
            if error.type == ErrorType.CONCURRENT_CHANGE:
                raise CommitFailed(error.message) from error
            raise

    @contextmanager
    def sweeping(self, written: Sequence[str]) -> Iterator[None]:
        """Deletes the metadata files ``written`` if the change fails. When its outcome is unknown
        they stay: the HEAD may lead to them (I9)."""
        try:
            yield
        except TurnstileError as error:
            if not isinstance(error, OutcomeUnknown):
                self.forget(written)
            raise

    def forget(self, written: Sequence[str]) -> None:
        """Deletes metadata files that are unreferenced, and stay so."""
        for path in written:
            try:
                self.files.delete(path)
            except TurnstileError:  # the request's own outcome matters more than a file that is left
                return
