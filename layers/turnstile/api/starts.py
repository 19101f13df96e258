"""A function imports this before all else: what a start makes stays, so looking for garbage in it would be a tenth of the start's CPU.

    import turnstile.api.starts    first: no more looking for garbage
    ...                            what the function imports and opens
    turnstile.api.starts.end()     last: garbage is looked for again, in what is made from now on

On Lambda alone. A process of several parts, such as a server or a test, looks for garbage as ever.
"""

from __future__ import annotations

import gc
import os

_DEPLOYED = bool(os.environ.get("AWS_LAMBDA_FUNCTION_NAME"))

if _DEPLOYED:
    gc.disable()


def end() -> None:
    """Looks for garbage again, but not in what is there by now."""
    if _DEPLOYED:
        gc.enable()
        gc.freeze()
