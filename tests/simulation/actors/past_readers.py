"""Actors that read a catalog's past: listings held across gc, path queries, HEADs of the past, the log."""

from __future__ import annotations

from typing import Final

from tests.simulation.actors.past_changers import SIDE
from tests.simulation.actors.past_sandbox import PastActor, PastSandbox
from tests.simulation.auditors.trees import SeenHead
from tests.simulation.engine.faults import MINUTE, SECOND
from tests.simulation.engine.processes import CATALOG
from turnstile.catalog.core.entities import NAMESPACE, Entity
from turnstile.catalog.core.paths import key_of
from turnstile.catalog.history.core import ALL
from turnstile.catalog.history.log import AsOf
from turnstile.catalog.paging import from_text
from turnstile.store.core.errors import InvalidRequest, NotFound

_Page = tuple[list[tuple[str, Entity]], str | None, str]
"""Keys and entities, the token of the next page, and the HEAD if the answer tells it."""
_HOLD: Final = (1, SECOND, 5 * MINUTE, 20 * MINUTE)


class Lister(PastActor):
    """Lists page by page, with long pauses between them."""

    def act(self) -> None:
        kind, catalog = self.rng.choice(("namespaces", "find")), self.rng.choice((CATALOG, CATALOG, SIDE))
        began, token, head = self.state.scheduler.now, None, ""
        found: list[tuple[str, Entity]] = []
        while True:
            try:
                page, following, named = self._next(kind, catalog, token)
            except InvalidRequest as error:
                self.auditor.token_refused(began, error.message)
                return
            found += page
            head = named or head
            if following is None:
                break
            head, token = from_text(following, self.state.scheduler.now).head, following
            self.state.scheduler.sleep(self.rng.choice(_HOLD))
        if head:
            self.met("listed")
            self.auditor.listed(head, (NAMESPACE,), found)

    def _next(self, kind: str, catalog: str, token: str | None) -> _Page:
        return self.ask(lambda box: self._page(box, kind, catalog, token))

    def _page(self, box: PastSandbox, kind: str, catalog: str, token: str | None) -> _Page:
        size = self.rng.choice((1, 2, 5))
        if kind == "find":
            query = f'/{catalog}/*[kind = "namespace"]'
            finding = box.finder.find(query, page_token=token, max_results=size)
            return [(key_of(one.path), one.entity) for one in finding.items], finding.next_token, finding.head
        page = box.services.listings.namespaces(catalog, deep=True, page_token=token, max_results=size)
        return [(key_of(one.name), one.entity) for one in page.items], page.next_token, ""


class Traveller(PastActor):
    """Reads HEADs of the past by number, time and id, and walks along the log."""

    def act(self) -> None:
        if self.rng.random() < 0.2:
            self._walk()
            return
        heads, since = self._heads(), self.ago
        asked = next((one for one in heads if one.until is None or one.until > since), heads[-1])
        at = self.rng.choice((AsOf(head=asked.id), AsOf(seq=asked.row["seq"]), AsOf(time=asked.commit.at // 1000)))
        began, first = self.state.scheduler.now, self._meant(at)

        def question(box: PastSandbox) -> tuple[str, dict[str, Entity]]:
            tree = box.services.history.tree(CATALOG, at)
            entries = dict([*tree.index.iterate(*ALL), *tree.subtree(())])
            found = box.services.reader.store.entities(CATALOG, [entry.obj for entry in entries.values()])
            return tree.head, {key: found[entry.obj] for key, entry in entries.items()}

        try:
            head, found = self.ask(question, tries=1)
        except NotFound:
            self.auditor.gone(first, began)
            return
        self.met("read the past")
        last = self._meant(at)  # a server whose clock is behind may have added to the very moment that was asked for
        self.auditor.read(
            [one for one in self._heads() if first.row["seq"] <= one.row["seq"] <= last.row["seq"]], head, found
        )

    def _heads(self) -> list[SeenHead]:
        heads = self.state.trees.heads.values()
        return sorted((one for one in heads if one.catalog == CATALOG), key=lambda one: one.row["seq"])

    def _meant(self, at: AsOf) -> SeenHead:
        """Which HEAD that is: of a time, the newest commit not after it."""
        if at.time is not None:
            return [one for one in self._heads() if one.commit.at <= at.time * 1000 + 999][-1]
        return next(one for one in self._heads() if at.head == one.id or at.seq == one.row["seq"])

    def _walk(self) -> None:
        forwards = self.rng.random() < 0.5
        log = self.ask(lambda box: box.services.history.log(CATALOG, oldest_first=forwards, max_results=20), tries=1)
        self.met("walked the log")
        numbers = [one.seq for one in log.commits]
        step = 1 if forwards else -1
        assert numbers == list(range(numbers[0], numbers[0] + step * len(numbers), step)), numbers
        for one in log.commits:
            head = self.state.trees.heads[one.head]
            assert (head.row["seq"], head.commit.at, head.commit.message) == (one.seq, one.at, one.message)
