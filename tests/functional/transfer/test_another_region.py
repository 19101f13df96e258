"""A region is lost, and another deployment takes its tables over from a replica of the lake
(docs/operations.md, "Another region")."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from tests.support.cli import run
from tests.support.stack import Table
from turnstile_cli.errors import Exit
from turnstile_server import Server


def published(table: Table, versions: int) -> Path:
    """The folder of a table with so many published commits after its creation."""
    for version in range(1, versions + 1):
        table.append(version)
    table.published(versions)
    return Path(table.storage.root)


def command(home: Path, *arguments: str, exit: int = 0) -> dict[str, Any]:
    ended = run(*arguments, "-o", "json", TURNSTILE_HOME=str(home))
    assert ended.exit_code == exit, ended.output
    answer: dict[str, Any] = json.loads(ended.stdout)
    return answer


def test_another_deployment_takes_the_tables_of_a_lost_one_over_from_a_replica(server: Server, tmp_path: Path) -> None:
    tables = {name: Table(server, f"region_{name}") for name in ("whole", "late", "gap")}
    folders = {name: published(table, 4) for name, table in tables.items()}
    replica = tmp_path / "replica"
    for name, folder in folders.items():
        shutil.copytree(folder, replica / name)
    log = "_delta_log/{:020d}.json"
    (replica / "late" / log.format(4)).unlink()  # it was not replicated any more
    (replica / "gap" / log.format(2)).unlink()  # its later ones were
    names = tmp_path / "tables.csv"
    names.write_text("name,location\n" + "".join(f"sales.{name},file://{replica}/{name}\n" for name in folders))
    source = ("import", "--all", f"list:{names}")

    home = tmp_path / "second"
    with Server.start(home, 0):
        refused = command(home, *source, exit=Exit.REFUSED)
        assert {row["outcome"] for row in refused["tables"]} == {"refused"}, "they are another catalog's"
        tried = command(home, *source, "--take-over", "--dry-run", exit=Exit.REFUSED)
        assert tried["counts"] == {"possible": 2, "refused": 1}
        taken = command(home, *source, "--take-over", exit=Exit.REFUSED)
        outcomes = {row["source"]: row["outcome"] for row in taken["tables"]}
        assert outcomes == {"sales.whole": "imported", "sales.late": "imported", "sales.gap": "refused"}
        assert [command(home, "head", f"sales.{name}")["latest"] for name in ("whole", "late")] == [5, 4]
        command(home, "verify", "sales.whole")

        (replica / "gap" / log.format(3)).unlink()  # set aside, as the procedure says
        (replica / "gap" / log.format(4)).unlink()
        again = command(home, *source, "--take-over")
        assert again["counts"] == {"imported": 1, "imported before": 2}
        assert command(home, "head", "sales.gap")["latest"] == 2
    assert (folders["whole"] / log.format(4)).exists() and not (folders["whole"] / log.format(5)).exists()
