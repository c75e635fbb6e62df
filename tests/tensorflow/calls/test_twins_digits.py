"""Mixed training of a real network on real data is as accurate as float32."""

from statistics import mean

import pytest

pytest.importorskip("sklearn", reason="the digits come with scikit-learn: pip install scikit-learn")

from tests.tensorflow.calls.twins_digits import accuracy


def test_one_seed_in_float16_learns_the_digits() -> None:
    assert accuracy("float16", seed=1, epochs=3) > 90.0


@pytest.mark.slow
@pytest.mark.parametrize("low", ["float16", "bfloat16"])
def test_mean_accuracy_of_five_seeds_is_within_half_a_point_of_float32(low: str) -> None:
    seeds = range(1, 6)
    assert mean(accuracy(low, seed) for seed in seeds) >= mean(accuracy("float32", seed) for seed in seeds) - 0.5
