"""The command line imports the modules of the command that is called, and no others."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from typer import rich_utils

from turnstile_cli.main import COMMANDS, GROUPS, main, program

IMPORTED = """
import json, sys
from turnstile_cli.main import program
program(sys.argv[1])
print(json.dumps(sorted(name for name in sys.modules if name.startswith("turnstile_cli.commands."))))
"""


def names_of(panels: dict[str, dict[str, str]]) -> set[str]:
    return {name for members in panels.values() for name in members}


@pytest.mark.parametrize(
    ("command", "others"), [("head", ["upkeep.verification", "top"]), ("refs", ["tables", "server"])]
)
def test_a_command_imports_no_module_that_it_does_not_need(command: str, others: list[str]) -> None:
    process = subprocess.run([sys.executable, "-c", IMPORTED, command], capture_output=True, text=True, check=True)
    imported = json.loads(process.stdout)
    assert imported
    assert not {f"turnstile_cli.commands.{other}" for other in others} & set(imported)


@pytest.mark.parametrize("name", sorted(names_of(COMMANDS) | names_of(GROUPS)))
def test_a_name_gives_that_command_alone(name: str) -> None:
    app = program(name)
    commands = [command.name for command in app.registered_commands]
    groups = [group.name for group in app.registered_groups]
    assert commands + groups == [name]


def test_an_unknown_name_gives_all_commands() -> None:
    for app in (program(), program("nothing")):
        assert {command.name for command in app.registered_commands} == names_of(COMMANDS)
        assert {group.name for group in app.registered_groups} == names_of(GROUPS)


@pytest.mark.parametrize("words", [[], ["catalog"], ["tables", "--help"]], ids=" ".join)
def test_help_has_its_width_however_it_is_asked_for(words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rich_utils, "RANGE_STRING", " [{}]")
    monkeypatch.setattr(sys, "argv", ["turnstile", *words])
    with pytest.raises(SystemExit):
        main()
    assert rich_utils.RANGE_STRING == ""
