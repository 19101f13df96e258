"""The scenario of servers that forward changes of a catalog to its owner: connections that break,
owners that freeze, die and begin late, several that are taken for the owner, and callers that send
a request with a key again (I3, I21).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, ExitStack, suppress
from typing import Any, Final
from unittest.mock import patch

from tests.simulation.actors.catalog import prepare
from tests.simulation.actors.forwarding import Caller, Server, Site
from tests.simulation.auditors.forwarding import ForwardingAuditor
from tests.simulation.engine.network import Network
from tests.simulation.engine.plans import FREEZE, RESENT, Plan
from tests.simulation.engine.plans import KINDS as FAULTS
from tests.simulation.engine.state import State
from tests.simulation.mistakes.tables import swapped
from tests.simulation.scenarios.scenario import Actor
from turnstile.fleet.core import forwarded as words
from turnstile.fleet.core.forwarded import (
    Failed,
    ForwardedRequest,
    ForwardedResponse,
    Reached,
    Receive,
    Send,
    Step,
    Then,
)
from turnstile.fleet.core.owners import Address
from turnstile.gc.core import Grace
from turnstile_server.fleet.forwarding import OwnerClient


class _Uncounted:
    """Metrics without a reader."""

    def count(self, outcome: str) -> None:
        pass


class Forwarded:
    """Changes that servers of a fleet ask an owner to apply (I3, I9, I21)."""

    name = "forwarding"
    grace = Grace()

    def plan(self, seed: int) -> Plan:
        """Two or three servers, and two to four callers."""
        rng = random.Random(f"forwarding/{seed}")
        return Plan(
            seed=seed,
            actors=(
                *(f"server-{n}" for n in range(rng.randint(2, 3))),
                *(f"caller-{n}" for n in range(rng.randint(2, 4))),
            ),
            faults=tuple(kind for kind in (*FAULTS, RESENT, FREEZE) if rng.random() < 0.6),
            rate=rng.choice((0.0, 0.02, 0.05, 0.12)),
            steps=rng.choice((600, 1_200)),
            row_tracking=False,
            keep=rng.choice((1, 3, 20)),
            slow=rng.random() < 0.5,
        )

    def limits(self, plan: Plan) -> AbstractContextManager[Any]:
        """How many HEADs the catalog's row remembers."""
        stack = ExitStack()
        stack.enter_context(patch("turnstile.catalog.core.rows.RECENT", plan.keep))
        stack.enter_context(patch("turnstile_server.telemetry.metrics.ForwardingMetrics", _Uncounted))
        stack.enter_context(patch("turnstile_server.fleet.owner.log.warning"))
        return stack

    def actors(self, state: State, plan: Plan) -> Iterator[Actor]:
        """A catalog with one namespace. In a ``slow`` run servers use the fleet's rows; else they
        guess the owner."""
        prepare(state)
        auditor = ForwardingAuditor(state)
        network = Network(state, auditor.sent)
        servers = list[Server]()
        addresses = dict[str, Address]()
        for name in plan.actors:
            rng = random.Random(f"{plan.seed}/{name}")
            if name.startswith("server"):
                server = Server(state, name, rng, network, auditor=auditor, addresses=addresses, guesses=not plan.slow)
                servers.append(server)
                yield Actor(name, server)
            elif servers:
                yield Actor(name, Caller(state, name, rng, servers, network=network, auditor=auditor), leads=True)

    def settle(self, state: State, plan: Plan) -> None:
        """Every HEAD that must be whole is."""
        state.trees.at_rest()


_CORE: Final = "turnstile.fleet.core.forwarded."
_FORWARDING: Final = "turnstile_server.fleet.owner."


def _asks(wrong: Callable[[bytes], Generator[Step, bytes, ForwardedResponse]]) -> Callable[[], Any]:
    return lambda: patch("turnstile_server.fleet.forwarding.asking", wrong)


def _answers(wrong: Callable[[], Generator[Step, bytes, None]]) -> Callable[[], Any]:
    return lambda: patch("turnstile_server.fleet.forwarding.answering", wrong)


def _begins_untaken(request: bytes) -> Generator[Step, bytes, ForwardedResponse]:
    """The owner is told to begin before it has said that it lives; when it does not say so, it
    counts as not begun."""
    try:
        yield Send(request, words.TAKEN_S, framed=True)
        yield Send(words.BEGIN, words.TAKEN_S)
        yield Receive(words.TAKEN_S)
    except OSError as error:
        raise Failed(Reached.NOT_STARTED, error) from error
    try:
        return words._response((yield Receive(words.ANSWER_S, framed=True)))
    except OSError as error:
        raise Failed(Reached.STARTED, error) from error


def _begun_when_sent(request: bytes) -> Generator[Step, bytes, ForwardedResponse]:
    """The word to begin counts once sending it has succeeded: it may have arrived although it did
    not."""
    reached = Reached.NOT_STARTED
    try:
        yield Send(request, words.TAKEN_S, framed=True)
        yield Receive(words.TAKEN_S)
        yield Send(words.BEGIN, words.ANSWER_S)
        reached = Reached.STARTED
        return words._response((yield Receive(words.ANSWER_S, framed=True)))
    except OSError as error:
        raise Failed(reached, error) from error


def _begins_unasked() -> Generator[Step, bytes, None]:
    """The owner begins when the connection is closed, or nothing comes, as if it had been told
    to."""
    request = words._request((yield Receive(words.IDLE_S, framed=True)))
    yield Send(words.TAKEN, words.ANSWER_S)
    with suppress(OSError):
        yield Receive(words.ANSWER_S)
    yield Send((yield words.Answer(request)), words.ANSWER_S, framed=True)


def _begins_at_once() -> Generator[Step, bytes, None]:
    """The owner begins before it is told to."""
    request = words._request((yield Receive(words.IDLE_S, framed=True)))
    yield Send(words.TAKEN, words.ANSWER_S)
    response = yield words.Answer(request)
    yield Receive(words.ANSWER_S)
    yield Send(response, words.ANSWER_S, framed=True)


def _asks_again() -> Any:
    """The owner gets a request once more, after every result."""

    def twice(ask: Callable[..., ForwardedResponse]) -> Callable[..., ForwardedResponse]:
        def wrong(self: OwnerClient, *more: Any) -> ForwardedResponse:
            try:
                return ask(self, *more)
            except Failed:
                return ask(self, *more)

        return wrong

    return patch.object(OwnerClient, "ask", twice(OwnerClient.ask))


def _answers_another() -> Any:
    """An owner carries out the request that came last, on whichever connection."""
    latest = list[ForwardedRequest]()

    def wrong() -> Generator[Step, bytes, None]:
        latest[:] = [words._request((yield Receive(words.IDLE_S, framed=True)))]
        yield Send(words.TAKEN, words.ANSWER_S)
        yield Receive(words.ANSWER_S)
        yield Send((yield words.Answer(latest[0])), words.ANSWER_S, framed=True)

    return patch("turnstile_server.fleet.forwarding.answering", wrong)


def _without_the_key() -> Any:
    """The key is not handed on to the owner."""
    apply = Site._apply

    def wrong(self: Site, body: Any, key: str) -> Any:
        return apply(self, body, "" if "/owner/" in self._process.name else key)

    return patch.object(Site, "_apply", wrong)


def _concludes(name: str, wrong: Callable[[Callable[..., Then]], Callable[..., Then]]) -> Callable[[], Any]:
    return lambda: swapped(_FORWARDING + name, wrong)


def _here_when_begun(right: Callable[..., Then]) -> Callable[..., Then]:
    """The server also applies a change after the owner got "begin", with a key or without."""
    return lambda outcome, *, has_key: right(outcome, has_key=True)


def _unknown_when_untold(right: Callable[..., Then]) -> Callable[..., Then]:
    """The outcome is reported as unknown, although no owner got "begin"."""
    return lambda outcome, *, has_key: (
        Then.UNKNOWN
        if isinstance(outcome, Failed) and outcome.reached is Reached.NOT_STARTED
        else right(outcome, has_key=has_key)
    )


def _strangers_are_refused(right: Callable[..., Then]) -> Callable[..., Then]:
    """The answer of an owner that accepts other tokens is returned to a caller whom this server has
    authenticated."""
    return lambda outcome, *, has_key: (
        Then.ANSWER if isinstance(outcome, ForwardedResponse) else right(outcome, has_key=has_key)
    )


def _whatever_it_is(_right: Callable[..., Then]) -> Callable[..., Then]:
    """A refusal that passes is told although the owner may apply the change."""
    return lambda outcome, status, **_more: Then.HERE


FORWARDING_MISTAKES: Final[dict[str, tuple[Callable[[], Any], str]]] = {
    "asker: begin without taken": (_asks(_begins_untaken), "I21"),
    "asker: begun once it was sent": (_asks(_begun_when_sent), "I21"),
    "asker: applies what was begun": (_concludes("after_asking", _here_when_begun), "I21"),
    "asker: asks again": (_asks_again, "I21"),
    "asker: unknown without begin": (_concludes("after_asking", _unknown_when_untold), "I21"),
    "asker: hands on that the owner knows nobody": (_concludes("after_asking", _strangers_are_refused), "I21"),
    "asker: tells what passes": (_concludes("after_applying", _whatever_it_is), "I3"),
    "owner: begins when the asker has gone": (_answers(_begins_unasked), "I21"),
    "owner: begins before it is told to": (_answers(_begins_at_once), "I21"),
    "owner: answers for another request": (_answers_another, "I21"),
    "owner: applies without the key": (_without_the_key, "I3"),
}
"""The planted mistake, and the invariant that it breaks."""
