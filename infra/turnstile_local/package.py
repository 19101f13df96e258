"""Make of template.yaml what CreateStack takes: functions zipped, uploaded, and named by their address."""

from __future__ import annotations

import hashlib
import io
import json
import os
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from turnstile_local.errors import StackError
from turnstile_local.settings import CODE_BUCKET
from turnstile_local.template import read

_EPOCH: Final = (1980, 1, 1, 0, 0, 0)
"""The same sources must give the same archive, whenever and wherever they are packed."""

_CODE: Final = {"AWS::Serverless::Function": "CodeUri", "AWS::Serverless::LayerVersion": "ContentUri"}


@dataclass(frozen=True)
class Package:
    """A template ready for CreateStack, and the archives it names by key in the code bucket."""

    template: str
    archives: dict[str, bytes]

    def digest(self, parameters: dict[str, str]) -> str:
        """Name of this template with this code and these parameters."""
        text = self.template + json.dumps(parameters, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()


def project_root() -> Path:
    """The folder of template.yaml: ``TURNSTILE_PROJECT``, else the checkout this package lies in."""
    named = os.environ.get("TURNSTILE_PROJECT")
    root = Path(named) if named else Path(__file__).resolve().parents[2]
    if not (root / "template.yaml").is_file():
        raise StackError(
            f"there is no template.yaml in {root}",
            remedy="name the folder of the checkout in TURNSTILE_PROJECT",
            kind="NoTemplate",
        )
    return root


def package(root: Path, functions: Path | None = None) -> Package:
    """Pack the template and the functions of the project at ``root``.

    What is in ``functions`` replaces the project's functions of the same names, for tests that bring their own. The layer
    is left out: locally the functions import from the environment that the stack runs in.
    """
    template = read(root / "template.yaml")
    archives: dict[str, bytes] = {}
    for resource in template["Resources"].values():
        member = _CODE.get(resource["Type"])
        if member is None:
            continue
        key = "unused.zip"
        if member == "CodeUri":
            folder = root / resource["Properties"][member]
            own = functions / folder.name if functions else folder
            content = _archive(own if own.is_dir() else folder)
            key = f"{folder.name}-{hashlib.sha256(content).hexdigest()[:16]}.zip"
            archives[key] = content
        resource["Properties"][member] = f"s3://{CODE_BUCKET}/{key}"
    return Package(json.dumps(template), archives)


def _archive(folder: Path) -> bytes:
    """The files of a folder as a zip, the same bytes for the same files."""
    if not folder.is_dir():
        raise StackError(f"the function's folder {folder} does not exist", kind="NoCode")
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as archive:
        for path in sorted(folder.rglob("*")):
            name = path.relative_to(folder)
            if path.is_file() and not any(part.startswith((".", "__pycache__")) for part in name.parts):
                archive.writestr(zipfile.ZipInfo(name.as_posix(), _EPOCH), path.read_bytes())
    return out.getvalue()
