"""Whatever is saved comes back, bit for bit: in `.keras`, `.h5`, checkpoints and configs, here and in a new process."""

import json
import os
import subprocess
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
import tf_keras
from tests import fresh
from tests.tensorflow.loss_scaling.optimizers.tf_keras_training import (
    STYLES,
    bare,
    books_of,
    compiled,
    everything_of,
    fit,
    weights_of,
    wrapped,
)

import mixdown

ROOT = Path(__file__).parents[4]
BAD = (2, 4, 5, 9)
# tf_keras never writes the state of a legacy optimizer into a .keras file.
WAYS = [("new", "net.keras"), ("new", "net.h5"), ("new", "net"), ("legacy", "net.h5"), ("legacy", "net")]


@pytest.fixture(params=STYLES)
def style(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def save(net: Any, path: Path) -> str:
    if not path.suffix:
        return str(tf.train.Checkpoint(model=net, optimizer=net.optimizer).save(str(path)))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="You are saving your model as an HDF5 file")
        net.save(path)
    return str(path)


@pytest.mark.slow
def test_a_new_process_goes_on_as_if_nothing_had_happened(tmp_path: Path) -> None:
    arguments, expected = [], []
    for style, name in WAYS:
        (tmp_path / style).mkdir(exist_ok=True)
        net = compiled(wrapped(bare(style)))
        fit(net, range(6), bad=BAD)
        arguments += [style, save(net, tmp_path / style / name)]
        fit(net, range(6, 12), bad=BAD)
        books = json.loads(json.dumps(books_of(net.optimizer)))
        expected.append([[each.hex() for each in weights_of(net)], books])
    command = [
        *fresh.python(),
        "-m",
        "tests.tensorflow.loss_scaling.optimizers.tf_keras_resume",
        "6",
        "12",
        json.dumps(BAD),
        *arguments,
    ]
    done = subprocess.run(command, cwd=ROOT, env={**os.environ}, capture_output=True, text=True, check=False)  # noqa: S603 - our own script
    assert done.returncode == 0, done.stderr[-4000:]
    assert list(json.loads(done.stdout.splitlines()[-1]).values()) == expected
    assert expected[0][1]["skipped_steps"] == 4


@pytest.mark.parametrize(("style", "name"), WAYS[:2] + WAYS[3:4])
def test_a_loaded_model_has_the_optimizer_it_was_saved_with(style: str, name: str, tmp_path: Path) -> None:
    scale = mixdown.DynamicLossScale(64.0, 3, 4.0, floor=0.5, ceiling=2.0**20, tolerance=2)
    optimizer = wrapped(bare(style, beta_1=0.8), scale, skip_limit=9)
    net = compiled(optimizer)
    fit(net, range(8), bad=BAD)
    twin = tf_keras.models.load_model(save(net, tmp_path / name))
    assert type(twin.optimizer) is type(optimizer)
    assert books_of(twin.optimizer) == books_of(optimizer)
    assert everything_of(twin.optimizer, twin) == everything_of(optimizer, net)
    assert twin.optimizer.skip_limit == 9
    assert twin.optimizer.get_config() == optimizer.get_config()


@pytest.mark.parametrize("built", [True, False])
def test_a_checkpoint_is_restored_before_and_after_the_first_step(style: str, tmp_path: Path, *, built: bool) -> None:
    optimizer, other = wrapped(bare(style)), wrapped(bare(style))
    net, twin = compiled(optimizer), compiled(other)
    fit(net, range(7), bad=BAD)
    path = save(net, tmp_path / "net")
    if built:
        fit(twin, range(2))
    status = tf.train.Checkpoint(model=twin, optimizer=other).restore(path)
    if built:
        status.assert_consumed()
    told, expected = books_of(other), books_of(optimizer)
    if not built:  # names are known once the variables are
        assert told.pop("offending_variables")[0] == ("variable 0", "NaN")
        assert expected.pop("offending_variables")[0] == ("first/kernel:0", "NaN")
    assert told == expected
    fit(twin, range(7, 9))
    fit(net, range(7, 9))
    # Sorted: a legacy optimizer that is restored first makes its variables in another order.
    assert sorted(everything_of(other, twin)) == sorted(everything_of(optimizer, net))


@pytest.mark.parametrize("writer", ["bare", "tf_keras"])
def test_checkpoints_of_other_optimizers_can_be_read(style: str, writer: str, tmp_path: Path) -> None:
    theirs = bare(style)
    if writer == "tf_keras":
        theirs = tf_keras.mixed_precision.LossScaleOptimizer(theirs, initial_scale=64.0)
    net, optimizer = compiled(theirs), wrapped(bare(style))
    fit(net, range(3))
    twin = compiled(optimizer)
    tf.train.Checkpoint(model=twin, optimizer=optimizer).restore(save(net, tmp_path / "net"))
    assert float(optimizer.loss_scale) == (64.0 if writer == "tf_keras" else 2.0**15)
    fit(net, range(3, 5))
    fit(twin, range(3, 5))
    assert weights_of(net) == weights_of(twin)
    assert int(optimizer.iterations) == 5


def test_an_optimizer_that_was_checkpointed_before_wrapping_saves_its_scale(tmp_path: Path) -> None:
    inner = bare("new")
    tf.train.Checkpoint(optimizer=inner).save(str(tmp_path / "bare"))
    optimizer = wrapped(inner)
    fit(compiled(optimizer), range(3), bad=(1,))
    names = [
        name for name, _ in tf.train.list_variables(tf.train.Checkpoint(optimizer=optimizer).save(str(tmp_path / "w")))
    ]
    assert "optimizer/loss_scale/skipped_steps/.ATTRIBUTES/VARIABLE_VALUE" in names


def test_weights_of_a_bare_run_load_into_a_wrapped_one(tmp_path: Path) -> None:
    net, twin = compiled(bare("new")), compiled(wrapped(bare("new")))
    fit(net, range(3))
    net.save_weights(tmp_path / "net.weights.h5")
    twin.optimizer.build(twin.trainable_variables)
    twin.load_weights(tmp_path / "net.weights.h5")
    fit(net, range(3, 5))
    fit(twin, range(3, 5))
    assert weights_of(net) == weights_of(twin)


@pytest.mark.parametrize("loss_scale", ["dynamic", 128, mixdown.DynamicLossScale(8.0, 4, 2.5, tolerance=3)])
def test_a_config_describes_the_optimizer_without_its_past(style: str, loss_scale: Any) -> None:
    schedule = tf_keras.optimizers.schedules.ExponentialDecay(0.1, 10, 0.5)
    optimizer = wrapped(bare(style, learning_rate=schedule, clipnorm=2.0), loss_scale, skip_limit=4)
    config = json.loads(json.dumps(optimizer.get_config()))
    twin = type(optimizer).from_config(config)
    assert json.loads(json.dumps(twin.get_config())) == config
    assert twin.inner_optimizer.clipnorm == 2.0
    assert float(twin.loss_scale) == float(optimizer.loss_scale)
    again = tf_keras.optimizers.deserialize(tf_keras.optimizers.serialize(optimizer))
    assert type(again) is type(optimizer)
    assert again.skip_limit == 4


def test_custom_inner_optimizers_come_back_by_custom_objects(style: str) -> None:
    class Mine(type(bare(style))):  # type: ignore[misc]
        pass

    optimizer = wrapped(Mine(0.5))
    twin = type(optimizer).from_config(optimizer.get_config(), custom_objects={"Mine": Mine})
    assert type(twin.inner_optimizer) is Mine
    assert np.float32(twin.learning_rate) == 0.5
