"""Code in the documentation is code: it parses, its commands exist, and what is marked runs: a
block with ``<!-- run: server -->`` by itself, all blocks of a page with ``<!-- run: page -->`` one
after another in one shell, or in one program of Python.

Iceberg's clients are installed where these tests run, so its Python blocks run as well; those with
options of Spark need a Spark of their own (tests/iceberg).
"""

import os
import re
import shutil
import subprocess
import sys

import pytest

from tests.support.repository import ROOT, snippets

PYTHON = [s for s in snippets() if s.language == "python"]
SHELL = [s for s in snippets() if s.language == "sh"]
LONG = ("docs/clients.md", "docs/iceberg.md")
"""Pages whose clients take seconds to start."""
RUNS = [pytest.param(s, marks=[pytest.mark.slow] * (s.page in LONG)) for s in snippets() if s.run == "server"]
STORIES = [
    pytest.param(page, marks=[pytest.mark.slow] * (language == "sh"))
    for page, language in sorted({(s.page, s.language) for s in snippets() if s.run == "page"})
]


def _id(snippet):
    return snippet.id


@pytest.mark.parametrize("snippet", PYTHON, ids=_id)
def test_python_parses(snippet):
    compile(snippet.code, snippet.id, "exec")


@pytest.mark.parametrize("snippet", SHELL, ids=_id)
def test_shell_parses_and_its_make_targets_and_commands_exist(snippet):
    parsed = subprocess.run(["bash", "-n"], input=snippet.code, text=True, capture_output=True, check=False)
    assert parsed.returncode == 0, parsed.stderr
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    from turnstile_cli.main import program

    app = program()

    commands = {command.name or command.callback.__name__ for command in app.registered_commands}
    commands |= {group.name for group in app.registered_groups}
    commands = {name.removesuffix("_").replace("_", "-") for name in commands}
    for line in snippet.code.splitlines():
        if match := re.match(r"make ([a-z-]+)", line):
            assert match[1] in targets
        if match := re.match(r"(?:\.venv/bin/)?turnstile ([a-z-]+)", line):
            assert match[1] in commands


@pytest.mark.parametrize("snippet", RUNS, ids=_id)
def test_what_is_marked_runs_against_a_server(snippet, server):
    _run([sys.executable, "-c", snippet.code] if snippet.language == "python" else _shell(snippet.code), server)


@pytest.mark.parametrize("page", STORIES)
def test_what_a_page_tells_in_order_runs_in_order(page, server):
    story = [s for s in snippets() if s.page == page and s.run == "page"]
    code = "".join(s.code for s in story)
    (language,) = {s.language for s in story}
    _run([sys.executable, "-c", code] if language == "python" else _shell(code), server)


def _shell(code):
    if re.search(r"\bcurl\b", code) and not shutil.which("curl"):
        pytest.skip("curl is not installed")
    return ["bash", "-euo", "pipefail", "-c", code.replace(".venv/bin/", "")]


def _run(command, server):
    env = os.environ | {
        "TURNSTILE_URL": server.url,
        "TURNSTILE_TOKEN": server.token,
        "TURNSTILE_HOME": str(server.home),
    }
    env["PATH"] = f"{os.path.dirname(sys.executable)}{os.pathsep}{env['PATH']}"
    env["TMPDIR"] = str(server.home)  # what they leave behind goes with the server
    ran = subprocess.run(command, cwd=ROOT, env=env, text=True, capture_output=True, timeout=500, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_the_readme_starts_with_the_first_command_and_then_the_second():
    first, second, *_ = [s for s in snippets() if s.page == "README.md"]
    assert (first.code, second.code) == ("make demo\n", "make test\n")


def test_the_lines_that_attach_spark_are_those_that_up_prints():
    from turnstile_cli.commands.server import attach_lines

    class Server:
        url = "http://127.0.0.1:8750"
        token = ""

    readme = next(s for s in PYTHON if s.page == "README.md")
    for line in attach_lines(Server()):
        assert line.replace("session()", "session(small=True)") in readme.code
