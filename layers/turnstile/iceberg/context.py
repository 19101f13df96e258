"""What the operations of one request share."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from turnstile.access.core.grants import Principal
from turnstile.catalog.commit import ChangeFunction, Committer, RejectionHandler, View
from turnstile.catalog.core.entities import IcebergEntity
from turnstile.catalog.core.paths import Path
from turnstile.catalog.core.tree import Tree
from turnstile.catalog.history.core import AsOf
from turnstile.catalog.services import CatalogServices
from turnstile.iceberg.files import FileMissing, MetadataFiles
from turnstile.iceberg.locations import LocationClaims
from turnstile.store.core.errors import NotFound, OutcomeUnknown, TurnstileError
from turnstile.store.ports import World


@dataclass(frozen=True, slots=True)
class Context:
    """One request: who asks, and by what its changes are committed.

    Attributes:
        catalog: the catalog's services, judging by this request's rights.
        committer: applies the request's one change; with a key, once.
        files: of the sandbox.
        elsewhere: raises PermissionDenied when the request may not use locations that were not chosen here.
        as_of: the moment that the request reads; None for the present, and the only one that can be changed.
    """

    catalog: CatalogServices
    committer: Committer
    files: MetadataFiles
    principal: Principal
    elsewhere: Callable[[], None]
    as_of: AsOf | None = None

    @property
    def world(self) -> World:
        """The world."""
        return self.catalog.world

    @property
    def places(self) -> LocationClaims:
        """Locations."""
        return LocationClaims(self.catalog, self.elsewhere)

    def view(self, catalog: str) -> View:
        """The catalog as the request reads it: one request warm."""
        return View(self.catalog.as_of_reader.at(catalog, self.as_of).tree, self.catalog.reader.store)

    def look(self, catalog: str, path: Path, what: str) -> View:
        """The same, for whoever asks for the table or view ``path``: what may not be told of the past, is not there.

        Raises:
            NotFound: as ``Moments.require``.
        """
        moment = self.catalog.as_of_reader.at(catalog, self.as_of)
        if self.as_of is not None:
            self.catalog.as_of_reader.require(moment, path, what, what)
        return View(moment.tree, self.catalog.reader.store)

    @contextmanager
    def opening(self, entity: IcebergEntity, what: str) -> Iterator[None]:
        """Read a metadata file. Missing in the present, it is a fault of storage; in the past, what a purge left.

        Raises:
            NotFound: what the request reads was dropped since, and its files were removed.
        """
        try:
            yield
        except FileMissing:
            if self.as_of is None:
                raise
            raise NotFound(what, entity.name, field=what, remedy="it was purged; nothing is left of its past") from None

    def commit(self, catalog: str, change: ChangeFunction, on_rejected: RejectionHandler | None = None) -> Tree:
        """Apply a change; see ``Committer.commit``."""
        return self.committer.commit(catalog, change, on_rejected=on_rejected)

    @contextmanager
    def sweeping(self, written: Sequence[str]) -> Iterator[None]:
        """Delete metadata files that were written for a change that was certainly not made. When its outcome is not
        known they stay: the HEAD may lead to them (I9)."""
        try:
            yield
        except OutcomeUnknown:
            raise
        except TurnstileError:
            self.forget(written)
            raise

    def forget(self, written: Sequence[str]) -> None:
        """Delete metadata files that nothing names and nothing will."""
        for path in written:
            try:
                self.files.delete(path)
            except TurnstileError:  # the request's own outcome is what the caller must hear; the file is only litter
                return
