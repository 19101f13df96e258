"""A Delta table on the fakes with checkpoints of every tenth version, for tests of what may be
believed of a log."""

from __future__ import annotations

from tests.support.catalog import create, fakes, fresh, head_of
from tests.support.clones import commit
from tests.support.fakes import delta
from tests.support.fakes.storage import FakeStorage
from turnstile.catalog.services import CatalogServices
from turnstile.delta.core.head import TableHead
from turnstile.delta.publish import Publisher
from turnstile.maintenance.work import Maintainer
from turnstile.store.core.names import LOG, published_path


class Checkpointed:
    """The table, published to version ``latest``."""

    def __init__(self, latest: int = 24) -> None:
        self.services: CatalogServices = fresh()
        self.world = fakes(self.services)
        self.id = create(self.services)
        for _ in range(latest):
            commit(self.world, self.id)
            Publisher(self.world).publish(self.id)
            Maintainer(self.world).maintain(self.id)

    @property
    def head(self) -> TableHead:
        return head_of(self.world, self.id)

    @property
    def storage(self) -> FakeStorage:
        return self.world.storages.open(self.head.location)

    def commit_of(self, version: int) -> bytes:
        found = self.storage.read(published_path(version))
        assert found is not None
        return found[0]

    def rewrite(self, version: int, content: bytes) -> None:
        self.storage.replace(published_path(version), content)

    def replace_file(self, version: int) -> None:
        """The commit adds another file than it did, whose path is as long."""
        before = self.commit_of(version)
        after = before.replace(b'"path":"', b'"path":"X', 1)
        assert after != before
        self.rewrite(version, after)

    def without_info(self, version: int) -> None:
        self.rewrite(version, delta.lines(delta.add(f"f{version}")))

    def remove_before(self, version: int) -> None:
        """Removes the commits and checkpoints before a version, as a clean-up does."""
        for stat in list(self.storage.list(LOG)):
            number = stat.path.removeprefix(LOG)[:20]
            if number.isdigit() and int(number) < version:
                self.storage.delete(stat.path)

    def checkpoint_of(self, version: int) -> str:
        return f"{LOG}{version:020d}.checkpoint.parquet"
