"""Opens the tree that a request reads: the present one, or that of a moment of the past; and finds
the start of its next pages.

Rights come from the present tree, whichever tree is read (I12). So a principal sees of the past
the entities that it may see now: entities that still have their names. The rest is for admins,
since the rights on it are no longer known.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from turnstile.catalog.core.entities import is_same
from turnstile.catalog.core.paths import Path, dotted_name, fold
from turnstile.catalog.core.tree import Tree
from turnstile.catalog.history.core import AsOf, as_of_text
from turnstile.catalog.history.log import History, KeptTree, find_named_snapshot
from turnstile.catalog.paging import FIELD, PageToken, bad_token, decode_token, place_of
from turnstile.catalog.reader import CatalogReader
from turnstile.store.core.errors import NotFound
from turnstile.store.core.opaque import seal
from turnstile.store.ports import Clock


class TreeAsOf(msgspec.Struct, frozen=True):
    """The sources of one request's answer.

    Attributes:
        tree: as of the moment.
        present: the tree with the rights that count; ``tree`` itself where no rights are checked
            and nothing else needs it.
        versions: of the Delta tables by uuid, as the requested named snapshot has them.
    """

    tree: Tree
    present: Tree
    versions: Mapping[str, int] = {}


class PageStart(msgspec.Struct, frozen=True):
    """Where a page begins.

    Attributes:
        after: the index key that the page before ended with; empty for the first one.
        pinned: the token of this page; for the first page, the one that would lead to it.
    """

    moment: TreeAsOf
    after: str
    pinned: PageToken

    def following(self, after: str) -> str:
        """Returns the token of the page that goes on after this key."""
        return seal(msgspec.structs.replace(self.pinned, after=after))


class AsOfReader:
    """Opens trees for requests. Cheap: one per request, or shared. ``reader`` has the request's
    authorizer, where rights are to be checked; ``history_ms`` is for how long gc leaves a catalog's
    past.
    """

    def __init__(self, reader: CatalogReader, clock: Clock, history_ms: int) -> None:
        self._reader = reader
        self._clock = clock
        self._history_ms = history_ms
        self._history = History(reader)

    def at(self, catalog: str, as_of: AsOf | None) -> TreeAsOf:
        """Returns the catalog now, or as of a moment that gc leaves alone: one request warm. A
        moment that is new to the sandbox also takes the reads of ``History``. Raises as
        ``History.tree``; PermissionDenied by the present rights.
        """
        present = self._reader.current(catalog)
        if as_of is None:
            return TreeAsOf(present, present)
        return TreeAsOf(self.kept_tree(present, as_of).tree, present, self._versions(present, as_of))

    def kept_tree(self, present: Tree, as_of: AsOf) -> KeptTree:
        """Returns the tree as of a moment, for changes of ``present`` that bring something of the
        past back. They call it again whenever they are computed again, since gc, or the end of a
        name, may have come first (I9). Raises as ``at``.
        """
        return self._history.kept_tree(present, as_of, self._clock.now_ms() - self._history_ms)

    def page(
        self, catalog: str, parent: str, kind: str, as_of: AsOf | None, page_token: str | None, *, member: str = FIELD
    ) -> PageStart:
        """Returns the start of a page of a listing; every page is a view of the HEAD that the first
        one read. A page that follows takes no request where no rights are checked and the tree is
        cached.

        Args:
            parent: index key of the parent that is listed.
            kind: of listing; a token is valid for listings of one kind.
            member: the request's member that holds the token.

        Raises as ``at``; InvalidRequest also for a token that is damaged, expired or of another
        listing.
        """
        parent = place_of(parent)
        kind = kind if as_of is None else f"{kind} {as_of_text(as_of)}"
        now = self._clock.now_ms()
        if not page_token:
            moment = self.at(catalog, as_of)
            return PageStart(moment, "", PageToken(fold(catalog), moment.tree.head, parent, kind, "", now))
        token = decode_token(page_token, now, member)
        if (token.catalog, token.parent, token.kind) != (fold(catalog), parent, kind):
            raise bad_token("belongs to another listing", member)
        needs_present = self._reader.authorizer is not None or (as_of is not None and as_of.snapshot is not None)
        present = self._reader.current(catalog) if needs_present else None
        tree = self._reader.store.find_tree(catalog, token.head)
        if tree is None:
            raise bad_token("has expired", member)
        versions = {} if present is None or as_of is None else self._versions(present, as_of)
        return PageStart(TreeAsOf(tree, present or tree, versions), token.after, token)

    def require(self, moment: TreeAsOf, path: Path, what: str = "namespace", member: str = "namespace") -> None:
        """Raise NotFound unless ``shows``: with the same words whether it did not exist, or may not
        be seen."""
        if not self.shows(moment, path):
            remedy = "list the entities of that moment; only admins see those that have lost their names since"
            raise NotFound(what, dotted_name(moment.tree.catalog, *path), field=member, remedy=remedy)

    def shows(self, moment: TreeAsOf, path: Path) -> bool:
        """Whether the request may see the entity of ``path``; if not, the answer is that there was
        none (I12). The guard has checked the rights on ``path`` in the present tree. They are no
        rights on an earlier entity of the same name.
        """
        then = moment.tree.find(path)
        if then is None or self._reader.authorizer is None:
            return then is not None
        now = moment.present.find(path)
        if now is None or then.obj == now.obj:
            return now is not None
        entities = self._reader.store.entities(moment.tree.catalog, [then.obj, now.obj])
        return is_same(entities[then.obj], entities[now.obj])

    def _versions(self, present: Tree, as_of: AsOf) -> Mapping[str, int]:
        if as_of.snapshot is None:
            return {}
        return find_named_snapshot(present, self._reader.store, as_of.snapshot).versions
