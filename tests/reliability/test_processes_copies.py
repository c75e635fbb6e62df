"""Copies of wrapped optimizers, to be sent to another process or kept: possible exactly where the bare one's are.

Keras 3 copies by its own file format, tf_keras's legacy optimizers by deepcopy only. The others refuse, wrapped or not:
save those with tf.train.Checkpoint.
"""

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.reliability.fault_training import HOSTS, Fault, Job, trained

WAYS: dict[str, Callable[[Any], Any]] = {
    "deepcopy": copy.deepcopy,
    "pickle": lambda optimizer: pickle.loads(pickle.dumps(optimizer)),  # noqa: S301 - our own bytes
}
COPIED = [("keras 3", "deepcopy"), ("keras 3", "pickle"), ("tf_keras legacy", "deepcopy")]
REFUSED = [(host, way) for host in HOSTS for way in WAYS if (host, way) not in COPIED]


@pytest.fixture(scope="module")
def jobs() -> dict[str, Job]:
    """Every host after some steps, the second of them bad."""
    return {host: trained(host, range(4), [Fault(1, 0, 0, np.nan)], mixed=False) for host in HOSTS}


def inner_of(optimizer: Any) -> Any:
    return optimizer._optimizer if hasattr(optimizer, "_optimizer") else optimizer.inner_optimizer


def values(optimizer: Any) -> list[bytes]:
    held = optimizer.variables
    return [each.numpy().tobytes() for each in (held() if callable(held) else held)]


@pytest.mark.filterwarnings("ignore:A total of:UserWarning")  # Keras: what an optimizer builds later is not loaded now
@pytest.mark.filterwarnings("ignore:Skipping variable loading:UserWarning")
@pytest.mark.parametrize(("host", "way"), COPIED)
def test_a_copy_has_the_state_that_a_copy_of_the_bare_optimizer_has(host: str, way: str, jobs: dict[str, Job]) -> None:
    optimizer, make = jobs[host].optimizer, WAYS[way]
    twin = make(optimizer)
    assert type(twin) is type(optimizer)
    assert twin.account()[:6] == optimizer.account()[:6]
    assert (twin.account().skipped_steps, float(twin.loss_scale)) == (1, 512.0)
    assert [skip.step for skip in twin.account().skips] == [1]
    assert values(inner_of(twin)) == values(make(inner_of(optimizer)))
    assert twin.get_config() == optimizer.get_config()


@pytest.mark.parametrize(("host", "way"), COPIED)
@pytest.mark.filterwarnings("ignore:A total of:UserWarning")
@pytest.mark.filterwarnings("ignore:Skipping variable loading:UserWarning")
def test_a_copy_goes_its_own_way(host: str, way: str) -> None:
    job = trained(host, range(2), mixed=False)
    twin = WAYS[way](job.optimizer)
    job.step(2, [Fault(2, 0, 0, np.inf)])
    assert job.optimizer.skipped_steps == 1
    assert twin.skipped_steps == 0
    assert float(twin.loss_scale) == 2 * float(job.optimizer.loss_scale)


@pytest.mark.parametrize(("host", "way"), REFUSED)
def test_a_copy_is_refused_as_the_bare_optimizer_refuses_it(host: str, way: str, jobs: dict[str, Job]) -> None:
    optimizer, said = jobs[host].optimizer, []
    for each in (inner_of(optimizer), optimizer):
        with pytest.raises((TypeError, RuntimeError, AttributeError)) as caught:
            WAYS[way](each)
        said.append((type(caught.value), str(caught.value)))
    assert said[0] == said[1]
    assert said[0][1]
