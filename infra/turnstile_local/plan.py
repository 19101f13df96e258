"""What is to be deployed: the packed template, its parameters, and whether the emulator has it from the last time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from turnstile_local import deploy
from turnstile_local.package import Package, package, project_root

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@dataclass(frozen=True)
class Plan:
    """``digest`` names template, code and parameters together."""

    packed: Package
    parameters: dict[str, str]
    digest: str

    @classmethod
    def make(cls, lake_root: str, token: str, keys: str, functions: Path | None, more: dict[str, str]) -> Self:
        """Pack the project for a stack with its tables below ``lake_root``.

        Args:
            token: of the operator. Without one, and unless ``more`` says otherwise, whoever reaches the stack may do
                everything; it listens on loopback only (``settings.HOST``).
            keys: of the access tokens that the stack issues itself; they count only where somebody has to authenticate.
            functions: folder of functions that replace the project's own.
            more: further parameters of the template.
        """
        opened = not (token or more.get("StaticTokens") or more.get("OidcIssuer"))
        parameters = {
            "LakeRoot": lake_root,
            "CreateLakeBucket": "true" if lake_root.startswith("s3://") else "false",
            "Authentication": "none" if opened else "required",
            "StaticToken": token,
            "TokenKeys": "" if opened else keys,
            "LayerMode": "none",
            "DeletionProtection": "false",
            **more,
        }
        packed = package(project_root(), functions)
        return cls(packed, parameters, packed.digest(parameters))

    @property
    def opened(self) -> bool:
        """Whether whoever reaches the stack may do everything."""
        return self.parameters["Authentication"] == "none"

    def carry_out(self, url: str, kept: dict[str, str] | None, ready: Callable[[], None]) -> dict[str, str]:
        """Deploy at ``url`` once ``ready`` returns; returns the stack's outputs.

        ``kept`` are the outputs of a deployment of just this that the emulator has from the last time.
        """
        if kept is not None:
            ready()
            return kept
        deploy.client("cloudformation", url)  # imports take as long as the emulator's start: do both at once
        ready()
        return deploy.deploy(url, self.packed, self.parameters)
