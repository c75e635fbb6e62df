"""`mixdown doctor`: what it finds, what it advises, and its exit codes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
import tensorflow as tf

from mixdown import cli
from mixdown.core import Policy
from mixdown.errors import MixdownError
from mixdown.reports.findings import Finding, at_first_sight
from mixdown.tensorflow.calls import call_hook
from mixdown.tensorflow.explaining import doctor

if TYPE_CHECKING:
    from collections.abc import Callable

EVERYWHERE = ["doctor", "--devices", "all"]


def findings() -> dict[str, Finding]:
    found = [*at_first_sight("1.2.3"), *doctor.examine(Policy(devices="all"))]
    return {each.subject: each for each in found}


def test_versions_devices_gate_and_boundary_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(EVERYWHERE) == 0
    said = capsys.readouterr().out
    assert f"ok   tensorflow: {tf.__version__}\n" in said
    assert "ok   device CPU:0: takes part\n" in said
    assert "ok   gate: open: mixed precision acts here\n" in said
    assert "ok   call boundary: " in said


@pytest.mark.skipif(bool(tf.config.list_physical_devices("GPU")), reason="there is a GPU: the gate is open")
def test_a_closed_gate_is_a_problem_with_the_way_to_open_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["doctor", "--low", "bfloat16"]) == 1
    said = capsys.readouterr().out
    assert "note device CPU:0: left alone by the policy\n" in said
    assert "!!   gate: closed: there is no GPU\n" in said
    assert "policy=mixdown.Policy(low='bfloat16', devices=('GPU', 'CPU'))" in said


def test_json_says_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([*EVERYWHERE, "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert (data["schema"], data["healthy"]) == ("mixdown-doctor/1", True)
    found = [Finding(**each) for each in data["findings"]]
    assert [each.subject for each in found] == list(findings())


def test_looking_leaves_no_hook_behind() -> None:
    before = call_hook.installed()
    doctor.examine(Policy(devices="all"))
    assert call_hook.installed() == before


def mixed_keras(_: pytest.MonkeyPatch) -> Callable[[], None]:
    tf.keras.config.set_dtype_policy("mixed_float16")
    return lambda: tf.keras.config.set_dtype_policy("float32")


def setting(name: str, value: str) -> Callable[[pytest.MonkeyPatch], None]:
    return lambda monkeypatch: monkeypatch.setenv(name, value)


def own_pass(_: pytest.MonkeyPatch) -> Callable[[], None]:
    tf.config.optimizer.set_experimental_options({"auto_mixed_precision": True})
    return lambda: tf.config.optimizer.set_experimental_options({"auto_mixed_precision": False})


def other_version(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tf, "__version__", "2.99.0")


def moved_boundary(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails() -> None:
        raise MixdownError("TensorFlow 2.99 does not call functions where mixdown expects it.")

    monkeypatch.setattr("mixdown.tensorflow.install.install", fails)


def other_backend(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("keras.backend.backend", lambda: "jax")


def no_tf_keras(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TF_USE_LEGACY_KERAS", "1")
    monkeypatch.setattr("mixdown.reports.findings.find_spec", lambda name: None if name == "tf_keras" else True)


CONFLICTS: dict[str, tuple[Any, str, str, str]] = {
    "a mixed Keras policy": (mixed_keras, "Keras dtype policy", "keras's mixed_float16 mixes", "set_dtype_policy"),
    "a variable": (
        setting("TF_ENABLE_AUTO_MIXED_PRECISION", "1"),
        "TF_ENABLE_AUTO_MIXED_PRECISION",
        "own rewrite is on",
        "unset TF_ENABLE_AUTO_MIXED_PRECISION",
    ),
    "TensorFlow's own pass": (own_pass, "auto_mixed_precision", "own rewrite is on", "set_experimental_options"),
    "an untested version": (other_version, "tensorflow", "2.99.0 is not tested", "use TensorFlow 2.16 to 2.21"),
    "a moved boundary": (moved_boundary, "call boundary", "does not call functions where", ""),
    "another backend": (other_backend, "KERAS_BACKEND", "Keras runs on jax", "KERAS_BACKEND=tensorflow"),
    "no tf_keras": (no_tf_keras, "TF_USE_LEGACY_KERAS", "tf_keras is not installed", "pip install tf_keras"),
}


@pytest.mark.parametrize("case", CONFLICTS)
def test_a_known_conflict_is_a_problem_with_a_way_out(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    cause, subject, message, way_out = CONFLICTS[case]
    undo = cause(monkeypatch)
    try:
        found = findings()[subject]
    finally:
        if undo:
            undo()
    assert found.state == "problem"
    assert message in found.message
    assert way_out in found.way_out


def test_variables_without_an_effect_are_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    name = "TF_AUTO_MIXED_PRECISION_GRAPH_REWRITE_DENYLIST_ADD"
    monkeypatch.setenv(name, "Exp")
    assert (findings()[name].state, "from_environment" in findings()[name].message) == ("note", True)


def test_a_machine_without_tensorflow_is_told_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for home in ("mixdown.cli.doctor", "mixdown.reports.findings"):
        monkeypatch.setattr(f"{home}.find_spec", lambda _: None)
    assert cli.main(["doctor"]) == 1
    said = capsys.readouterr().out
    assert said.endswith("!!   tensorflow: not installed\n       pip install 'mixdown[tensorflow]'\n")
    assert said.startswith("ok   python: ")


def test_what_needs_no_tensorflow_is_printed_before_it_is_loaded(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def loading() -> None:
        assert "ok   mixdown: " in capsys.readouterr().out
        raise MixdownError("TensorFlow is being loaded.")

    monkeypatch.setattr("mixdown.cli.doctor.start_tensorflow", loading)
    assert cli.main(["doctor"]) == 2
    assert capsys.readouterr().err == "mixdown: TensorFlow is being loaded.\n"
