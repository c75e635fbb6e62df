"""Releases of TensorFlow that mixdown does not know are refused before anything is patched."""

from __future__ import annotations

import keras
import pytest
import tensorflow as tf

import mixdown
from mixdown.tensorflow.calls import call_hook
from mixdown.tensorflow.runtime import releases
from mixdown.tensorflow.runtime.private import Context
from mixdown.tensorflow.sessions import hook

EVERYWHERE = mixdown.Policy(devices="all")
TESTED = ("2.16.0", "2.16.2", "2.18.1", "2.21.0", "2.21.7", "2.17.0+nv24.11")
UNTESTED = ("2.15.1", "2.22.0", "3.0.0", "1.15.5", "2.21.0rc1", "2.21.0-rc1", "2.22.0-dev20261116", "2.20.0.dev1", "x")


@pytest.mark.parametrize("version", TESTED)
def test_tested_releases_are_known(version: str) -> None:
    assert releases.is_tested(version)


@pytest.mark.parametrize("version", UNTESTED)
def test_an_unknown_release_is_refused_and_nothing_is_patched(version: str, monkeypatch: pytest.MonkeyPatch) -> None:
    call_hook.uninstall()
    hook.uninstall()
    before = Context.call_function
    monkeypatch.setattr(tf, "__version__", version)
    monkeypatch.delenv(releases.VARIABLE, raising=False)
    for start in (
        lambda: mixdown.enable_mixed_precision_graph_rewrite(keras.optimizers.SGD(), policy=EVERYWHERE),
        lambda: mixdown.rewriting(EVERYWHERE).__enter__(),
    ):
        with pytest.raises(mixdown.MixdownError) as refused:
            start()
        assert str(refused.value) == (
            f"TensorFlow {version} is not one of the releases that mixdown is tested with (2.16 to 2.21): nothing was "
            f"changed. Use TensorFlow 2.16 to 2.21: pip install 'tensorflow>=2.16,<2.22'. To try it all the same, set "
            f"MIXDOWN_ALLOW_UNTESTED=1."
        )
    assert Context.call_function is before


def test_an_unknown_release_can_be_tried_with_one_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    call_hook.uninstall()
    monkeypatch.setattr(tf, "__version__", "2.22.0")
    monkeypatch.setenv(releases.VARIABLE, "1")
    with pytest.warns(
        mixdown.MixdownWarning, match=r"2.22.0 is not tested with mixdown \(2.16 to 2.21 are\)"
    ) as warned:
        assert doubled() == float("inf")
    assert len(warned) == 1


def doubled() -> float:
    """300 * 300, finite in float32 only, with hooks put in twice."""
    large = tf.constant([[300.0]])
    with mixdown.rewriting(EVERYWHERE), mixdown.rewriting(EVERYWHERE):
        return float(tf.function(tf.matmul)(large, large)[0, 0])


def test_another_value_of_the_variable_is_no_leave(monkeypatch: pytest.MonkeyPatch) -> None:
    call_hook.uninstall()
    monkeypatch.setattr(tf, "__version__", "2.22.0")
    monkeypatch.setenv(releases.VARIABLE, "0")
    with pytest.raises(mixdown.MixdownError, match="nothing was changed"), mixdown.rewriting(EVERYWHERE):
        pass
