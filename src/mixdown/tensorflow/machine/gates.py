"""What keeps mixed precision from acting: devices that cannot gain (`closed_gate`)."""

from typing import Any

import tensorflow as tf

from mixdown.core import Policy

TENSOR_CORES_SINCE = (7, 0)
"""The compute capability from which NVIDIA GPUs run float16 faster than float32."""


def closed_gate(policy: Policy) -> str | None:
    """Why no device of this machine runs anything in 16 bits under a policy, None if one does."""
    if policy.devices == "all":
        return None
    reasons = [_obstacle(kind) for kind in policy.devices]
    if None in reasons:
        return None
    return " and ".join(reason for reason in reasons if reason)


def gate_warning(policy: Policy, gate: str) -> str:
    """The warning for a machine on which `closed_gate` names a reason."""
    return (
        f"Mixed precision has no effect here: {gate}. Everything runs in float32. To let the CPU take part, for tests "
        f"or to save memory, pass policy=mixdown.Policy(low={policy.low!r}, devices=('GPU', 'CPU'))."
    )


def _obstacle(kind: str) -> str | None:
    """Why devices of a type run nothing in 16 bits, None if they do."""
    devices = tf.config.list_physical_devices(kind)
    if not devices:
        return f"there is no {kind}"
    if kind != "GPU":
        return None
    found = [capability(device) for device in devices]
    if max(found) >= TENSOR_CORES_SINCE:
        return None
    versions = ", ".join(".".join(map(str, each)) for each in found)
    return f"the GPU has compute capability {versions}, and float16 is fast from 7.0 on"


def capability(device: Any) -> tuple[int, ...]:
    """The compute capability of a GPU; one that does not report it is taken to be new."""
    return tuple(tf.config.experimental.get_device_details(device).get("compute_capability") or TENSOR_CORES_SINCE)
