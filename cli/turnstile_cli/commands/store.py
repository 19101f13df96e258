"""Commands on the store of a server on this machine: backup, restore, open, relocate, and the check
of ``doctor --store``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from turnstile_cli import output as out
from turnstile_cli.commands.server import SERVER_NEEDS, Realm, StoreEndpoint, StoreUrl, need, on_server
from turnstile_cli.connection import DEFAULT_HOME, Home, Output
from turnstile_cli.errors import Exit
from turnstile_cli.output import Format


@out.report_errors
def backup(
    dest: Annotated[Path, typer.Argument(help="Folder for the backup; it must not exist yet, or be empty.")],
    home: Home = DEFAULT_HOME,
    *,
    store: StoreUrl = "",
    output: Output = Format.TEXT,
) -> None:
    """Copy the SQLite store while the server runs, and check the copy.

    DEST gets turnstile.db, which needs no other file, and manifest.json, which says when it was
    taken, by which version, of how much, and its digest. Copy the lake's files after it: a log that
    is ahead of its store is adopted, one that is behind is not.
    """
    need(SERVER_NEEDS, "server", "a backup")
    from turnstile_server.store.backups import back_up

    manifest = on_server(lambda: back_up(home, dest, store))
    if output is Format.JSON:
        out.emit_json(manifest)
        return
    out.say(
        f"{escape(str(manifest['folder']))}: {manifest['tables']} Delta tables, {manifest['refs']} rows and "
        f"{manifest['objs']} objs in {manifest['bytes']} bytes, checked; sha256 {manifest['sha256'][:16]}…"
    )


@out.report_errors
def restore(
    src: Annotated[Path, typer.Argument(help="Folder that 'turnstile backup' made.")],
    home: Home = DEFAULT_HOME,
    *,
    store: StoreUrl = "",
    output: Output = Format.TEXT,
) -> None:
    """Replace the SQLite store by a backup; no server may run on it.

    The replaced store is kept in a folder beside it, with its WAL, which therefore cannot undo the
    restore. Afterwards the store is behind its lake: start closed, compare every table with its
    log, then open.
    """
    need(SERVER_NEEDS, "server", "a restore")
    from turnstile_server.store.backups import restore as put_back

    done: dict[str, Any] = on_server(lambda: put_back(home, src, store))
    if output is Format.JSON:
        out.emit_json(done)
        return
    out.say(f"{escape(done['store'])} is the backup of {out.when(done['backup']['taken_ms'])}")
    if done["kept"]:
        out.say(f"The replaced files are kept in {escape(done['kept'])}")
    out.say("The store is now behind its lake. Start it closed, compare, open:\n")
    for line in ("turnstile up --closed", "turnstile repair --all", "turnstile open"):
        out.say(f"    {line}")


@out.report_errors
def open_(home: Home = DEFAULT_HOME, output: Output = Format.TEXT) -> None:
    """Let changes into a server that was started with --closed. It is no error when it
    takes them already."""
    need(SERVER_NEEDS, "server", "a server")
    from turnstile_server.store.backups import open_server

    was_closed = on_server(lambda: open_server(home))
    if output is Format.JSON:
        out.emit_json({"opened": was_closed, "home": str(home.absolute())})
    else:
        out.say("the server takes changes now" if was_closed else "the server was not closed")


@out.report_errors
def relocate(
    old: Annotated[
        str, typer.Argument(help="Root below which the store has tables: s3://bucket/prefix or file:///path.")
    ],
    new: Annotated[str, typer.Argument(help="Root below which their files are now.")],
    home: Home = DEFAULT_HOME,
    *,
    store: StoreUrl = "",
    store_endpoint: StoreEndpoint = "",
    realm: Realm = "default",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only list the changes, and reasons against them.")
    ] = False,
    output: Output = Format.TEXT,
) -> None:
    """Tell the store that the files below OLD were moved or copied below NEW; no server may use it
    meanwhile.

    Delta and external tables, clones, and tables that are being created get the same place below
    NEW. It is refused while a commit is not published, and if NEW lacks files that the log of a
    table needs. Iceberg's tables and views stay unchanged and are listed, because their metadata
    hold absolute paths. A reset cannot go back to a time before it. Repeat an interrupted
    relocation to finish it.
    """
    need(SERVER_NEEDS, "server", "a relocation")
    from turnstile_server.store.relocation import relocate as move

    found: dict[str, Any] = on_server(
        lambda: move(home, old, new, store=store, store_endpoint=store_endpoint, realm=realm, dry_run=dry_run)
    )
    if output is Format.JSON:
        out.emit_json(found)
    else:
        verb = "have" if found["done"] else "would have"
        out.say(
            f"{found['tables']} Delta tables, {found['external']} external tables and {found['staging']} that are "
            f"being created {verb} their place below {escape(found['new'])}"
        )
        for text in found["left"]:
            out.say(f"left as it is: {escape(text)}")
        for text in found["problems"]:
            out.say(f"[red]refuses it:[/red] {escape(text)}")
        if found["done"]:
            out.say("Start the server with the lake's new root (--lake), then: turnstile doctor")
    if found["problems"]:
        raise typer.Exit(int(Exit.FAILURE))


def checks_of_store(home: Path) -> list[dict[str, str]]:
    """The findings of SQLite's own check of a home's store, for ``doctor --store``. Raises CliError
    if the home has no SQLite store."""
    need(SERVER_NEEDS, "server", "a look at the store")
    from turnstile_server.store.backups import check

    return [finding.document() for finding in on_server(lambda: check(home))]
