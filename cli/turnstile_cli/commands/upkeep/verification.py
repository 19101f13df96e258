"""``turnstile verify``: a table's log, and with ``--files`` the files that the table names."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Annotated, Any

import typer
from rich.markup import escape

from turnstile_cli import output as out
from turnstile_cli.api import Api
from turnstile_cli.connection import with_api
from turnstile_cli.errors import Exit
from turnstile_cli.names import Table, TableName
from turnstile_cli.output import Format

From = Annotated[int, typer.Option("--from", min=0, help="The first version of the log to look at.")]
Files = Annotated[
    bool,
    typer.Option(
        "--files",
        help="Also look whether the files that the table names now are there, with their sizes: a request for each of "
        "them.",
    ),
]


@dataclass
class Found:
    """The findings of all calls, and the ``last`` answer."""

    deviations: list[dict[str, Any]] = field(default_factory=list)
    not_judged: list[dict[str, Any]] = field(default_factory=list)
    looked: int = 0
    first: int | None = None
    last: dict[str, Any] = field(default_factory=dict)

    def add(self, answer: dict[str, Any]) -> None:
        known = self.deviations[:]
        self.deviations += [each for each in answer["deviations"] if each not in known]
        self.not_judged += answer.get("not_judged", [])
        self.last = answer


@with_api
def verify(api: Api, *, table: Table, from_version: From = 0, files: Files = False, output: Format) -> None:
    """Compare a table's published log with the ratified commits, and its files with the log:
    nothing is changed.

    Checks that every version in the log is in order, with its own transaction and a later timestamp
    than the one before; that versions which the HEAD still knows have the ratified content; and
    that no version was published without being ratified. Each commit and each checkpoint is read
    whole. With --files it also checks that each data file, and each file of deletion vectors, of
    the published version exists with the size in the log; for an Iceberg table, each file that its
    current snapshot leads to. The contents of these files are not read. The exit code is 1 if
    something deviates; 'turnstile repair TABLE --dry-run' shows the remedy for a log. It is 6 if
    nothing deviates, but a file was not checked.
    """
    name = TableName.parse(table)
    is_iceberg = files and api.get(f"{name.path}/entry").get("format") == "iceberg"
    log = None if is_iceberg else _log(api, name, from_version)
    named = _files(api, name) if files else None
    if output is Format.JSON:
        out.emit_json(_document(name, log, named))
    else:
        if log is not None:
            _show_log(name, log)
        if named is not None:
            _show_files(named)
    found = [each for each in (log, named) if each is not None]
    if any(each.deviations for each in found):
        raise typer.Exit(int(Exit.FAILURE))
    if any(each.not_judged for each in found):
        raise typer.Exit(int(Exit.UNKNOWN))


def _log(api: Api, name: TableName, from_version: int) -> Found:
    path = f"/v1/tables/{name.table_id(api)}/verification"
    found = Found()
    with out.progress(f"verifying {name}") as show:
        query: dict[str, Any] = {"from_version": from_version}
        while True:
            stretch = api.get(path, **query)
            found.add(stretch)
            found.first = stretch["first"] if found.first is None else found.first
            last = stretch["last"] if stretch["last"] is not None else query["from_version"] - 1
            show(last + 1 - (found.first or 0), stretch["floor"] + 1 - (found.first or 0))
            if stretch["next_version"] is None:
                return found
            query = {"from_version": stretch["next_version"]}
            if stretch["last_timestamp"] is not None:
                query["after_timestamp"] = stretch["last_timestamp"]


def _files(api: Api, name: TableName) -> Found:
    found = Found()
    query = dict[str, Any]()
    with out.progress(f"looking at the files of {name}") as show:
        while True:
            answer = api.get(f"{name.path}/file-verification", **query)
            found.add(answer)
            found.looked += answer["files"]
            show(found.looked, None)
            if answer.get("next") is None:
                return found
            query = {"after": answer["next"]}


def _document(name: TableName, log: Found | None, named: Found | None) -> dict[str, Any]:
    document: dict[str, Any] = {"name": str(name)}
    if log is not None:
        document |= {
            "first": log.first,
            "last": None if log.first is None else log.last["last"],
            "floor": log.last["floor"],
            "latest": log.last["latest"],
            "deviations": log.deviations,
            "not_judged": log.not_judged,
        }
    if named is not None:
        document["files"] = {
            "at": named.last["at"],
            "files": named.looked,
            "deviations": named.deviations,
            "not_judged": named.not_judged,
        }
    return document


def _show_log(name: TableName, log: Found) -> None:
    rows = ((each["version"], each["kind"], each["path"], each["message"]) for each in log.deviations)
    empty = "the log has no versions"
    if log.first is not None:
        empty = f"versions {log.first} to {log.last['last']} are as they were ratified"
    if log.not_judged:
        empty += ", as far as they were judged"
    out.table("", ("#version", "what", "file", "why"), rows, empty=empty)
    _show_rest(log)
    if log.deviations:
        out.say(f"'turnstile repair {escape(str(name))} --dry-run' shows the remedy; docs/operations.md has the rest")


def _show_files(named: Found) -> None:
    rows = ((each["kind"], each["path"], each["message"]) for each in named.deviations)
    which = "" if named.last["at"] is None else f" of {named.last['at']}"
    part = ", as far as they were judged" if named.not_judged else ""
    out.table("", ("what", "file", "why"), rows, empty=f"{named.looked} files{which} are there as the table says{part}")
    _show_rest(named)


def _show_rest(found: Found) -> None:
    for each in found.not_judged:
        out.say(f"not judged: {escape(each['path'])}: {escape(each['reason'])}")
    for remedy in _once(each.get("remedy") for each in found.deviations):
        out.say(escape(remedy))


def _once(texts: Iterable[str | None]) -> list[str]:
    return [text for text in dict.fromkeys(texts) if text]
