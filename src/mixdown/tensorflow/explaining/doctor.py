"""Whether mixed precision acts on this machine, and if not, why not and what to do about it: `examine`."""

from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec

import tensorflow as tf

from mixdown.core import Policy
from mixdown.errors import MixdownError
from mixdown.keras3.either_keras import mixed_keras_policy
from mixdown.reports.findings import Finding
from mixdown.tensorflow import install
from mixdown.tensorflow.calls import call_hook
from mixdown.tensorflow.machine.gates import TENSOR_CORES_SINCE, capability, closed_gate
from mixdown.tensorflow.runtime.private import missing
from mixdown.tensorflow.runtime.releases import TESTED, WAYS_OUT, is_tested
from mixdown.tensorflow.sessions import hook


def examine(policy: Policy) -> list[Finding]:
    """Examine TensorFlow's release, devices, gates, hooks and known conflicts; `findings` has the rest."""
    return [_tensorflow(), *_devices(policy), _gate(policy), _hooks(), *_conflicts()]


def _tensorflow() -> Finding:
    if not is_tested(tf.__version__):
        return Finding("tensorflow", "problem", f"{tf.__version__} is not tested", f"use TensorFlow {TESTED}")
    if gone := missing():
        return Finding("tensorflow", "problem", f"{tf.__version__}: {' '.join(gone)}", WAYS_OUT["tensorflow"])
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


def _gate(policy: Policy) -> Finding:
    gate = closed_gate(policy)
    if gate is None:
        return Finding("gate", "ok", "open: mixed precision acts here")
    widen = f"to let the CPU take part, pass policy=mixdown.Policy(low={policy.low!r}, devices=('GPU', 'CPU'))"
    return Finding("gate", "problem", f"closed: {gate}", widen)


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


def _conflicts() -> Iterator[Finding]:
    if find_spec("keras") is not None:
        backend = import_module("keras").backend.backend()
        if backend != "tensorflow":
            message = f"Keras runs on {backend}: the rewrite sees TensorFlow graphs only"
            yield Finding("KERAS_BACKEND", "problem", message, "set KERAS_BACKEND=tensorflow")
    if policy := mixed_keras_policy():
        message = f"{policy} mixes precisions already: both would choose"
        yield Finding("Keras dtype policy", "problem", message, "keras.config.set_dtype_policy('float32')")
    if tf.config.optimizer.get_experimental_options().get("auto_mixed_precision"):
        way_out = "call tf.config.optimizer.set_experimental_options({'auto_mixed_precision': False})"
        yield Finding("auto_mixed_precision", "problem", "TensorFlow's own rewrite is on, too", way_out)
