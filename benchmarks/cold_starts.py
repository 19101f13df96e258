"""Time and CPU of each function's cold start, by Lambda's Python and AWS's runtime client:
``python -m benchmarks.cold_starts``.

The layers are built as ``sam build`` builds them, in the root with Python 3.13 that
``make test-deployment`` uses (needs root and Debian's debootstrap). A start is the process from its
beginning to its question for the first event: Python, the runtime client, the imports, the
services, and the secret, which a server beside it answers for. All functions take turns. The least
CPU is what other work on the machine disturbs least; ``own`` is that without Python and the client,
which are ``runtime``: a function that does nothing.
"""

from __future__ import annotations

import json
import shutil
import statistics
import subprocess
import tempfile
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from rich.console import Console
from rich.table import Table

from tests.support.deployment import root, starts
from tests.support.repository import ROOT
from turnstile_local.deployment import read_template
from turnstile_local.emulator import own_architecture
from turnstile_release import version

SECRET: Final = {"token": "a-token", "token_keys": f"k1:{'k' * 43}"}
ARN: Final = "arn:aws:ssm:eu-west-1:123456789012:parameter/turnstile/secret"
VARIABLES: Final = {
    "AWS_DEFAULT_REGION": "eu-west-1", "AWS_REGION": "eu-west-1", "AWS_ACCESS_KEY_ID": "x",
    "AWS_SECRET_ACCESS_KEY": "x",
    "TURNSTILE_REFS_TABLE": "refs", "TURNSTILE_OBJS_TABLE": "objs", "TURNSTILE_REALM": "default",
    "TURNSTILE_LAKE_ROOT": "s3://bucket/lake", "TURNSTILE_AUTHENTICATION": "required", "TURNSTILE_METRICS": "alarms",
    "TURNSTILE_ACCOUNT": "123456789012",
}  # fmt: skip
RUNTIME: Final = "runtime"


def functions(code: Path, layers: Path) -> dict[str, dict[str, Any]]:
    """Folder, handler and layers of each function of the template."""
    found: dict[str, dict[str, Any]] = {}
    for name, resource in read_template(ROOT / "template.yaml")["Resources"].items():
        if resource["Type"] != "AWS::Serverless::Function":
            continue
        given = resource["Properties"]
        own = [layers / "arrow"] if "ArrowLayer" in json.dumps(given.get("Layers", "")) else []
        found[name.removesuffix("Function").lower()] = {
            "folder": str(code / given["CodeUri"]), "handler": given["Handler"],
            "layers": [str(layer) for layer in (*own, layers / "shared")],
            "secret": "TURNSTILE_SECRET" in json.dumps(given.get("Environment", {})),
        }  # fmt: skip
    return found


def main(
    runs: Annotated[int, typer.Option(help="Starts of each function.")] = 15,
    layers: Annotated[Path | None, typer.Option(help="Folder of the built layers; made if it is not there.")] = None,
    code: Annotated[Path, typer.Option(help="Checkout whose functions are started.")] = ROOT,
    only: Annotated[list[str] | None, typer.Option(help="These functions.")] = None,
) -> None:
    """Prints a table of the functions."""
    made = root.make()
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        built = layers or work / "layers"
        _build(made, built, code)
        bare = work / RUNTIME
        bare.mkdir()
        (bare / "app.py").write_text("def app(event, context):\n    return {}\n")
        started = functions(code, built) | {RUNTIME: {"folder": str(bare), "handler": "app.app", "layers": []}}
        started = {name: each for name, each in started.items() if not only or name in only}
        taken: dict[str, list[tuple[float, float]]] = {}
        script = work / "starts.py"
        shutil.copy(starts.__file__, script)
        for with_secret in (True, False):
            chosen = {name: each for name, each in started.items() if bool(each.get("secret")) is with_secret}
            variables = VARIABLES | ({"TURNSTILE_SECRET": ARN} if with_secret else {})
            given = {"functions": chosen, "runs": runs, "variables": variables, "secret": json.dumps(SECRET)}
            words = [made.program("lambda", "python"), str(script), json.dumps(given)]
            command = made.command(words, folders=[ROOT, code, built, work], variables={}, at=work)
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                raise SystemExit(done.stderr[-2000:])
            taken |= json.loads(done.stdout)
    cpu = {name: [each[0] for each in taken[name]] for name in started}
    alone = min(cpu.get(RUNTIME, [0.0]))
    columns = ("function", "p50 ms", "CPU ms, median", "least", "own")
    table = Table(*columns, title=f"cold starts of {version()}, {runs} each")
    for name in started:
        figures = (
            statistics.median(each[1] for each in taken[name]),
            statistics.median(cpu[name]),
            min(cpu[name]),
            min(cpu[name]) - alone,
        )
        table.add_row(name, *(f"{figure:.0f}" for figure in figures))
    Console().print(table)


def _build(made: root.Root, built: Path, code: Path) -> None:
    for layer in ("shared", "arrow"):
        folder = built / layer
        if folder.exists():
            continue
        words = [
            *(made.program("sam", "python"), str(code / "layers/build.py"), layer, str(folder)),
            *("--architecture", own_architecture(), "--version", version()),
        ]
        built.mkdir(parents=True, exist_ok=True)
        subprocess.run(made.command(words, folders=[code, ROOT, built], variables={}, at=ROOT), check=True)


if __name__ == "__main__":
    typer.run(main)
