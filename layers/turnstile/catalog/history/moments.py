"""Which tree a request reads: the present one, or that of a moment of the past; and where its pages go on.

Rights are those of the present tree, whichever is read (I12). So whoever is judged sees of the past what they may see
now: things that still have their names. The rest is for admins, since nobody can say any more whose it was.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from turnstile.catalog import paging
from turnstile.catalog.core.entities import id_of
from turnstile.catalog.core.paths import Path, dotted, fold
from turnstile.catalog.core.tree import Tree
from turnstile.catalog.history.core import AsOf, to_text
from turnstile.catalog.history.log import History, Kept, snapshot_of
from turnstile.catalog.paging import Token, bad_token, from_text
from turnstile.catalog.reader import CatalogReader
from turnstile.store.core.errors import NotFound
from turnstile.store.ports import Clock


@dataclass(frozen=True, slots=True)
class Moment:
    """What one request is answered from.

    Attributes:
        tree: as of the moment.
        present: the tree whose rights count; ``tree`` itself where nobody is judged and nothing else needs it.
        versions: of the Delta tables by uuid, as the snapshot that was asked for has them.
    """

    tree: Tree
    present: Tree
    versions: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Start:
    """Where a page begins.

    Attributes:
        after: the index key that the page before ended with; empty for the first one.
        pinned: the token that brought it here, or would bring the first page.
    """

    moment: Moment
    after: str
    pinned: Token

    def following(self, after: str) -> str:
        """The token of the page that goes on after this key."""
        token = self.pinned
        return paging.to_text(Token(token.catalog, token.head, token.parent, token.kind, after, token.began))


class Moments:
    """Opens trees for requests. Cheap: one per request, or shared.

    Args:
        reader: watched, where whoever asks is to be judged.
        history_ms: for how long gc leaves a catalog's past.
    """

    def __init__(self, reader: CatalogReader, clock: Clock, history_ms: int) -> None:
        self._reader, self._clock, self._history_ms = reader, clock, history_ms
        self._history = History(reader)

    def at(self, catalog: str, as_of: AsOf | None) -> Moment:
        """The catalog now, or as of a moment that gc leaves alone: one request warm. One that is new to the sandbox takes
        a look at some commits on the way, as ``History`` says.

        Raises:
            InvalidRequest: not exactly one of HEAD, number, time and snapshot.
            NotFound: no such catalog; or no such commit or snapshot, never or no more.
            PermissionDenied: whoever asks may not, as things are now.
        """
        present = self._reader.current(catalog)
        if as_of is None:
            return Moment(present, present)
        return Moment(self.kept(present, as_of).tree, present, self._versions(present, as_of))

    def kept(self, present: Tree, as_of: AsOf) -> Kept:
        """As ``at``, for changes of ``present`` that bring something of the past back: they look anew whenever they are
        computed anew, since gc or the end of a name may have been faster than they (I9). Raises as ``at``."""
        return self._history.kept(present, as_of, self._clock.now_ms() - self._history_ms)

    def page(
        self,
        catalog: str,
        parent: str,
        kind: str,
        as_of: AsOf | None,
        page_token: str | None,
        *,
        member: str = paging.MEMBER,
    ) -> Start:
        """Where a page of a listing begins; every page is a view of the HEAD that the first one saw. A page that follows
        takes no request where nobody is judged and the tree is cached.

        Args:
            parent: index key of what is listed.
            kind: of listing, whose tokens are not those of another one.
            member: what the request calls the token.

        Raises:
            InvalidRequest: a token that is damaged, expired or of another listing.
            NotFound, PermissionDenied: as ``at``.
        """
        parent = paging.place(parent)
        kind = kind if as_of is None else f"{kind} {to_text(as_of)}"
        now = self._clock.now_ms()
        if not page_token:
            moment = self.at(catalog, as_of)
            return Start(moment, "", Token(fold(catalog), moment.tree.head, parent, kind, "", now))
        given = from_text(page_token, now, member)
        if (given.catalog, given.parent, given.kind) != (fold(catalog), parent, kind):
            raise bad_token("belongs to another listing", member)
        wanted = self._reader.watch is not None or (as_of is not None and as_of.snapshot is not None)
        present = self._reader.current(catalog) if wanted else None
        tree = self._reader.store.find_tree(catalog, given.head)
        if tree is None:
            raise bad_token("has expired", member)
        versions = {} if present is None or as_of is None else self._versions(present, as_of)
        return Start(Moment(tree, present or tree, versions), given.after, given)

    def require(self, moment: Moment, path: Path, what: str = "namespace", member: str = "namespace") -> None:
        """Raise NotFound unless ``shows``: with the same words whether it was not there, or may not be told."""
        if not self.shows(moment, path):
            raise NotFound(
                what,
                dotted(moment.tree.catalog, *path),
                field=member,
                remedy="list what was there then; what has lost its name since is shown to admins",
            )

    def shows(self, moment: Moment, path: Path) -> bool:
        """Whether whoever asks may be told what ``path`` led to; if not, they are told that it led nowhere (I12).

        That it may be asked for at all, the present tree was judged for. But it counts only for what still has the
        name: rights on a table are none on another one that had its name before.
        """
        then = moment.tree.find(path)
        if then is None or self._reader.watch is None:
            return then is not None
        now = moment.present.find(path)
        if now is None or then.obj == now.obj:
            return now is not None
        found = self._reader.store.entities(moment.tree.catalog, [then.obj, now.obj])
        return id_of(found[then.obj]) == id_of(found[now.obj])

    def _versions(self, present: Tree, as_of: AsOf) -> Mapping[str, int]:
        if as_of.snapshot is None:
            return {}
        return snapshot_of(present, self._reader.store, as_of.snapshot).versions
