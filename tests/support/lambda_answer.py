"""What Lambda makes of an answer: JSON, of which it sends 6,291,556 bytes at most. More is a failure for the caller."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

LIMIT: Final = 6_291_556


def payload(answered: Mapping[str, Any]) -> int:
    """Bytes of what the runtime of Python 3.13 sends: not limited to ASCII, but U+2028 and U+2029 are escaped."""
    text = json.dumps(answered, ensure_ascii=False)
    return len(text.replace("\u2028", r"\u2028").replace("\u2029", r"\u2029").encode())
