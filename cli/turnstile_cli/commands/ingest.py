"""The command that sends the rows of a file."""

from __future__ import annotations

import sys
import uuid
from pathlib import Path
from typing import Annotated, Any, BinaryIO, Literal

import typer
from rich.markup import escape

from turnstile_cli import output as out
from turnstile_cli.api import Api
from turnstile_cli.connection import with_api
from turnstile_cli.errors import CliError, Exit, usage
from turnstile_cli.names import Table, TableName
from turnstile_cli.output import Format
from turnstile_cli.row_files import MEDIA, RowFormat, format_of, parts_of

File = Annotated[Path | None, typer.Argument(metavar="FILE", help="A file with rows; standard input without it.")]
FileFormat = Annotated[
    RowFormat | None, typer.Option("--format", help="By default as the file's name says; json: an object a line.")
]
BatchRows = Annotated[int, typer.Option("--batch-rows", min=1, max=100_000, help="Rows of one request.")]
ProducerName = Annotated[
    str | None,
    typer.Option(
        "--producer",
        help="A name for this file's rows. A command that is run again with the same name and file adds the rows that "
        "are missing.",
        metavar="NAME",
    ),
]
OnError = Annotated[
    Literal["refuse", "quarantine"],
    typer.Option(help="Rows that do not fit: refuse their batch, or add them to TABLE_rejected with the reasons."),
]
Evolve = Annotated[bool, typer.Option("--evolve", help="Add the columns to the table that the rows have and it lacks.")]


@with_api
def ingest(
    api: Api, *, table: Table, file: File = None, format: FileFormat = None, batch_rows: BatchRows = 10_000,
    producer: ProducerName = None, evolve: Evolve = False, on_error: OnError = "refuse", output: Format,
) -> None:  # fmt: skip
    """Add the rows of a file to a table. The server writes the files, so no key for the lake is
    needed.

    Rows are sent in batches. Each is one commit, and is added once, also when an answer is lost.
    """
    name = TableName.parse(table)
    known = format or format_of(file)
    added = 0
    replayed = 0
    rejected = 0
    example = ""
    version: int | None = None
    options = ["schema=evolve"] * evolve + ["on_error=quarantine"] * (on_error == "quarantine")
    path = "?".join([f"{name.path}/rows", *filter(None, ["&".join(options)])])
    try:
        with _open(file) as stream, out.progress(f"adding rows to {name}") as show:
            for number, part in enumerate(parts_of(stream, known, batch_rows), start=1):
                answer = api.append_rows(path, part.content, _headers(MEDIA[known], producer, number))
                version = int(answer["version"])
                added += int(answer.get("rows", 0))
                refused = answer.get("rejected", {})
                rejected += int(refused.get("rows", 0))
                replayed += part.rows - int(refused.get("rows", 0)) if answer["outcome"] == "replayed" else 0
                example = example or _problem(number, refused)
                show(added + replayed + rejected, None)
    except CliError as error:
        if done := added + rejected:
            error.message += f"; {added} rows before these were added, up to version {version}"
            error.message += f", and {rejected} rejected" if rejected else ""
            if producer is None:
                error.remedy += f"; remove the first {done} rows before the file is sent again, or use --producer"
        raise
    if output is Format.JSON:
        counts = {"added": added, "replayed": replayed, "rejected": rejected}
        out.emit_json({"table": str(name), "version": version, **counts})
    elif version is None:
        out.say("the file has no rows")
    else:
        before = f", and {replayed} were there before" if replayed else ""
        out.say(f"{added} rows were added to {escape(str(name))}{before}; version {version}")
        if rejected:
            out.say(f"{rejected} rows that do not fit are in {escape(str(name))}_rejected{escape(example)}")


def _problem(batch: int, rejected: dict[str, Any]) -> str:
    """The first problem of a batch, as a part of a sentence; empty where the answer has none."""
    first = next(iter(rejected.get("problems", ())), None)
    return f": {first['place']} of batch {batch}: {first['problem']}" if first else ""


def _open(file: Path | None) -> BinaryIO:
    if file is None:
        if sys.stdin.isatty():
            raise usage("there is no file", "name one, or send rows to standard input")
        return sys.stdin.buffer
    try:
        return file.open("rb")
    except OSError as error:
        raise CliError(Exit.NOT_FOUND, f"{file} cannot be read: {error.strerror}", remedy="check its name") from None


def _headers(media: str, producer: str | None, number: int) -> dict[str, str]:
    if producer is None:
        return {"content-type": media, "idempotency-key": str(uuid.uuid4())}
    return {"content-type": media, "turnstile-producer": producer, "turnstile-sequence": str(number)}
