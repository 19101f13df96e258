"""Members of the query, with their ranges. Unknown and repeated members are refused, like unknown body members."""

from __future__ import annotations

from typing import overload

from turnstile.api.http.request import current
from turnstile.catalog.history.core_as_of import AsOf, parse
from turnstile.store.core.errors import InvalidRequest
from turnstile.store.core.names import MAX_VERSION


class Query:
    """The current request's query.

    Args:
        allowed: the members this operation knows.

    Raises:
        InvalidRequest: another member is there, or one is there twice.
    """

    def __init__(self, *allowed: str) -> None:
        self._values: dict[str, str] = {}
        for name, values in current().query.items():
            if name not in allowed:
                known = ", ".join(allowed) or "none"
                raise InvalidRequest(
                    f"query member {name!r} is not known here", field=name, remedy=f"members known here: {known}"
                )
            if len(values) != 1:
                raise InvalidRequest(f"query member {name!r} is given twice", field=name, remedy="give it once")
            self._values[name] = values[0]

    def text(self, name: str) -> str | None:
        """The member, None when absent or empty."""
        return self._values.get(name) or None

    @overload
    def integer(self, name: str, default: int, least: int = 0, most: int = MAX_VERSION) -> int: ...
    @overload
    def integer(self, name: str, default: None = None, least: int = 0, most: int = MAX_VERSION) -> int | None: ...
    def integer(self, name: str, default: int | None = None, least: int = 0, most: int = MAX_VERSION) -> int | None:
        """The member as a whole number between ``least`` and ``most``."""
        value = self.text(name)
        if value is None:
            return default
        number = int(value) if value.isascii() and value.isdigit() and len(value) <= 20 else -1
        if not least <= number <= most:
            raise InvalidRequest(
                f"{name} must be a whole number between {least} and {most}, not {value[:40]!r}",
                field=name,
                remedy=f"give {name} in that range",
            )
        return number

    def moment(self, name: str = "as_of") -> AsOf | None:
        """The member as a moment of a catalog (``core.as_of``), None when absent or empty."""
        value = self.text(name)
        return None if value is None else parse(value, name)

    def flag(self, name: str, *, default: bool = False) -> bool:
        """The member as ``true`` or ``false``."""
        value = self.text(name)
        if value is None:
            return default
        if value.lower() not in ("true", "false"):
            raise InvalidRequest(
                f"{name} must be true or false, not {value[:40]!r}", field=name, remedy="true or false"
            )
        return value.lower() == "true"
