"""A branch on an emulated deployment, by the functions' own roles (I12, I28): the function of
branches writes the logs of its tables for the functions that serve clients."""

from __future__ import annotations

import pyarrow as pa
import pytest

from turnstile_client import Lake, connect
from turnstile_local import Stack
from turnstile_local.settings import REGION

pytestmark = [pytest.mark.stack, pytest.mark.slow]

COLUMNS = pa.schema([("id", pa.int64()), ("page", pa.string())])


def lake_of(stack: Stack, catalog: str = "main") -> Lake:
    keys = {"access_key": stack.env["AWS_ACCESS_KEY_ID"], "secret_key": stack.env["AWS_SECRET_ACCESS_KEY"]}
    s3 = {"endpoint": stack.s3_endpoint, "region": REGION, **keys}
    return connect(stack.url, stack.token, catalog=catalog, s3=s3)


def test_i28_a_branch_is_written_checked_and_promoted_through_the_functions(s3_stack: Stack) -> None:
    name = "default.of_branch"
    with lake_of(s3_stack) as main:
        table = main.create(name, COLUMNS, properties={"turnstile.expect.key": "unique(id)"})
        table.append(pa.table({"id": [1], "page": ["/"]}, schema=COLUMNS))
        main.branches.create("dev")
        with lake_of(s3_stack, "main@dev") as dev:
            of_branch = dev.table(name)
            of_branch.append(pa.table({"id": [2, 3], "page": ["/a", "/b"]}, schema=COLUMNS))
            assert sorted(of_branch.read().column("id").to_pylist()) == [1, 2, 3]
            assert table.read().column("id").to_pylist() == [1], "the catalog's table is as it was"
        (check,) = main.branches.check("dev")
        assert check["outcome"] == "passed", "which takes a look at the rows of both files"
        main.branches.promote("dev")
        log = (s3_stack.log.parent / "functions.log").read_text()
        assert log.count('"own table"') == 1, "the functions that serve clients write no log"
        assert sorted(main.table(name).read().column("id").to_pylist()) == [1, 2, 3]
