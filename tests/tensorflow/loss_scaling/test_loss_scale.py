"""The loss scales from outside: results of `update`, configuration, graphs, checkpoints, the v1 Saver."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from mixdown.tensorflow.loss_scaling.loss_scale import DynamicLossScale, FixedLossScale, LossScale, get

GOOD, BAD = tf.constant([1.0, 2.0]).numpy(), tf.constant([np.nan, 1.0]).numpy()
ARGUMENTS: dict[str, Any] = {
    "initial_loss_scale": 8.0,
    "increment_period": 3,
    "multiplier": 4.0,
    "floor": 2.0,
    "ceiling": 1024.0,
    "tolerance": 2,
}


def test_fixed_scale_applies_whatever_comes() -> None:
    scale = FixedLossScale(1024)
    operation, apply = scale.update([tf.constant(np.nan)])
    assert operation is None
    assert apply is True
    assert scale().dtype == tf.float32
    assert float(scale()) == 1024.0


def test_fixed_update_in_a_graph_is_an_operation_and_a_python_true() -> None:
    with tf.Graph().as_default():
        operation, apply = FixedLossScale(2.0).update([tf.constant(np.nan)])
        assert isinstance(operation, tf.Operation)
        assert apply is True


def test_dynamic_update_acts_at_once_in_eager() -> None:
    scale = DynamicLossScale(4.0, 1)
    operation, apply = scale.update([tf.constant(GOOD), None])
    assert operation is None
    assert apply.numpy()
    assert float(scale()) == 8.0


@pytest.mark.parametrize(
    "gradients",
    [tf.constant(BAD), [None, tf.constant(BAD)], {"a": [tf.constant(1.0)], "b": (tf.constant(BAD), None)}],
    ids=["bare", "list", "nested"],
)
def test_any_structure_of_gradients_is_searched(gradients: Any) -> None:
    scale = DynamicLossScale(4.0)
    assert not scale.update(gradients)[1].numpy()
    assert float(scale()) == 2.0


@pytest.mark.parametrize("gradients", [[], [None], None])
def test_no_gradients_are_a_good_step(gradients: Any) -> None:
    scale = DynamicLossScale()
    assert scale.update(gradients)[1].numpy()
    assert scale.good_steps == 1


def test_indexed_slices_are_checked_by_their_values() -> None:
    scale = DynamicLossScale(4.0)
    assert not scale.update([tf.IndexedSlices(tf.constant([np.inf]), tf.constant([0]), tf.constant([9]))])[1].numpy()


def test_the_books_are_readable_and_right() -> None:
    scale = DynamicLossScale(64.0)
    assert (scale.steps, scale.skipped_steps, scale.last_skipped_step, scale.skips_in_a_row) == (0, 0, None, 0)
    for each in (GOOD, BAD, BAD):
        scale.update([tf.constant(each)])
    assert (scale.steps, scale.skipped_steps, scale.last_skipped_step, scale.skips_in_a_row) == (3, 2, 2, 2)


def test_weights_have_the_documented_names_and_dtypes_and_are_not_trainable() -> None:
    scale = DynamicLossScale()
    assert scale.weight("current_loss_scale").dtype == tf.float32
    assert scale.weight("good_steps").dtype == tf.int64
    assert scale.weight("bad_steps").dtype == tf.int64
    assert not any(each.trainable for each in scale.weights)


@pytest.mark.parametrize("scale", [DynamicLossScale(**ARGUMENTS), DynamicLossScale(), FixedLossScale(3)], ids=repr)
def test_configuration_comes_back(scale: LossScale) -> None:
    again = type(scale).from_config(scale.get_config())
    assert again.get_config() == scale.get_config()
    assert float(again()) == float(scale())


def test_configuration_holds_every_argument() -> None:
    assert DynamicLossScale(**ARGUMENTS).get_config() == ARGUMENTS
    assert FixedLossScale(3).get_config() == {"loss_scale_value": 3.0}


def test_repr_shows_the_current_state_only_where_it_can_be_known() -> None:
    assert repr(FixedLossScale(3)) == "FixedLossScale(3.0)"
    scale = DynamicLossScale(8, 3)
    scale.update([tf.constant(GOOD)])
    assert repr(scale).startswith("DynamicLossScale(current_loss_scale=8.0, good_steps=1, initial_loss_scale=8.0, ")
    with tf.Graph().as_default():
        assert repr(scale).startswith("DynamicLossScale(initial_loss_scale=8.0, increment_period=3, multiplier=2.0, ")


def test_get_makes_a_loss_scale_of_numbers_and_dynamic() -> None:
    assert get("dynamic").get_config() == DynamicLossScale().get_config()
    for number in (8, 8.0, np.float32(8), np.int64(8)):
        assert get(number).get_config() == {"loss_scale_value": 8.0}
    scale = DynamicLossScale()
    assert get(scale) is scale


MESSAGES = [
    (
        lambda: FixedLossScale(0.25),
        ValueError,
        r"^FixedLossScale needs a scale of at least 1, got 0\.25\. Use DynamicLos",
    ),
    (lambda: FixedLossScale(0), ValueError, r"^loss_scale_value must be finite and greater than 0, got 0\.$"),
    (lambda: FixedLossScale(2.0**128), ValueError, r"^ceiling must be at most 3\.4028234e38"),
    (lambda: FixedLossScale(loss_scale_value=True), TypeError, r"^loss_scale_value must be a number, got True of"),
    (lambda: DynamicLossScale(0.5), ValueError, r"^the initial scale must lie between floor and ceiling, got 0\.5"),
    (lambda: DynamicLossScale(multiplier=1), ValueError, r"^multiplier must be greater than 1"),
    (
        lambda: DynamicLossScale(**{**ARGUMENTS, "increment_period": 2.5}),
        TypeError,
        r"^increment_period must be a whole number, got 2\.5",
    ),
    (lambda: get("static"), ValueError, r"^loss_scale must be a number, \"dynamic\" or a LossScale, got 'static'\.$"),
    (lambda: get(None), ValueError, r"^loss_scale cannot be None\. Pass a number, \"dynamic\" or a LossScale\.$"),
    (lambda: get([8]), ValueError, r"^loss_scale must be a number, \"dynamic\" or a LossScale, got \[8\] of type list"),
    (lambda: get(True), TypeError, r"^loss_scale must be a number, .* got True of type bool\.$"),
]


@pytest.mark.parametrize(("call", "kind", "message"), MESSAGES)
def test_refusal(call: Any, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        call()


def test_the_smaller_scale_recommended_by_the_message_is_accepted() -> None:
    assert float(DynamicLossScale(0.25, floor=0.25)()) == 0.25


def test_loss_scale_is_abstract() -> None:
    with pytest.raises(TypeError, match="abstract"):
        LossScale()


def test_one_object_in_eager_and_two_graphs_has_three_independent_states() -> None:
    scale = DynamicLossScale(64.0)
    for story, expected in (([BAD], 32.0), ([BAD, BAD], 16.0)):
        with tf.Graph().as_default(), tf.compat.v1.Session() as session:
            fed = tf.compat.v1.placeholder(tf.float32, [2])
            operation, apply = scale.update([fed])
            assert {each.graph for each in scale.weights} == {tf.compat.v1.get_default_graph()}
            session.run(tf.compat.v1.global_variables_initializer())
            for each in story:
                assert not session.run([apply, operation], {fed: each})[0]
            assert session.run(scale()) == expected
    assert float(scale()) == 64.0


def test_graph_weights_are_global_variables_and_never_trainable() -> None:
    with tf.Graph().as_default():
        scale = DynamicLossScale()
        assert tf.compat.v1.global_variables() == scale.weights
        assert tf.compat.v1.trainable_variables() == []


def test_a_scale_built_inside_a_traced_function_belongs_to_eager() -> None:
    made: list[DynamicLossScale] = []

    @tf.function
    def first_call() -> tf.Tensor:
        if not made:
            made.append(DynamicLossScale(4.0))
        made[0].update([tf.constant(BAD)])
        return made[0]()

    assert float(first_call()) == 2.0
    assert float(made[0]()) == 2.0


def spoilt(scale: DynamicLossScale) -> DynamicLossScale:
    for each in (GOOD, BAD, GOOD, GOOD):
        scale.update([tf.constant(each)])
    return scale


def state(scale: DynamicLossScale) -> list[Any]:
    return [each.numpy().tolist() for each in scale.weights]


def test_a_checkpoint_brings_everything_back(tmp_path: Path) -> None:
    saved = spoilt(DynamicLossScale(64.0))
    path = tf.train.Checkpoint(scale=saved).save(str(tmp_path / "c"))
    fresh = DynamicLossScale(64.0)
    tf.train.Checkpoint(scale=fresh).restore(path).assert_consumed()
    assert state(fresh) == state(saved)
    assert (fresh.skipped_steps, fresh.last_skipped_step, fresh.good_steps) == (1, 1, 2)


def test_a_checkpoint_read_before_the_scale_exists_is_applied_when_it_does(tmp_path: Path) -> None:
    saved = spoilt(DynamicLossScale(64.0))
    path = tf.train.Checkpoint(scale=saved).save(str(tmp_path / "c"))
    late = tf.train.Checkpoint()
    late.restore(path)
    late.scale = DynamicLossScale(64.0)
    assert state(late.scale) == state(saved)


def test_a_checkpoint_read_before_the_graph_weights_exist_is_applied_when_they_do(tmp_path: Path) -> None:
    saved = spoilt(DynamicLossScale(64.0))
    path = tf.train.Checkpoint(scale=saved).save(str(tmp_path / "c"))
    expected, elsewhere = state(saved), DynamicLossScale(64.0)
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        status = tf.train.Checkpoint(scale=elsewhere).restore(path)
        weights = elsewhere.weights
        status.initialize_or_restore(session)
        assert [each.tolist() for each in session.run(weights)] == expected


def test_the_v1_saver_brings_everything_back(tmp_path: Path) -> None:
    values = []
    for restore in (False, True):
        with tf.Graph().as_default(), tf.compat.v1.Session() as session:
            scale = DynamicLossScale(64.0)
            fed = tf.compat.v1.placeholder(tf.float32, [2])
            operation, _ = scale.update([fed])
            saver = tf.compat.v1.train.Saver()
            if restore:
                saver.restore(session, str(tmp_path / "v1"))
            else:
                session.run(tf.compat.v1.global_variables_initializer())
                for each in (GOOD, BAD, GOOD):
                    session.run(operation, {fed: each})
                saver.save(session, str(tmp_path / "v1"))
            values.append([each.tolist() for each in session.run(scale.weights)])
    assert values[0] == values[1]
    assert 32.0 in values[1]


def test_a_checkpoint_of_tensorflows_own_dynamic_scale_can_be_read(tmp_path: Path) -> None:
    theirs = tf.compat.v1.mixed_precision.DynamicLossScale(64.0)
    theirs.update([tf.constant(BAD)])
    theirs.update([tf.constant(GOOD)])
    path = tf.train.Checkpoint(scale=theirs).save(str(tmp_path / "c"))
    ours = DynamicLossScale(64.0)
    tf.train.Checkpoint(scale=ours).restore(path).expect_partial()
    assert (float(ours()), ours.good_steps) == (32.0, 1)
