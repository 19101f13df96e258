"""Read a CloudFormation template written with short tags (``!Ref``, ``!Sub``, ...)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import yaml

if TYPE_CHECKING:
    from pathlib import Path

Template = dict[str, Any]


class _Loader(yaml.SafeLoader):
    """YAML in which ``!Name value`` stands for ``{"Fn::Name": value}``."""


def _short_tag(loader: _Loader, suffix: str, node: yaml.Node) -> dict[str, Any]:
    value: Any
    if isinstance(node, yaml.ScalarNode):
        value = loader.construct_scalar(node)
    elif isinstance(node, yaml.SequenceNode):
        value = loader.construct_sequence(node, deep=True)
    else:
        assert isinstance(node, yaml.MappingNode)
        value = loader.construct_mapping(node, deep=True)
    if suffix in ("Ref", "Condition"):
        return {suffix: value}
    if suffix == "GetAtt" and isinstance(value, str):
        value = value.split(".", 1)
    return {f"Fn::{suffix}": value}


yaml.add_multi_constructor("!", _short_tag, Loader=_Loader)


def read(path: Path) -> Template:
    """The template at ``path`` with every short tag written out."""
    template = yaml.load(path.read_text(), Loader=_Loader)  # noqa: S506  (a SafeLoader)
    assert isinstance(template, dict)
    return template
