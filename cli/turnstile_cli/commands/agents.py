"""``turnstile mcp``: tools for programs that write by themselves."""

from __future__ import annotations

from typing import Annotated

import typer

from turnstile_cli.api import Api
from turnstile_cli.connection import with_api
from turnstile_cli.errors import CliError, Exit, usage
from turnstile_cli.output import Format

Catalog = Annotated[str, typer.Option("--catalog", help="The catalog that the tools read and branch.")]


@with_api
def mcp(api: Api, *, catalog: Catalog = "main", output: Format) -> None:  # noqa: ARG001 - the protocol has it
    """Serve the tools of the Model Context Protocol on standard input and output, for programs that
    write by themselves.

    They read the catalog, and write on branches of it alone; a person is asked before a branch is
    promoted. The token's rights hold. It runs until its input ends.
    """
    if "@" in catalog:
        raise usage(f"--catalog {catalog} is a branch", remedy="name its catalog: the tools have branches of it")
    try:
        from turnstile_cli.agent_tools import Lakehouse, server
    except ImportError as error:
        remedy = "install it with its extra, in a checkout: pip install '.[mcp]'"
        raise CliError(Exit.FAILURE, f"a package is missing: {error.name}", remedy=remedy) from None
    lakehouse = Lakehouse(api, catalog)
    api.get(lakehouse.branches_path)  # the service is there, and has the catalog
    server(lakehouse).run()
