"""A home that was renamed: doctor says that no table is where the store says, and a relocation lets
the store follow."""

from __future__ import annotations

import json
from pathlib import Path

from tests.support.cli import Program
from tests.support.server import alive
from tests.support.stack import Table, until
from turnstile_server import Server


def check_of(cli: Program, name: str) -> dict[str, str]:
    checks = json.loads(cli.run("doctor", "--output", "json").stdout)["checks"]
    return next(check for check in checks if check["name"] == name)


def test_i10_i24_a_home_that_was_renamed_goes_on_after_a_relocation(tmp_path: Path) -> None:
    before = tmp_path / "before"
    home = tmp_path / "after"
    with Server.start(before, 0) as server:
        table = Table(server, "kept")
        for version in range(1, 4):
            table.append(version)
        log = [table.published(version) for version in range(4)]
        old = server.lake_root
        refusal = Program(before).run("relocate", old, "file:///nowhere")
        assert refusal.returncode != 0 and "running" in refusal.stderr
        pids = server.pids
    until(lambda: not any(map(alive, pids)), "all processes have ended")
    before.rename(home)
    new = (home / "lake").as_uri()
    cli = Program(home)
    with Server.start(home, 0) as server:
        assert server.lake_root == new
        assert "1 of 1 tables have no log" in check_of(cli, "folders")["message"]
        assert (
            "turnstile relocate" in check_of(cli, "folders")["remedy"]
            or "turnstile repair" in check_of(cli, "folders")["remedy"]
        )
        pids = server.pids
    until(lambda: not any(map(alive, pids)), "all processes have ended")
    refusal = cli.run("relocate", old, f"{new}-nowhere")
    assert refusal.returncode != 0 and "nothing was changed" in refusal.stderr
    planned = cli.json("relocate", old, new, "--dry-run")
    assert (planned["tables"], planned["done"], planned["problems"]) == (1, False, [])
    assert cli.json("relocate", old, new)["done"] is True
    assert cli.json("relocate", old, new)["tables"] == 0
    with Server.start(home, 0) as server:
        assert check_of(cli, "folders")["result"] == "ok"
        table.api = server.client()
        table.append(4)
        table.storage.root = table.storage.root.replace(str(before), str(home))
        assert table.published(4)
        assert [table.published(version) for version in range(4)] == log
        assert not before.exists(), "no second store was made under the old name"
        assert cli.run("verify", "default.kept").returncode == 0
