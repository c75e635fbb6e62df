"""Whatever is saved comes back: scale, counters and books, with the weights and slots they belong to."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import keras
import pytest
import tensorflow as tf
from tests import fresh
from tests.tensorflow.loss_scaling.optimizers.keras3_resume import from_checkpoint, summary
from tests.tensorflow.loss_scaling.optimizers.keras3_training import adam, compiled, contents, fit, wrapped

import mixdown

ROOT = Path(__file__).parents[4]
STOP, END, BAD = 5, 9, (1, 4, 7)


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A run saved half way, both ways, and what became of it in the end."""
    folder = tmp_path_factory.mktemp("saved")
    net = compiled(wrapped(adam(weight_decay=0.1)))
    fit(net, range(STOP), bad=BAD)
    net.save(folder / "net.keras")
    paths = {
        "keras": str(folder / "net.keras"),
        "checkpoint": tf.train.Checkpoint(net=net, optimizer=net.optimizer).save(folder / "net"),
    }
    half_way = summary(net)
    fit(net, range(STOP, END), bad=BAD)
    return paths, half_way, summary(net)


@pytest.mark.parametrize("kind", ["keras", pytest.param("checkpoint", marks=pytest.mark.slow)])
def test_a_run_resumed_in_a_new_process_equals_one_that_never_stopped(kind: str, saved: Any) -> None:
    paths, _, end = saved
    arguments = [kind, paths[kind], str(STOP), str(END), json.dumps(BAD)]
    run = subprocess.run(  # noqa: S603 - our own script
        [*fresh.python(), "-m", "tests.tensorflow.loss_scaling.optimizers.keras3_resume", *arguments],
        cwd=ROOT,
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "2"},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert run.returncode == 0, run.stderr[-4000:]
    assert unscoped(json.loads(run.stdout.splitlines()[-1])) == unscoped(end)


def test_books_come_back_from_a_keras_file(saved: Any) -> None:
    paths, half_way, _ = saved
    assert unscoped(summary(keras.models.load_model(paths["keras"]))) == unscoped(half_way)


def test_books_come_back_from_a_checkpoint(saved: Any) -> None:
    paths, half_way, _ = saved
    assert unscoped(summary(from_checkpoint(paths["checkpoint"]))) == unscoped(half_way)


def test_weights_files_hold_the_optimizer_once(tmp_path: Path) -> None:
    net = compiled(wrapped())
    fit(net, range(1))
    store: dict[str, Any] = {}
    net.optimizer.save_own_variables(store)
    assert len(store) == len(net.optimizer._variables)
    net.save(tmp_path / "net.keras")
    again = keras.models.load_model(tmp_path / "net.keras")
    assert contents(again.optimizer.variables) == contents(net.optimizer.variables)


def test_set_weights_sets_what_variables_lists() -> None:
    first, second = (compiled(wrapped()) for _ in range(2))
    fit(first, range(3), bad=[1])
    second.optimizer.build(second.trainable_variables)
    second.optimizer.set_weights([each.numpy() for each in first.optimizer.variables])
    assert contents(second.optimizer.variables) == contents(first.optimizer.variables)


def test_a_config_makes_the_same_optimizer() -> None:
    law = mixdown.DynamicLossScale(64, increment_period=2, multiplier=4, floor=16, ceiling=1024, tolerance=3)
    optimizer = wrapped(adam(learning_rate=0.125, clipnorm=1.0), law, skip_limit=7)
    again = keras.optimizers.deserialize(keras.optimizers.serialize(optimizer))
    assert type(again) is type(optimizer)
    assert again.get_config() == optimizer.get_config()
    assert (again.law, again.skip_limit) == (law.law, 7)


def test_a_config_is_left_as_it_was() -> None:
    config = wrapped().get_config()
    keep = json.dumps(config)
    keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(wrapped()))
    type(wrapped()).from_config(config)
    assert json.dumps(config) == keep


def unscoped(result: dict[str, Any]) -> dict[str, Any]:
    """Without the name of the model in front: a loaded model's variables have paths of their own."""
    return {**result, "offenders": [[name.removeprefix("net/"), said] for name, said in result["offenders"]]}
