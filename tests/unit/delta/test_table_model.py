"""A table is a list of commits and a number. Random sequences of operations against the real
services say so."""

from __future__ import annotations

from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, precondition, rule

from tests.support.examples import examples
from tests.support.fakes import delta
from tests.support.fakes.heads import recount
from tests.support.fakes.world import fake_world
from turnstile.delta.commits import Commits
from turnstile.delta.core.content import read_content
from turnstile.delta.core.decide import Conflict, Ratified, Refused
from turnstile.delta.core.head import TableHead, new_head_row
from turnstile.delta.core.metadata import first_metadata
from turnstile.delta.identity import Outcomes
from turnstile.delta.metadata import MetadataStore
from turnstile.delta.proposals import CommitRequest
from turnstile.delta.publish import Publisher
from turnstile.delta.ratify import Ratifier
from turnstile.gc.collector import Collector
from turnstile.store.core.errors import NotFound
from turnstile.store.core.names import published_path, staged_file, staged_path
from turnstile.store.core.writes import Change as Write
from turnstile.store.core.writes import Insert, Set, new_row

T = "11111111-1111-4111-8111-111111111111"
DAY = 86_400_000
BIG = "".join(f"{number:x}" for number in range(9_000))


class TableModel(RuleBasedStateMachine):
    """The model is ``commits`` (transaction ids, version 1 first), ``floor`` and ``dropped``."""

    sent = Bundle("sent")

    def __init__(self) -> None:
        super().__init__()
        self.commits: list[str] = []
        self.floor = 0
        self.dropped = False
        self.bytes: dict[int, bytes] = {}
        self.staged: dict[str | None, bytes] = {}  # also what gc has removed
        # type: ignore[var-annotated]
        self.metadata_at = 0
        self.apps = {}
        self.count = 0
        world = self.world = fake_world()
        zero = delta.version_zero("zero", 1)
        self.storage = world.storages.open("file:///lake/t")
        self.storage.put_if_absent(published_path(0), zero)
        self.snapshots = MetadataStore(world.objs, world.space)
        etag = self.snapshots.put("main", T, first_metadata(read_content(zero)), 1)
        row = new_head_row(
            key=world.space.table(T), table_id=T, catalog="main", name="main.default.t", location="file:///lake/t",
            metadata=etag, version=0, ict=1, row_hwm=None, created=1, managed=True,
        )  # fmt: skip
        world.refs.write(Insert(row, (new_row("I2"),)))
        self.ratifier = Ratifier(world)
        self.publisher = Publisher(world)
        self.listing = Commits(world)
        self.outcomes = Outcomes(world)

    # -- what the model says --------------------------------------------------------------------------------------

    def expect(self, request: CommitRequest, txn: str, app: str | None = None) -> Ratified | Conflict | Refused:
        """Send ``request`` and compare the answer with the model's."""
        answer = self.ratifier.commit(request)
        version = request.version
        base = request.base or 0
        if txn in self.commits:
            assert isinstance(answer, Ratified) and answer.replayed, (txn, answer)
            assert answer.version == self.commits.index(txn) + 1
        elif self.is_forgotten(request):
            assert isinstance(answer, Refused) and answer.kind == "ReloadRequired"
        elif self.dropped:
            assert isinstance(answer, Refused) and answer.kind == "TableNotActive"
        elif version is None and (self.metadata_at > base or (app and self.app_is_in_the_way(app, base))):
            assert isinstance(answer, Conflict) and answer.because in ("metadata", "application")
        elif version is not None and version <= len(self.commits):
            assert isinstance(answer, Conflict) and answer.latest == len(self.commits)
            assert [place.entry.txn for place in answer.winners] == self.carried()[: len(answer.winners)]
        else:
            assert isinstance(answer, Ratified) and not answer.replayed, answer
            self.commits.append(txn)
            assert answer.version == len(self.commits)
            if app:
                self.apps[app] = answer.version
        return answer

    def is_forgotten(self, request: CommitRequest) -> bool:
        """Older than the identity index's memory, and its base has left the tail."""
        raw = request.content or self.staged[request.staged]
        content = read_content(raw)
        base = request.base if request.base is not None else content.read_version or 0
        return base + 1 < self.head().tail_from and content.ict < self.world.clock.now - 29 * DAY

    def app_is_in_the_way(self, app: str, base: int) -> bool:
        return self.apps.get(app, 0) > base or base + 1 < self.head().tail_from

    def head(self) -> TableHead:
        return TableHead.from_row(self.world.refs.rows[self.world.space.table(T)])

    def carried(self) -> list[str]:
        return list(reversed(self.commits[self.head().tail_from - 1 :]))

    def fresh(self) -> tuple[str, int]:
        self.count += 1
        return f"t{self.count}", max(self.world.clock.now_ms(), self.head().last_ict + 1)

    # -- proposals ------------------------------------------------------------------------------------------------

    @rule(target=sent, behind=st.integers(0, 3), kind=st.sampled_from(["staged", "inline", "large", "metadata"]))
    def propose(self, behind: int, kind: str) -> tuple[CommitRequest, str, str | None]:
        txn, stamp = self.fresh()
        version = max(1, len(self.commits) + 1 - behind)
        extra = {"metadata": [delta.metadata(by=txn)], "large": [delta.add(BIG + txn)]}.get(kind, [])
        raw = delta.lines(delta.info(txn, stamp, readVersion=version - 1), *extra, delta.add(txn), delta.remove("x"))
        request = CommitRequest(T, version, content=raw)
        if kind == "staged":
            name = staged_file(version, txn)
            self.storage.put_if_absent(staged_path(name), raw)
            self.staged[name] = raw
            request = CommitRequest(T, version, staged=name, size=len(raw))
        answer = self.expect(request, txn)
        if isinstance(answer, Ratified) and kind == "metadata":
            self.metadata_at = answer.version
            assert self.snapshots.get("main", answer.metadata).metadata["configuration"]["by"] == txn
        return request, txn, None

    @rule(target=sent, behind=st.integers(0, 6), app=st.sampled_from([None, "a", "b"]))
    def ask_for_the_next(self, behind: int, app: str | None) -> tuple[CommitRequest, str, str | None]:
        txn, stamp = self.fresh()
        raw = delta.append(txn, stamp - 40 * (behind % 2), app=app)
        request = CommitRequest(T, None, base=max(0, len(self.commits) - behind), content=raw)
        self.expect(request, txn, app)
        return request, txn, app

    @rule(again=sent)
    def send_the_same_again(self, again: tuple[CommitRequest, str, str | None]) -> None:
        request, txn, app = again
        try:
            self.expect(request, txn, app)
        except NotFound:  # a staged file that lost and was collected
            assert request.staged and txn not in self.commits and (request.version or 0) <= self.floor

    @rule(again=sent, ahead=st.integers(0, 2))
    def send_the_same_transaction_at_another_version(
        self, again: tuple[CommitRequest, str, str | None], ahead: int
    ) -> None:
        request, txn, _ = again
        if request.content is None or request.version is None or txn not in self.commits:
            return
        self.expect(CommitRequest(T, len(self.commits) + ahead, base=0, content=request.content), txn)

    @rule(again=sent)
    def ask_for_the_outcome(self, again: tuple[CommitRequest, str, str | None]) -> None:
        request, txn, _ = again
        outcome = self.outcomes.of(T, txn=txn, version=request.version)
        if txn in self.commits and self.is_forgotten(request):
            assert outcome.outcome in ("ratified", "open"), "it is looked for in the tail and in the memory alone"
        elif txn in self.commits:
            assert (outcome.outcome, outcome.version) == ("ratified", self.commits.index(txn) + 1)
        else:
            final = (request.version or 10**9) <= len(self.commits)  # a dropped table may come back, and take it
            assert outcome.outcome == ("never" if final else "open")

    # -- everybody else -------------------------------------------------------------------------------------------

    @rule(until=st.one_of(st.none(), st.just(0)))
    def publish(self, until: int | None) -> None:
        done = self.publisher.publish(T, until_ms=until)
        assert done.problem is None
        if until is None and not self.dropped:
            self.floor = len(self.commits)

    @precondition(lambda self: not self.dropped)
    @rule(most=st.integers(1, 3))
    def a_client_publishes_by_itself(self, most: int) -> None:
        for place in [place for place in self.listing.of_present_head(T).places if not place.published][:most]:
            found = self.storage.read(staged_path(place.name))
            assert found is not None
            self.storage.put_if_absent(published_path(place.version), found[0])

    @rule(days=st.integers(0, 9))
    def collect(self, days: int) -> None:
        self.world.clock.now += days * DAY
        report = Collector(self.world, workers=1).collect(["staged", "objs"], dry_run=False)
        assert not [trouble for trouble in report.problems if "kept" not in trouble.message]

    @precondition(lambda self: len(self.commits) > 6)
    @rule()
    def drop(self) -> None:
        head = self.head()
        self.world.refs.write(Write(head.key, (), (Set(("state",), "dropped"),)))
        self.dropped = True

    # -- always ---------------------------------------------------------------------------------------------------

    @invariant()
    def the_head_is_the_list(self) -> None:
        head = self.head()
        recount(head)
        assert (head.latest, head.floor) == (len(self.commits), self.floor)
        assert [entry.txn for entry in head.tail] == self.commits[head.tail_from - 1 :]

    @invariant()
    def every_version_has_one_content_for_ever(self) -> None:
        if self.dropped:
            return
        for place in self.listing.of_present_head(T, content=True).places:
            raw = self.listing.earlier(T, place.version).raw
            assert raw is not None and self.bytes.setdefault(place.version, raw) == raw
        for version in range(1, len(self.commits) + 1):
            found = self.storage.read(published_path(version))
            assert found is None or found[0] == self.bytes[version]
            assert found is not None or version > self.floor


TestI1I2I3I4I5ATableIsAListOfCommits = TableModel.TestCase
TestI1I2I3I4I5ATableIsAListOfCommits.settings = settings(
    max_examples=examples(30), stateful_step_count=40, report_multiple_bugs=False,
    phases=set(settings().phases) - {Phase.explain},
)  # fmt: skip
