"""delta-kernel-rs 0.30.1 with its Unity Catalog crates, as released."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.clients import kernel_rs
from tests.support.clients.engine import Engine, Files, fresh
from tests.support.clients.kernel_rs import Kernel
from tests.support.stack import eventually

if TYPE_CHECKING:
    from turnstile_server import Server

pytestmark = pytest.mark.timeout(kernel_rs.BUILD_SECONDS)


@pytest.fixture
def kernel(program: Path) -> Callable[[Server, str], Kernel]:
    return lambda server, table: Kernel(program, server, table)


def test_the_server_says_which_requests_it_answers(kernel: Callable[..., Kernel], server: Server) -> None:
    told = kernel(server, "any")("config")
    assert told["version"] == "1.0"
    assert any("staging-tables" in endpoint for endpoint in told["endpoints"])


def test_a_table_made_by_the_kernel_takes_its_appends(kernel: Callable[..., Kernel], server: Server) -> None:
    client = kernel(server, name := fresh("k"))
    made = client("create")
    assert "error" not in made, made
    assert client("append", 0, 3) == {"committed": 1}
    assert client("append", 3, 2) == {"committed": 2}
    assert client("read") == {"version": 2, "ids": [0, 1, 2, 3, 4]}
    table = Engine(server, name)
    assert table.load()["metadata"]["table-uuid"] == made["id"]


def test_i6_unpublished_commits_are_read(kernel: Callable[..., Kernel], held_server: Server) -> None:
    table = Engine(held_server).create().append(range(3), range(3, 5)).append_inline(range(5, 6))
    assert kernel(held_server, table.name)("read") == {"version": 3, "ids": [0, 1, 2, 3, 4, 5]}
    assert table.files.published() == [0]


def test_i4_an_append_is_ratified_and_then_published(kernel: Callable[..., Kernel], held_server: Server) -> None:
    table = Engine(held_server).create().append(range(3)).append_inline(range(3, 5))
    client = kernel(held_server, table.name)
    assert client("append", 10, 2) == {"committed": 3}
    assert (table.latest, table.ids()) == (3, [0, 1, 2, 3, 4, 10, 11])
    assert table.files.published() == [0]
    ratified = {c["version"]: (table.files.staged / c["file-name"]).read_bytes() for c in table.load()["commits"]}
    assert client("publish") == {"published": 3}
    for version, content in ratified.items():
        assert (table.files.log / f"{version:020d}.json").read_bytes() == content


def test_a_published_table_gets_a_checkpoint(kernel: Callable[..., Kernel], server: Server) -> None:
    table = Engine(server).create().append(range(3), range(3, 5))
    client = kernel(server, table.name)
    assert client("checkpoint") == {"published": 2}
    assert list(table.files.log.glob("*.checkpoint*"))
    assert client("read") == {"version": 2, "ids": [0, 1, 2, 3, 4]}


def test_i2_appends_that_race_are_ratified_once_or_refused(kernel: Callable[..., Kernel], server: Server) -> None:
    """This release knows no conflict of the catalog: a 409 is an error to it, and its caller tries
    again."""
    table = Engine(server).create()
    refused = []

    def write(writer: int) -> None:
        client = kernel(server, table.name)
        for n in range(3):
            while "committed" not in (answer := client("append", 10 * writer + n, 1)):
                assert "CommitVersionConflictException" in str(answer), answer
                refused.append(answer)

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(write, range(3)))
    assert table.ids() == [10 * writer + n for writer in range(3) for n in range(3)]
    assert table.latest == 9


def test_i12_keys_from_the_server_open_the_table_on_s3(kernel: Callable[..., Kernel], vending_server: Server) -> None:
    client = kernel(vending_server, fresh("s3"))
    assert "error" not in (made := client("create")), made
    assert client("append", 0, 3) == {"committed": 1}
    assert client("publish") == {"published": 1}
    assert client("read") == {"version": 1, "ids": [0, 1, 2]}


def test_an_unknown_table_is_an_error(kernel: Callable[..., Kernel], server: Server) -> None:
    assert "not found" in str(kernel(server, fresh("unknown"))("read")["error"]).lower()


def test_i4_what_the_kernel_committed_is_published_by_the_server(kernel: Callable[..., Kernel], server: Server) -> None:
    table = Engine(server).create()
    assert kernel(server, table.name)("append", 0, 1) == {"committed": 1}
    eventually(lambda: 1 in Files(table.location).published())
