"""A store that loses answers."""

from __future__ import annotations

from tests.support.fakes.refs import FakeRefs
from turnstile.store.core.errors import OutcomeUnknown
from turnstile.store.core.writes import Write
from turnstile.store.ports import Accepted, Rejected


class Losing(FakeRefs):
    """Loses the answers that ``lose`` names, in order: ``before`` the write is applied, ``after`` it, or (empty) none.
    ``applied`` has the tokens of the rows that writes left."""

    def __init__(self) -> None:
        super().__init__()
        self.lose: list[str] = []
        self.applied: list[str] = []

    def write(self, write: Write) -> Accepted | Rejected:
        how = self.lose.pop(0) if self.lose else ""
        if how == "before":
            raise OutcomeUnknown("lost")
        answer = super().write(write)
        if isinstance(answer, Accepted) and answer.row is not None:
            self.applied.append(str(answer.row.get("token")))
        if how == "after":
            raise OutcomeUnknown("lost")
        return answer
