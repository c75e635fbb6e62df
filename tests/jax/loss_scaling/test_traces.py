"""`LossScale` inside jit is the pure machine, bit for bit, on random laws and traces."""

import jax.numpy as jnp
import numpy as np
import pytest
from tests.jax.loss_scaling.traces import STEPS, disagreements, in_jax, laws, traces

from mixdown.scaling import Law
from mixdown.scaling.step_counters import KEPT


@pytest.mark.parametrize("number", range(4))
def test_random_traces_equal_the_pure_machine(number: int) -> None:
    assert disagreements(laws(4)[number], traces(100, seed=number)) == 0


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_hundred_thousand_random_traces_equal_the_pure_machine() -> None:
    run = 0
    for seed, law in enumerate(laws(50)):
        finite = traces(2000, seed)
        run += len(finite)
        assert disagreements(law, finite) == 0, law
    assert run == 100_000


def test_a_machine_that_is_off_by_one_bit_is_noticed() -> None:
    # A product with the rounded reciprocal instead of a quotient, which compilers like to make.
    law = Law(initial=1000.0, multiplier=3.0)
    finite = np.zeros([1, STEPS], bool)
    _, got = in_jax(law, jnp.asarray(finite))
    by_reciprocal = [np.float32(1000.0)]
    for _ in range(STEPS):
        by_reciprocal.append(np.maximum(by_reciprocal[-1] * np.float32(1 / 3), np.float32(1)))
    assert disagreements(law, finite) == 0
    assert np.asarray(got[0])[0].tolist() != [float(each) for each in by_reciprocal[1:]]


def test_the_log_holds_every_skip_with_its_scale() -> None:
    law, finite = laws(1)[0], traces(1, seed=5)
    last, got = in_jax(law, jnp.asarray(finite))
    record = last.record()
    skipped = np.flatnonzero(~finite[0])
    assert [each.step for each in record.skips] == skipped.tolist()
    assert len(skipped) < KEPT
    assert [each.scale for each in record.skips] == np.asarray(got[0])[0][skipped].tolist()
    assert [each.bad_steps for each in record.skips] == np.asarray(got[2])[0][skipped].tolist()
    assert record.timeline[-1][1] == record.loss_scale
