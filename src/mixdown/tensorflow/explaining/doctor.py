"""Whether mixed precision acts on this machine, and if not, why not and what to do about it: `examine`."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from typing import Literal, NamedTuple

import tensorflow as tf

from mixdown import __version__
from mixdown.core import Policy
from mixdown.errors import MixdownError
from mixdown.keras3.dtype_policies import mixed_keras_policy
from mixdown.tensorflow import install
from mixdown.tensorflow.calls import call_hook
from mixdown.tensorflow.machine import measurements
from mixdown.tensorflow.machine.gates import TENSOR_CORES_SINCE, capability, closed_gate
from mixdown.tensorflow.runtime.private import missing
from mixdown.tensorflow.runtime.releases import TESTED, is_tested, way_out
from mixdown.tensorflow.sessions import hook

OWN_PASS = ("TF_ENABLE_AUTO_MIXED_PRECISION", "TF_ENABLE_AUTO_MIXED_PRECISION_GRAPH_REWRITE")
"""Variables that make TensorFlow rewrite graphs itself."""

LISTS = "TF_AUTO_MIXED_PRECISION_GRAPH_REWRITE_"
"""The variables that change the lists of TensorFlow's own rewrite begin with this."""


class Finding(NamedTuple):
    """What was found out about one subject."""

    subject: str
    state: Literal["ok", "note", "problem"]
    message: str
    way_out: str = ""


def examine(policy: Policy) -> list[Finding]:
    """Examine versions, devices, gates, hooks and known conflicts."""
    return [*_versions(), *_devices(policy), *_speeds(policy), _gate(policy), _hooks(), *_keras(), *_own_rewrite()]


def _versions() -> Iterator[Finding]:
    yield Finding("python", "ok", platform.python_version())
    yield Finding("mixdown", "ok", __version__)
    yield _tensorflow()
    for package in ("keras", "tf_keras", "numpy", "rich"):
        try:
            yield Finding(package, "ok", version(package))
        except PackageNotFoundError:
            yield Finding(package, "note", "not installed")


def _tensorflow() -> Finding:
    if not is_tested(tf.__version__):
        return Finding("tensorflow", "problem", f"{tf.__version__} is not tested", f"use TensorFlow {TESTED}")
    if gone := missing():
        return Finding("tensorflow", "problem", f"{tf.__version__}: {' '.join(gone)}", way_out())
    return Finding("tensorflow", "ok", tf.__version__)


def _devices(policy: Policy) -> Iterator[Finding]:
    for device in tf.config.list_physical_devices():
        subject = f"device {device.name.removeprefix('/physical_device:')}"
        if not policy.admits(device.device_type):
            yield Finding(subject, "note", "left alone by the policy")
        elif device.device_type != "GPU" or policy.devices == "all":
            yield Finding(subject, "ok", "takes part")
        else:
            found = capability(device)
            version, old = f"compute capability {'.'.join(map(str, found))}", found < TENSOR_CORES_SINCE
            yield Finding(subject, "note" if old else "ok", f"{version}, too old" if old else f"takes part, {version}")


def _speeds(policy: Policy) -> Iterator[Finding]:
    """What was measured, by type of device."""
    for kind, name in measurements.described().items():
        subject = f"speed of {kind} in {policy.low}"
        try:
            found = measurements.measured(kind)
        except MixdownError as error:
            yield Finding(subject, "problem", str(error))
            continue
        if found is None:
            yield Finding(subject, "note", f"{name} was not measured", "mixdown doctor --measure")
        else:
            slower = ", ".join(f"{family} ({mode})" for family, mode in found.slower(policy.low))
            yield Finding(subject, "ok", f"{name}: " + (f"slower than float32 in {slower}" if slower else "gains"))


def _gate(policy: Policy) -> Finding:
    gate = closed_gate(policy)
    if gate is None:
        return Finding("gate", "ok", "open: mixed precision acts here")
    measure = "mixdown doctor --measure"
    widen = f"to let the CPU take part, pass policy=mixdown.Policy(low={policy.low!r}, devices=('GPU', 'CPU'))"
    way_out = measure if policy.devices == "measured" else widen
    return Finding("gate", "problem", f"closed: {gate}", way_out)


def _hooks() -> Finding:
    """Whether calls really pass through the hooks; they are removed again if they were not installed before."""
    before = call_hook.installed()
    try:
        install.install()
    except MixdownError as error:
        return Finding("call boundary", "problem", str(error))
    if not before:
        call_hook.uninstall()
        hook.uninstall()
    return Finding("call boundary", "ok", "functions are called where mixdown expects it")


def _own_rewrite() -> Iterator[Finding]:
    for name in OWN_PASS:
        if os.environ.get(name, "").lower() not in ("", "0", "false"):
            message = "TensorFlow's own rewrite is on, too: both would choose precisions"
            yield Finding(name, "problem", message, f"unset {name}")
    if tf.config.optimizer.get_experimental_options().get("auto_mixed_precision"):
        way_out = "call tf.config.optimizer.set_experimental_options({'auto_mixed_precision': False})"
        yield Finding("auto_mixed_precision", "problem", "TensorFlow's own rewrite is on, too", way_out)
    for name in sorted(os.environ):
        if name.startswith(LISTS):
            yield Finding(name, "note", "only has an effect through mixdown.Policy.from_environment()")


def _keras() -> Iterator[Finding]:
    if find_spec("keras") is not None:
        backend = import_module("keras").backend.backend()
        if backend != "tensorflow":
            message = f"Keras runs on {backend}: the rewrite sees TensorFlow graphs only"
            yield Finding("KERAS_BACKEND", "problem", message, "set KERAS_BACKEND=tensorflow")
    if policy := mixed_keras_policy():
        message = f"{policy} mixes precisions already: both would choose"
        yield Finding("Keras dtype policy", "problem", message, "keras.config.set_dtype_policy('float32')")
    if os.environ.get("TF_USE_LEGACY_KERAS", "") in ("1", "true", "True") and find_spec("tf_keras") is None:
        yield Finding("TF_USE_LEGACY_KERAS", "problem", "set, but tf_keras is not installed", "pip install tf_keras")
