"""References over HTTP and from the command line, as docs/api.md describes them; on real tables
too."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest

from tests.support.access.realm import Realm
from tests.support.cli import run, service
from tests.support.fakes.world import FakeWorld, fake_world
from tests.support.functions import Http, function
from tests.support.store.backends import Backend, Counter
from turnstile.adapters.machine import RandomIds, SystemClock
from turnstile.coordination.core.named_ref import RECENT
from turnstile.coordination.refs import NamedRefs
from turnstile.store.core.errors import OutcomeUnknown, StateConflict
from turnstile.store.core.rows import Space
from turnstile.store.ports import World

REF = "/v1/refs/my.app"


@pytest.fixture
def world() -> FakeWorld:
    return fake_world()


@pytest.fixture
def http(world: FakeWorld) -> Http:
    app = function("catalog")
    app.use_world(world)
    return Http(app.app)


def create(http: Http, value: str = "a") -> str:
    answer = http.post("/v1/refs", {"name": "my.app", "value": value})
    assert answer.status == 201, answer.text
    return str(answer.json["token"])


def test_a_reference_lives_from_its_creation_to_its_end(http: Http) -> None:
    token = create(http)
    read = http.get(REF).json
    assert {name: read[name] for name in ("name", "value", "version", "token")} == {
        "name": "my.app", "value": "a", "version": 0, "token": token,
    }  # fmt: skip
    swapped = http.post(REF, {"token": token, "value": "b"}).json
    assert (swapped["outcome"], swapped["value"], swapped["version"]) == ("applied", "b", 1)
    history = http.get(REF + "/history").json
    assert [one["value"] for one in history["values"]] == ["b", "a"]
    assert history["values"][0]["token"] == swapped["token"]
    assert http.delete(REF, token=swapped["token"]).status == 204
    gone = http.get(REF)
    assert (gone.status, gone.error["type"]) == (404, "NoSuchRef")


def test_a_swap_that_lost_returns_the_present_value(http: Http) -> None:
    token = create(http)
    http.post(REF, {"token": token, "value": "b"})
    lost = http.post(REF, {"token": token, "value": "c"})
    assert (lost.status, lost.error["type"], lost.error["field"]) == (409, "RefMoved", "token")
    current = lost.error["current"]
    assert current["value"] == "b"
    assert http.post(REF, {"token": current["token"], "value": "c"}).status == 200
    taken = http.post("/v1/refs", {"name": "my.app", "value": "x"})
    assert (taken.status, taken.error["current"]["value"]) == (409, "c")


def test_i3_a_repetition_under_the_same_request_id_is_answered_as_the_first_time(http: Http) -> None:
    body = {"name": "my.app", "value": "a", "request_id": "r-1"}
    first = http.post("/v1/refs", body)
    again = http.post("/v1/refs", body)
    assert again.json == {**first.json, "outcome": "replayed"}
    swap = {"token": first.json["token"], "value": "b", "request_id": "r-2"}
    one = http.post(REF, swap)
    http.post(REF, {"token": one.json["token"], "value": "later"})
    assert http.post(REF, swap).json == {**one.json, "outcome": "replayed"}
    other = http.post(REF, {**swap, "value": "other"})
    assert (other.status, other.error["field"]) == (400, "request_id")


def test_an_unknown_outcome_carries_the_id_to_repeat_it_under(
    http: Http, world: FakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = create(http)
    write = world.refs.write

    def lost(change: object) -> object:
        write(change)  # type: ignore[arg-type]
        raise OutcomeUnknown("the answer was lost")

    with monkeypatch.context() as patch:
        patch.setattr(world.refs, "write", lost)
        answer = http.post(REF, {"token": token, "value": "b"})
    assert (answer.status, answer.error["type"]) == (500, "CommitStateUnknown")
    again = http.post(REF, {"token": token, "value": "b", "request_id": answer.error["request_id"]})
    assert (again.status, again.json["outcome"], again.json["version"]) == (200, "replayed", 1)


def test_what_is_wrong_is_named(http: Http) -> None:
    create(http)
    for body, field in (
        ({"name": "a/b", "value": "x"}, "name"),
        ({"name": "r"}, "value"),
        ({"name": "r", "value": 5}, "value"),
        ({"name": "r", "value": "x", "request_id": "a b"}, "request_id"),
        ({"name": "r", "value": "x", "ttl": 5}, "ttl"),
    ):
        answer = http.post("/v1/refs", body)
        assert (answer.status, answer.error["field"]) == (400, field), body
    assert http.post(REF, {"token": "x", "value": "b"}).error["field"] == "token"
    assert http.delete(REF).error["field"] == "token"
    large = http.post("/v1/refs", {"name": "r", "value": "x" * 1025})
    assert (large.status, large.error["limit"]) == (413, 1024)


def test_i12_a_reference_that_an_admin_created_is_for_admins() -> None:
    realm = Realm()
    token = realm.must("POST", "/v1/refs", {"name": "my.app", "value": "a"}).json["token"]
    for method, path, body in (
        ("POST", "/v1/refs", {"name": "mine", "value": "x"}),
        ("GET", REF, None),
        ("GET", REF + "/history", None),
        ("POST", REF, {"token": token, "value": "x"}),
        ("GET", "/v1/refs/nothing", None),
    ):
        assert realm.ask("ann", method, path, body).status == 403, (method, path)
    assert realm.ask("ann", "DELETE", REF, token=token).status == 403
    assert realm.must("GET", REF).json["value"] == "a"


# -- on real tables -----------------------------------------------------------------------------------------------


@pytest.fixture
def counted(backend: Backend) -> tuple[NamedRefs, Counter]:
    counter = Counter()
    refs = backend.refs(counter, realm="named-refs")
    world = World(refs, backend.objs(), None, SystemClock(), RandomIds(), Space("named-refs"))  # type: ignore[arg-type]
    return NamedRefs(world), counter


def test_every_operation_is_one_request_on_the_wire_accepted_or_refused(counted: tuple[NamedRefs, Counter]) -> None:
    refs, counter = counted
    first = refs.create("wire", "a", "one").entry.token
    token = first
    for number in range(2 * RECENT + 3):  # once round the ring and more
        token = refs.swap("wire", token, f"v{number}").entry.token
    with pytest.raises(StateConflict):
        refs.swap("wire", first, "late")
    assert refs.create("wire", "a", "one").outcome == "replayed"
    assert [one.value for one in refs.read("wire").history()] == [
        f"v{number}" for number in range(2 * RECENT + 2, RECENT + 2, -1)
    ]
    refs.delete("wire", token)
    assert counter.operations == (
        ["put_item"] + ["update_item"] * (2 * RECENT + 4) + ["put_item", "get_item", "update_item"]
    )
    counter.sent.clear()
    assert refs.create("wire", "anew").entry.version == 2 * RECENT + 5
    assert counter.operations == ["put_item", "update_item"]


def test_i6_of_swaps_at_once_exactly_one_wins_each_round(counted: tuple[NamedRefs, Counter]) -> None:
    refs, _ = counted
    token = refs.create("race", "0").entry.token
    for number in range(5):
        won: list[str] = []
        lost: list[str] = []

        def attempt(
            who: int, base: str = token, number: int = number, won: list[str] = won, lost: list[str] = lost
        ) -> None:
            try:
                won.append(refs.swap("race", base, f"{number}-{who}").entry.token)
            except StateConflict as error:
                lost.append(error.type)

        threads = [threading.Thread(target=attempt, args=(who,)) for who in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert (len(won), lost) == (1, ["RefMoved"] * 5)
        token = won[0]
    assert refs.read("race").version == 5


# -- the command --------------------------------------------------------------------------------------------------


def test_the_command_reads_creates_swaps_and_tells_of_losing(tmp_path: Path) -> None:
    told = {"name": "r", "value": "b", "version": 1, "token": "1." + "a" * 24, "at": 1_770_000_000_000}
    moved = {"error": {"type": "RefMoved", "message": "moved", "code": 409, "remedy": "read it"}}
    with service({
        "GET /v1/refs/r": (200, told),
        "GET /v1/refs/r/history": (200, {"name": "r", "created": 1, "values": [told]}),
        "POST /v1/refs": (201, told),
        "POST /v1/refs/r": (409, moved),
    }) as canned:  # fmt: skip
        assert json.loads(run("refs", "get", "r", "--url", canned.url, "-o", "json").stdout) == told
        assert told["token"] in run("refs", "history", "r", "--url", canned.url).stdout
        assert run("refs", "create", "r", "b", "--request-id", "x", "--url", canned.url).exit_code == 0
        lost = run("refs", "swap", "r", str(told["token"]), "c", "--url", canned.url)
        bodies = [body for _, _, body, _ in canned.seen if body]
    assert bodies[0] == {"name": "r", "value": "b", "request_id": "x"}
    assert bodies[1] == {"token": told["token"], "value": "c", "request_id": None}
    assert lost.exit_code == 4 and "read it" in lost.stderr
