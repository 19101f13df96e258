"""The event that a waiting request has: set once, by any thread, and waited for by one
(``store.queue.Turn``)."""

from __future__ import annotations

import threading

from turnstile.store.queue import Turn


def test_a_turn_that_nobody_set_is_waited_for_until_the_time_is_over() -> None:
    turn = Turn()
    assert not turn.is_set() and not turn.wait(0) and not turn.wait(0.001)


def test_a_turn_that_is_set_is_not_waited_for_however_often() -> None:
    turn = Turn()
    turn.set()
    turn.set()
    assert turn.is_set() and turn.wait() and turn.wait(0) and turn.wait()


def test_a_thread_that_waits_goes_on_when_another_sets_the_turn() -> None:
    turn = Turn()
    woken = threading.Event()

    def wait() -> None:
        if turn.wait():
            woken.set()

    threading.Thread(target=wait, daemon=True).start()
    turn.set()
    assert woken.wait(60)


def test_threads_that_set_it_at_the_same_moment_set_it_once() -> None:
    for _ in range(50):
        turn = Turn()
        gate = threading.Barrier(4)
        failures = list[BaseException]()

        def set_turn(
            turn: Turn = turn, gate: threading.Barrier = gate, failures: list[BaseException] = failures
        ) -> None:
            gate.wait(60)
            try:
                turn.set()
            except RuntimeError as error:
                failures.append(error)

        threads = [threading.Thread(target=set_turn) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert not failures and turn.wait(0)
