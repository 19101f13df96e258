"""Filesystem-based Delta tables, as other writers leave them."""

from __future__ import annotations

import json
from typing import Any

from tests.support.catalog import MAIN, create, fakes, fresh
from tests.support.fakes import delta
from tests.support.faults import Faulty
from turnstile.catalog.services import CatalogServices
from turnstile.delta.proposals import CommitRequest
from turnstile.delta.ratify import Ratifier
from turnstile.store.core.names import published_path
from turnstile.store.ports import LogStorage
from turnstile.transfer.imports import Importer

PLACE = "s3://old/tables/t"
Action = dict[str, Any]


def legacy_protocol(reader: int = 1, writer: int = 2, **features: list[str]) -> Action:
    return {"protocol": {"minReaderVersion": reader, "minWriterVersion": writer, **features}}


def legacy_metadata(**configuration: str) -> Action:
    action = delta.metadata(**configuration)
    action["metaData"]["configuration"] = configuration
    return action


def legacy_info(operation: str = "WRITE", **more: Any) -> Action:
    return {"commitInfo": {"timestamp": 1, "operation": operation, **more}}


class Legacy:
    """A table written without any catalog; ``write`` takes the next version as a filesystem writer
    does."""

    def __init__(self, services: CatalogServices, location: str = PLACE) -> None:
        self.storage: LogStorage = services.world.storages.open(location)
        self.version = -1

    def write(self, *actions: Action, version: int | None = None) -> bool:
        version = self.version + 1 if version is None else version
        taken = self.storage.put_if_absent(published_path(version), delta.lines(*actions))
        self.version = max(self.version, version)
        return taken

    def created(self, protocol: Action | None = None, metadata: Action | None = None) -> Legacy:
        # commitInfo last, as some writers have it
        self.write(protocol or legacy_protocol(), metadata or legacy_metadata(), legacy_info("CREATE TABLE"))
        return self

    def append(self, count: int = 1, **info: Any) -> Legacy:
        for _ in range(count):
            self.write(legacy_info(**info), delta.add(f"f{self.version}"))
        return self

    def checksum(self, version: int, **members: Any) -> None:
        self.storage.put_if_absent(f"_delta_log/{version:020d}.crc", json.dumps(members).encode())

    def checkpoint(self, version: int, content: bytes, suffix: str = "checkpoint.parquet") -> None:
        self.storage.put_if_absent(f"_delta_log/{version:020d}.{suffix}", content)

    def clean_up_to(self, version: int) -> Legacy:
        """Remove commits before ``version``, as log retention does."""
        for old in range(version):
            self.storage.delete(published_path(old))
        return self

    def actions(self, version: int) -> dict[str, Action]:
        """The commit's actions by name (one of each)."""
        found = self.storage.read(published_path(version))
        assert found is not None
        return {name: body for line in found[0].splitlines() for name, body in json.loads(line).items()}


def with_legacy() -> tuple[CatalogServices, Legacy]:
    services = fresh()
    return services, Legacy(services).created().append(2)


def run_import(services: CatalogServices, name: str = "t") -> str:
    return Importer(services).run(*MAIN, name, PLACE).table_id


def upgrades(legacy: Legacy) -> list[int]:
    """Versions that an import wrote."""
    found = []
    version = 0
    while legacy.storage.stat(published_path(version)) is not None:
        if str(legacy.actions(version).get("commitInfo", {}).get("txnId", "")).startswith("turnstile-import-"):
            found.append(version)
        version += 1
    return found


def import_writes() -> int:
    services, _ = with_legacy()
    faulty = Faulty(fakes(services))
    run_import(fresh(faulty.world))
    return len(faulty.writes)


def managed() -> tuple[CatalogServices, str]:
    """A managed table with two ratified, unpublished commits."""
    services = fresh()
    id = create(services, "t")
    ratifier = Ratifier(services.world)
    for version in (1, 2):
        content = delta.append(f"a{version}", services.world.clock.now_ms())
        ratifier.commit(CommitRequest(id, version, content=content))
    return services, id
