"""Servers of a fleet that ask the owner of a catalog to apply the changes that they receive, their
owner processes, and their callers."""

from __future__ import annotations

import random
from typing import Any, Final, cast

import msgspec

from tests.simulation.actors.change_groups import KINDS, NAMES, SEATS
from tests.simulation.auditors.change_groups import Asked, Kind
from tests.simulation.auditors.forwarding import ForwardingAuditor
from tests.simulation.engine.network import Network, TaskQueue, ThreadedProcess
from tests.simulation.engine.plans import MINUTE, SECOND
from tests.simulation.engine.processes import CATALOG, TIGHT, world_of
from tests.simulation.engine.scheduler import Crashed
from tests.simulation.engine.state import State
from turnstile.api.http.handler import Incoming
from turnstile.api.http.idempotency import FINAL
from turnstile.api.http.request import IDEMPOTENCY_KEY, BodyLimit
from turnstile.api.http.responses import STATUS, Response
from turnstile.catalog.changes.commit import Committer
from turnstile.catalog.changes.idempotency import IdempotentCommitter
from turnstile.catalog.changes.waiting import Edit
from turnstile.catalog.core.entities import Namespace
from turnstile.catalog.reader import CatalogReader, View
from turnstile.catalog.store import CatalogStore
from turnstile.coordination.core.rows import create_object
from turnstile.fleet.core.decisions import granule_of
from turnstile.fleet.core.forwarded import Failed, ForwardedRequest, ForwardedResponse
from turnstile.fleet.core.owners import CATALOGS, Address, Owners
from turnstile.fleet.member import Member
from turnstile.rights.grants import OPERATOR, Principal
from turnstile.store.core.errors import (
    AlreadyExists,
    ErrorType,
    NotAuthenticated,
    NotFound,
    StateConflict,
    Throttled,
    TurnstileError,
)
from turnstile_server.fleet.forwarding import OwnerClient
from turnstile_server.fleet.owner import Forwarding, answering

GRANULES: Final = 4
ROUTE: Final = "/v1/catalogs/{catalog}/namespaces"
TOKENS: Final = ("old", "new")
"""Tokens of callers. Every server knows the new one; some know the old one."""

BUSY: Final = 0.06
"""How often a process has too much to do for another change."""

_NAPS: Final = (1, 1, 50, SECOND, 3 * SECOND)


class Body(msgspec.Struct):
    """A caller's request."""

    id: str
    kind: Kind
    name: str
    seat: int


class Site:
    """One process's handling of a request: the part of an app that forwarding needs, before the
    real committers."""

    def __init__(self, process: ThreadedProcess, tokens: frozenset[str], auditor: ForwardingAuditor) -> None:
        self._process = process
        self._tokens = tokens
        self._auditor = auditor
        self.bodies = BodyLimit()
        self._world = world_of(process)
        store = CatalogStore(self._world, TIGHT)
        store.queue = TaskQueue(process)
        self._reader = CatalogReader(self._world, store)
        self._committer = Committer(self._world, self._reader, pause=process.pause)

    def route_of(self, path: str) -> tuple[str, dict[str, str]]:
        return ROUTE, {"catalog": CATALOG}

    def serves(self, path: str, method: str) -> bool:
        return True

    def principal(self, authorization: str, context: Any) -> Principal:
        """Raises NotAuthenticated."""
        if authorization not in self._tokens:
            raise NotAuthenticated("unknown")
        return OPERATOR

    def answer(self, incoming: Incoming) -> Response:
        try:
            self.principal(incoming.headers["authorization"], {})
            if self._process.rng.random() < BUSY:
                raise Throttled("too many changes wait")
            return self._apply(
                msgspec.json.decode(incoming.read(self.bodies), type=Body),
                incoming.headers.get(IDEMPOTENCY_KEY.lower(), ""),
            )
        except TurnstileError as error:
            return self._response(error)

    def refuse(self, incoming: Incoming, error: TurnstileError) -> Response:
        """The error of forwarding for an unknown outcome."""
        self._auditor.unknown(msgspec.json.decode(incoming.read(None), type=Body).id)
        return self._response(error)

    def _response(self, error: TurnstileError) -> Response:
        return Response(STATUS[error.type], {}, error.type.encode())

    def _apply(self, body: Body, key: str) -> Response:
        if not key:
            return self._applied(body, self._committer)
        committer = IdempotentCommitter(
            self._world, self._reader, key=self._world.space.request(CATALOG, "caller", key), asked=body.id,
            final=lambda error: status if (status := STATUS[error.type]) in FINAL else 0, pause=self._process.pause,
            queued=True,
        )  # fmt: skip
        return committer.run(
            lambda: self._applied(body, committer), lambda seq: Response(200, {"seq": str(seq)}, body.id.encode())
        )

    def _applied(self, body: Body, committer: Committer) -> Response:
        seat = self._world.space.updateable(f"seat-{body.seat}")

        def change(view: View) -> Edit | None:
            there = view.tree.find((body.name,)) is not None
            match body.kind:
                case "claim":
                    write = create_object(seat, "seat", body.id, b"", self._process.now_ms())
                    return Edit(body.id, writes=(write,))
                case "drop":
                    if not there:
                        raise NotFound("namespace", body.name)
                    return Edit(body.id, remove=((body.name,),))
                case "create" if there:
                    raise AlreadyExists(body.name)
                case "ensure" if there:
                    return None
            return Edit(body.id, put={(body.name,): Namespace(body.name, body.id, 1)})

        def rejected(_rows: Any) -> None:
            raise StateConflict(ErrorType.LOCATION_OWNED, f"{seat} is taken")

        tree = committer.commit(CATALOG, change, on_rejected=rejected)
        return Response(201 if tree.commit.message == body.id else 200, {}, body.id.encode())


class NotingAsker(OwnerClient):
    """An asker that counts how far its requests came."""

    def __init__(self, network: Network, process: ThreadedProcess, auditor: ForwardingAuditor) -> None:
        super().__init__(lambda address: network.connect(process, address))
        self._auditor = auditor

    def ask(self, address: Address, request: ForwardedRequest) -> ForwardedResponse:
        try:
            response = super().ask(address, request)
        except Failed as failed:
            self._auditor.met(f"forwarding: {failed.reached.name}")
            raise
        self._auditor.met("forwarding: 401" if response.status == 401 else "forwarding: answered")
        return response


class Server:
    """A server of the fleet: a process of its owner, and one of its membership, which die together
    or alone. Its callers' processes read ``read``, as from the file that the background writes."""

    def __init__(
        self, state: State, name: str, rng: random.Random, network: Network, *, auditor: ForwardingAuditor,
        addresses: dict[str, Address], guesses: bool,
    ) -> None:  # fmt: skip
        """
        Args:
            addresses: of all servers, from which guessing servers choose.
        """
        self.state = state
        self.name = name
        self._rng = rng
        self._network = network
        self._auditor = auditor
        self.tokens = frozenset(TOKENS if rng.random() < 0.7 else TOKENS[1:])
        self._addresses = addresses
        self._guesses = guesses
        self._count = 0
        self._owners = Owners()

    def read(self) -> Owners:
        """This server's cache of owners; if it guesses, any owner."""
        if not self._guesses:
            return self._owners
        granule = granule_of(CATALOGS, CATALOG, GRANULES)
        choices = [*self._addresses.values(), *self._addresses.values(), None]
        address = self._rng.choice(choices)
        return Owners(1 << 62, GRANULES, {} if address is None else {granule: address})

    def __call__(self) -> None:
        while True:
            self._start()
            while not self._background.dead:
                if self._owner.dead:
                    if self._rng.random() < 0.5:
                        break
                    self._listen()  # the main process starts its owner process again
                try:
                    self._beat()
                except Crashed:
                    break
                except TurnstileError:
                    pass
                self.state.scheduler.sleep(20 * SECOND if self._guesses else SECOND)
            self._owner.kill()
            self._owners = Owners()
            self.state.scheduler.sleep(self._rng.choice((50, SECOND, 10 * SECOND)))

    def _start(self) -> None:
        """The server's processes, under a secret of their own."""
        self._count += 1
        self.address = Address(self.name, 1, f"secret {self._count}")
        self._addresses[self.name] = self.address
        self._background = ThreadedProcess(self.state, f"{self.name}/background/{self._count}", self._rng)
        self._listen()
        self._member = Member(
            world_of(self._background), self._background.monotonic, name=self.name, granules={CATALOGS: GRANULES},
            beat_ms=SECOND,
            alone_beat_ms=SECOND, address=self.address,
        )  # fmt: skip

    def _listen(self) -> None:
        self._owner = ThreadedProcess(self.state, f"{self.name}/owner/{self._count}", self._rng)
        site = Site(self._owner, self.tokens, self._auditor)
        self._network.listen(self.address, self._owner, answering(cast("Any", (site, site))))

    def _beat(self) -> None:
        if self._guesses:
            if self._rng.random() < 0.1:
                self._owner.kill()
            return
        self._member.beat()
        self._owners = self._member.owners(CATALOGS)


class Caller:
    """Sends changes to a process of a server, one after the other; a change with a key is sent
    again, perhaps to another server, until its outcome is known."""

    times = 14

    def __init__(
        self, state: State, name: str, rng: random.Random, servers: list[Server], *, network: Network,
        auditor: ForwardingAuditor,
    ) -> None:  # fmt: skip
        self._state = state
        self._name = name
        self._rng = rng
        self._servers = servers
        self._network = network
        self._auditor = auditor
        self._count = 0
        self._numbers = 0

    def __call__(self) -> None:
        self._start()
        for _ in range(self.times):
            self._request()
            self._state.scheduler.sleep(self._rng.choice(_NAPS))

    def _start(self) -> None:
        self._count += 1
        server = self._rng.choice(self._servers)
        self._process = process = ThreadedProcess(self._state, f"{self._name}/{self._count}", self._rng)
        self._site = Site(process, server.tokens, self._auditor)
        self._forwarding = Forwarding(
            server, cast("Any", self._site), asker=NotingAsker(self._network, process, self._auditor),
            clock_ms=process.monotonic,
        )  # fmt: skip
        self._tokens = sorted(server.tokens)

    def _request(self) -> None:
        self._numbers += 1
        body = Body(
            f"{self._name} {self._numbers}",
            self._rng.choice(KINDS),
            self._rng.choice(NAMES),
            self._rng.randrange(SEATS),
        )
        asked = self._auditor.asked(body.id, body.kind, body.name)
        headers = {"authorization": self._rng.choice(self._tokens)}
        if self._rng.random() < 0.5:
            headers[IDEMPOTENCY_KEY.lower()] = body.id
            self._auditor.keyed.add(body.id)
        content = msgspec.json.encode(body)
        is_again = False
        for _ in range(4):
            response = self._send(content, headers)
            if not self._told(asked, response, is_again=is_again):
                return
            if len(headers) == 1:
                return
            is_again = True
            self._state.scheduler.sleep(self._rng.choice((100, SECOND, MINUTE)))
            headers["authorization"] = self._rng.choice(self._tokens)

    def _send(self, content: bytes, headers: dict[str, str]) -> Response | None:
        """The response; None when the process died over it."""
        incoming = Incoming("POST", "/v1/catalogs/main/namespaces", "", dict(headers), lambda _limit: content)
        try:
            return self._forwarding.answer(cast("Any", self._site), incoming)
        except Crashed:
            self._start()
            return None

    def _told(self, asked: Asked, response: Response | None, *, is_again: bool) -> bool:
        """Records the caller's answer; returns whether the outcome is unknown. A temporary refusal
        says nothing about an earlier attempt."""
        auditor = self._auditor
        what = (
            "nothing"
            if response is None
            else f"{response.status} {'' if response.status < 300 else response.body.decode()}"
        )
        auditor.met(f"forwarded {what.strip()}{' with a key' if asked.id in auditor.keyed else ''}")
        if response is None:
            return True
        if response.status < 300:
            auditor.answered(asked, response.body.decode())
            seq = response.headers.get("seq")
            if seq is not None:
                auditor.replayed(asked, None if seq == "None" else int(seq))
            elif response.status == 201:
                auditor.acknowledged(asked)
            else:
                auditor.unchanged(asked)
            return False
        match response.body.decode():
            case "AlreadyExists" | "NoSuchNamespace" as type:
                fits = (type == "NoSuchNamespace") == (asked.kind == "drop") and asked.kind != "claim"
                self._refused(asked, response, fits=fits, by_row=False)
            case "LocationOwned":
                self._refused(asked, response, fits=asked.kind == "claim", by_row=True)
            case "ConcurrentChange":
                self._refused(asked, response, fits=True, by_row=True)
            case "Throttled":
                if is_again:
                    return True
                self._refused(asked, response, fits=True, by_row=True)
            case "CommitStateUnknown" | "StorageFault":
                return True
            case _:
                self._refused(asked, response, fits=False, by_row=False)
        return False

    def _refused(self, asked: Asked, response: Response, *, fits: bool, by_row: bool) -> None:
        if fits:
            self._auditor.refused(asked, by_row=by_row)
        else:
            self._auditor.refused_by_another(asked, ValueError(response.body))
