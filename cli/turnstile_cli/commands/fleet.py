"""The fleet as its rows say: servers that share their work, what each of them owns, and what has changed hands."""

from __future__ import annotations

from collections import Counter

from turnstile_cli import output as out
from turnstile_cli.api import Api
from turnstile_cli.connection import with_api
from turnstile_cli.output import Format


@with_api
def fleet(api: Api, *, output: Format) -> None:
    """Show the servers that share their work (serve --fleet), and which granules of it each of them owns."""
    report = api.get("/v1/fleet")
    if output is Format.JSON:
        out.emit_json(report)
        return
    owned = Counter((granule["owner"], granule["name"].rpartition("/")[0]) for granule in report["granules"])
    rows = (
        (
            member["name"],
            member["state"],
            ", ".join(f"{role} {owned[member['id'], role]}/{count}" for role, count in sorted(report["roles"].items())),
            ", ".join(f"{role} {load}" for role, load in sorted(member["loads"].items())),
            out.when(member["joined_at"]),
            out.when(member["shown_at"]),
        )
        for member in report["members"]
    )
    columns = ("member", "state", "granules", "load a minute", "joined", "last sign of life")
    out.table("", columns, rows, empty="no server shares its work: start them with serve --fleet")
    if report["members"]:
        nobody = sum(not granule["owner"] for granule in report["granules"])
        out.say(f"granules have changed hands {report['migrations']} times; {nobody} are nobody's")
