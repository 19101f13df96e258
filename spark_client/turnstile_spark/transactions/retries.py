"""Running work as a transaction, again when it loses: functions, scripts of SQL statements, and
micro-batches of streams."""

from __future__ import annotations

import functools
import re
import threading
from collections.abc import Callable
from typing import Any, TypeVar

from pyspark.sql.types import StructType
from tenacity import Retrying, retry_if_exception, stop_after_attempt, wait_random_exponential

from turnstile_spark.context import LakeContext
from turnstile_spark.errors import CONFLICT, TurnstileError
from turnstile_spark.transactions.conflicts.conflict_check import Isolation
from turnstile_spark.transactions.recovery.statements import statements_of
from turnstile_spark.transactions.slack import Slack
from turnstile_spark.transactions.transaction import Transaction

T = TypeVar("T")
#: Runs of one transaction, the first included, before its conflict is raised.
ATTEMPTS = 10
#: Seconds: the pause before another run is a random part of 0.05, 0.1, 0.2 ... of these, at most 5.
_jitter = wait_random_exponential(multiplier=0.05, max=5.0)
#: ``BEGIN ATOMIC``, after comments. Spark's parser knows ``BEGIN``, which this becomes.
_ATOMIC = re.compile(r"(\s|--[^\n]*(\n|\Z)|/\*.*?\*/)*BEGIN\s+(?P<atomic>ATOMIC)\b", re.IGNORECASE | re.DOTALL)
#: Local properties that Spark sets on the thread of a stream: the query's id, and that of its run
#: (a job group).
_QUERY = "sql.streaming.queryId"
_RUN = "spark.jobGroup.id"


class Runner:
    """Runs functions in transactions of one lake. ``spark``: the session of transactions that name
    no other. Thread-safe."""

    def __init__(self, lake: LakeContext, spark: Any) -> None:
        self._lake = lake
        self._spark = spark

    def retry(
        self,
        function: Callable[[Transaction], T],
        attempts: int = ATTEMPTS,
        isolation: Isolation = "snapshot",
        tables: tuple[str, ...] = (),
        *,
        spark: Any = None,
        application: tuple[str, int] | None = None,
        slack: Slack = 0,
        fair_after: int | None = None,
    ) -> T:
        """Returns ``function(transaction)``, run in a fresh transaction and committed; again after
        a conflict, at most ``attempts`` times in all. After ``fair_after`` runs that lost, the next
        reserves the tables that they wrote. Raises the error of the last run.
        """
        if attempts < 1:
            raise ValueError(f"attempts={attempts}: at least 1")
        if fair_after is not None and fair_after < 1:
            raise ValueError(f"fair_after={fair_after}: at least 1 run that lost, or None")
        written: set[str] = set()
        for attempt in Retrying(
            stop=stop_after_attempt(attempts), wait=_jitter, retry=retry_if_exception(_may_win), reraise=True
        ):
            with attempt:
                lost = attempt.retry_state.attempt_number - 1
                is_fair = fair_after is not None and lost >= fair_after
                transaction = Transaction(
                    self._lake,
                    spark or self._spark,
                    isolation,
                    tables,
                    retries=lost,
                    application=application,
                    slack=slack,
                    reserve=sorted(written) if is_fair else (),
                )
                try:
                    with transaction:
                        return function(transaction)
                finally:
                    written |= transaction.written()
        raise AssertionError("unreachable")

    def transactional(
        self, function: Callable[..., T], attempts: int, isolation: Isolation, **more: Any
    ) -> Callable[..., T]:
        """``function`` as one that runs in a transaction: in that of the calling thread if it is in
        one, else in its own."""

        @functools.wraps(function)
        def run(*args: Any, **kwargs: Any) -> T:
            if self._lake.scopes.current() is not None:
                return function(*args, **kwargs)
            return self.retry(lambda _: function(*args, **kwargs), attempts, isolation, **more)

        return run

    def sql(self, text: str, attempts: int, isolation: Isolation, **more: Any) -> Any:
        """Runs ``BEGIN ATOMIC ... END`` as a transaction, anything else as it is. Returns the
        DataFrame of the last query."""
        match = _ATOMIC.match(text)
        if match is None:
            return self._spark.sql(text)
        script = text[: match.start("atomic")] + text[match.end("atomic") :]
        statements = statements_of(self._spark, script)
        if statements is not None:
            self.retry(
                lambda transaction: [transaction.sql(statement) for statement in statements],
                attempts,
                isolation,
                **more,
            )
            return self._spark.createDataFrame([], StructType())
        return self.retry(lambda _: self._spark.sql(script), attempts, isolation, **more)

    def foreach_batch(
        self, function: Callable[[Any, int], Any], name: str | None, attempts: int
    ) -> Callable[[Any, int], None]:
        """``function(batch, batch_id)`` for ``foreachBatch``, as one transaction for each batch."""
        runs = _Runs()

        def run(batch: Any, batch_id: int) -> None:
            spark = batch.sparkSession
            context = spark.sparkContext
            application = name or context.getLocalProperty(_QUERY)
            if not application:
                raise ValueError(
                    "lake.foreach_batch: outside of a stream it needs a name, foreach_batch(fn, name='...')"
                )
            may_be_repeated = runs.is_first(context.getLocalProperty(_RUN))

            def in_transaction(transaction: Transaction) -> None:
                function(batch, batch_id)
                if may_be_repeated and transaction.has_committed(application, batch_id):
                    transaction.abort()

            self.retry(in_transaction, attempts, spark=spark, application=(application, batch_id))

        return run


class _Runs:
    """Which runs of streaming queries have had a batch: only the first of a run can have been
    committed by an earlier one."""

    def __init__(self) -> None:
        self._last: str | None = None
        self._lock = threading.Lock()

    def is_first(self, run: str | None) -> bool:
        with self._lock:
            is_first = run is None or run != self._last
            self._last = run
            return is_first


def _may_win(e: BaseException) -> bool:
    """Whether a transaction that raised this may win when it is run again."""
    return isinstance(e, TurnstileError) and e.condition == CONFLICT
