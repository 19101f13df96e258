"""Downloads and builds that some tests need, made ahead of them: ``python -m
tests.support.downloads``.

It takes minutes on a new machine and nothing on another: run it ahead of ``make test-all``, or
beside it. A test that comes too early waits for a download under way. A missing download is
reported and is no error: its tests are skipped with the reason.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

MAKE_SECONDS = 1_200
"""How long a command may take that makes an environment."""


class Missing(Exception):
    """Something cannot be had on this machine; the message names it, and the remedy."""


def cache(name: str) -> Path:
    """The folder of that name for files that outlive a checkout, below ``XDG_CACHE_HOME`` or
    ``~/.cache``. It is made."""
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "turnstile-tests" / name
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Waits until no other process fills ``folder``; the lock ends with the process that holds
    it."""
    with (folder.parent / f"{folder.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def environment(name: str, *packages: str, locked: Path | None = None) -> Path:
    """Returns the interpreter of an environment with ``packages``, or with those of ``locked``, a
    list with hashes. It is kept between runs, in the cache folder ``name``, and made anew for other
    packages.

    Raises:
        Missing: it cannot be made; the message has the end of the installer's output.
    """
    home = cache(name)
    interpreter = home / "bin" / "python"
    complete = home / "complete"
    uv = Path(sys.executable).with_name("uv")
    wanted = "\n".join(packages) if locked is None else locked.read_text()
    listed = packages if locked is None else ("--require-hashes", "-r", str(locked))
    with alone(home):
        if complete.exists() and complete.read_text() == wanted:
            return interpreter
        for command in (
            [uv, "venv", "--quiet", "--clear", "--python", sys.executable, home],
            [uv, "pip", "install", "--quiet", "--python", interpreter, *listed],
        ):
            try:
                done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=MAKE_SECONDS)
            except (OSError, subprocess.TimeoutExpired) as error:
                raise Missing(f"no environment {name}: {error}") from error
            if done.returncode:
                raise Missing(f"no environment {name}: {done.stderr[-300:]}")
        complete.write_text(wanted)
    return interpreter


def main() -> int:
    """Makes the named downloads, or all; 0 unless something is broken rather than missing."""
    from tests.support.clients import kernel_rs
    from tests.support.clients.sail import suite
    from tests.support.deployment import root, tools
    from tests.support.iceberg import compatibility_kit, spark41
    from tests.support.store import dynoxide

    makers: dict[str, Callable[[], object]] = {
        "dynoxide": dynoxide.build,
        "delta-kernel-rs": kernel_rs.build,
        spark41.SPARK: spark41.python,
        "python3.13-root": root.make,
        "Sail": suite.python,
        "Iceberg's compatibility kit": compatibility_kit.libraries,
        "promtool": tools.promtool,
        "helm": tools.helm,
        "compose schema": tools.compose_schema,
        "kubernetes-validate": tools.kubernetes_validate,
    }
    broken = 0
    wanted = sys.argv[1:] or list(makers)
    for name in wanted:
        make = makers[name]
        start = time.monotonic()
        try:
            make()
        except Missing as reason:
            said = f"not made: {reason}"
        except Exception as error:  # the next one is made all the same
            broken += 1
            said = f"{type(error).__name__}: {error}"
        else:
            said = f"{time.monotonic() - start:.0f} s"
        print(f"{name}: {said}", flush=True)
    return broken


if __name__ == "__main__":
    sys.exit(main())
