"""A long life leaves nothing behind: memory, functions and entries stay flat: see soak_story.py."""

import gc
import weakref
from typing import Any

import numpy as np
import pytest
from tests.reliability.conftest import Tally
from tests.reliability.fault_processes import answer, started
from tests.reliability.fault_training import HOSTS, Fault, trained

MEGABYTE = 1e6


class Life:
    """What a process held after each round, once it was warm."""

    def __init__(self, samples: Any) -> None:
        warm = np.asarray(samples[len(samples) // 3 :], "float64")
        steps, resident, functions, entries = warm.T
        self.bytes_a_step, self.last = np.polyfit(steps, resident, 1)[0], resident[-1]
        self.steps = int(steps[-1] - steps[0])
        self.functions, self.entries = set(map(int, functions)), set(map(int, entries))

    def __str__(self) -> str:
        return (
            f"{self.bytes_a_step:.0f} bytes a step over {self.steps} steps, {self.last / 1e6:.0f} MB in the end; "
            f"after every round {self.functions} functions and {self.entries} entries"
        )


def lived(steps: int, turn: int) -> tuple[Life, Life]:
    """The same life mixed and plain."""
    mixed, plain = (
        Life(answer(started("soak_story", str(steps), str(turn), kind), timeout=1500)) for kind in ("mixed", "plain")
    )
    print(f"\nmixed: {mixed}\nplain: {plain}")  # noqa: T201 - figures for people
    return mixed, plain


def check(mixed: Life, plain: Life) -> None:
    assert len(mixed.functions) == 1, "functions are registered and never removed"
    assert len(mixed.entries) == 1, "mixdown remembers more and more"
    # TensorFlow keeps a little of every function that ever was, and a life with twins has several times as many. The
    # 512 bytes are for what an allocator does by chance.
    assert mixed.bytes_a_step < 4.0 * max(plain.bytes_a_step, 0.0) + 512


@pytest.mark.parametrize("host", HOSTS)
def test_an_optimizer_that_was_traced_can_go(host: str) -> None:
    """TensorFlow never lets go of the Python functions that graphs call: they must not hold an optimizer."""
    optimizer = weakref.ref(trained(host, range(2), [Fault(1, 0, 0, np.nan)], mixed=True).optimizer)
    gc.collect()
    assert optimizer() is None


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_twenty_thousand_steps_leave_nothing_behind(tally: Tally) -> None:
    check(*lived(20_000, 125))
    tally("soak steps", 20_000)
