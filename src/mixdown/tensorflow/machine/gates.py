"""Which devices of this machine may run low, and which gate is closed if none may."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import tensorflow as tf

from mixdown.tensorflow.machine.devices import machine_default
from mixdown.tensorflow.machine.measurements import measured

if TYPE_CHECKING:
    from mixdown.core import Policy

TENSOR_CORES_SINCE = (7, 0)
"""The compute capability from which NVIDIA GPUs run float16 faster than float32."""


def closed_gate(policy: Policy) -> str | None:
    """Why no device of this machine takes part under a policy, None if one does."""
    if policy.devices == "all":
        return None
    if policy.devices == "measured":
        return None if measured(machine_default()) else f"the {machine_default()} of this machine was not measured yet"
    reasons = [_obstacle(kind) for kind in policy.devices]
    if None in reasons:
        return None
    return " and ".join(reason for reason in reasons if reason)


def gate_warning(policy: Policy, gate: str) -> str:
    """What to tell a user whose machine does not take part."""
    if policy.devices == "measured":
        return f"Mixed precision has no effect here: {gate}. Run `mixdown doctor --measure` once on this machine."
    return (
        f"Mixed precision has no effect here: {gate}. Everything runs in float32. To let the CPU take part, for tests "
        f"or to save memory, pass policy=mixdown.Policy(low={policy.low!r}, devices=('GPU', 'CPU'))."
    )


def _obstacle(kind: str) -> str | None:
    """Why devices of a type do not take part, None if they do."""
    devices = tf.config.list_physical_devices(kind)
    if not devices:
        return f"there is no {kind}"
    if kind != "GPU":
        return None
    slow = [device for device in devices if _capability(device) < TENSOR_CORES_SINCE]
    if len(slow) < len(devices):
        return None
    versions = ", ".join(".".join(map(str, _capability(device))) for device in slow)
    return f"the GPU has compute capability {versions}, and float16 is fast from 7.0 on"


def _capability(device: Any) -> tuple[int, ...]:
    """The compute capability of a GPU; one that does not tell is taken to be new."""
    return tuple(tf.config.experimental.get_device_details(device).get("compute_capability") or TENSOR_CORES_SINCE)
