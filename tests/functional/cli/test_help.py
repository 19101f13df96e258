"""``--help`` shows the text of the source. Help is rendered as Markdown, which takes ``<name>`` for
HTML and leaves it out."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest
import typer
from typer.main import get_command
from typer.testing import CliRunner

from turnstile_cli.main import program, widen_help
from turnstile_cli.names import MOMENT_WORDS

Command = tuple[tuple[str, ...], Any]


@pytest.fixture(autouse=True)
def built_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The runner builds all commands for every call of one."""
    monkeypatch.setattr("typer.testing._get_command", _built)


_built = cache(get_command)


def _commands(command: Any, path: tuple[str, ...] = ()) -> Iterator[Command]:
    """The command and those below it, each with the words that call it."""
    yield path, command
    for name, one in getattr(command, "commands", {}).items():
        yield from _commands(one, (*path, name))


widen_help()
app = program()
COMMANDS = list(_commands(get_command(app)))


def _shown(program: typer.Typer, path: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr("typer.rich_utils.MAX_WIDTH", 2_000)  # nothing is folded
    answer = CliRunner().invoke(program, [*path, "--help"])
    assert answer.exit_code == 0, answer.output
    return _plain(answer.output)


def _plain(text: str) -> str:
    """Less spaces and the marks of code, which are not shown as they are written."""
    return re.sub(r"[\s`]", "", text)


def _swallowed(command: Any, shown: str) -> list[str]:
    """The texts of a command's source that its help does not show as they are."""
    texts = [command.help, *(getattr(one, "help", None) for one in command.params)]
    return [text for text in texts if text and _plain(text) not in shown]


@pytest.mark.parametrize(("path", "command"), COMMANDS, ids=[" ".join(path) or "turnstile" for path, _ in COMMANDS])
def test_help_shows_every_text_of_the_source_whole(
    path: tuple[str, ...], command: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert _swallowed(command, _shown(app, path, monkeypatch)) == []


@pytest.mark.parametrize(("path", "command"), COMMANDS, ids=[" ".join(path) or "turnstile" for path, _ in COMMANDS])
def test_no_word_is_cut_in_a_terminal_of_80_columns(
    path: tuple[str, ...], command: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("typer.rich_utils.MAX_WIDTH", 80)
    shown = CliRunner().invoke(app, [*path, "--help"]).output
    cut = [line for line in shown.splitlines() if "…" in line]
    assert not cut
    for option in command.params:
        if getattr(option, "envvar", None):
            assert str(option.envvar) in shown, f"{option.envvar} is in one piece"


def test_the_words_for_a_moment_are_in_the_help_of_every_command_that_takes_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for path in (("find",), ("namespaces",), ("describe",), ("catalog", "reset")):
        assert _plain(MOMENT_WORDS) in _shown(app, path, monkeypatch)


def test_a_placeholder_in_angle_brackets_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    program = typer.Typer(rich_markup_mode="markdown")

    @program.command()
    def go(to: str = typer.Option("", help="Where to: head:<id>.")) -> None:
        """Go."""

    command = get_command(program)
    assert _swallowed(command, _shown(program, (), monkeypatch)) == ["Where to: head:<id>."]
