"""A function imports this module first. Objects of a start live for ever, and looking for garbage
among them would be a tenth of the start's CPU. The search for each module's file would be a
fifteenth (ADR 77), and modules of libraries that no request of the usual ones needs as much (ADR
78).

    import turnstile.api.starts    first: no garbage collection any more, modules from the pack
    ...                            imports, and opening of services
    turnstile.api.starts.end()     last: garbage collection again, of later objects

On Lambda alone. A process of several parts, such as a server or a test, collects garbage as usual.
"""

from __future__ import annotations

import gc
import os

from turnstile.api import deferred, packs, patterns

_DEPLOYED = bool(os.environ.get("AWS_LAMBDA_FUNCTION_NAME"))

if _DEPLOYED:
    gc.disable()
    _pack = packs.install()
    if _pack is not None:
        patterns.install(_pack.folder)
    if os.environ.get("AWS_LAMBDA_INITIALIZATION_TYPE", "on-demand") == "on-demand":
        deferred.install()


def end() -> None:
    """Starts garbage collection again, without the present objects."""
    if _DEPLOYED:
        gc.enable()
        gc.freeze()
