"""The timings of `mixdown doctor --measure`, stored per machine: `store` and `measured`.

The file lies in the user's cache folder, or where MIXDOWN_MEASUREMENTS says, under a name that depends on the
machine's devices and on TensorFlow's version: a home folder may be shared by many machines.
"""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Mapping
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import Any

import tensorflow as tf

from mixdown.core.pricing.machines import MACHINES, Machine
from mixdown.core.pricing.measured import Measured
from mixdown.errors import MeasurementError, PolicyError
from mixdown.rules.spellings import MEASURED_DEVICES, choose
from mixdown.tensorflow.machine.devices import machine_default

SCHEMA = "mixdown-measured/1"
VARIABLE = "MIXDOWN_MEASUREMENTS"
LARGEST = 1_000_000
"""Bytes: a larger file was not written by `store`."""


def measured(device_type: str) -> Measured | None:
    """The timings of this machine's devices of a type, None if they were not measured.

    Raises:
        MeasurementError: the file is there but cannot be used.
    """
    path = place()
    try:
        stamp = path.stat().st_mtime_ns
    except OSError:
        return None
    return _read(path, stamp).get(device_type)


def machine_of(name: str) -> Machine | Measured:
    """The machine of a name in `MACHINES`, or this one, "measured".

    Raises:
        PolicyError: there is none of that name, or this one was not measured.
    """
    if name != MEASURED_DEVICES:
        choose("device", name, (*MACHINES, MEASURED_DEVICES))
        return MACHINES[name]
    if (found := measured(machine_default())) is None:
        raise PolicyError("This machine was not measured yet: run `mixdown doctor --measure` once.")
    return found


def store(found: Mapping[str, Measured]) -> Path:
    """Write timings by device type, atomically: another process reads either the old file or the new one."""
    path = place()
    path.parent.mkdir(parents=True, exist_ok=True)
    data = {"schema": SCHEMA, "machine": described(), "devices": {kind: one.to_dict() for kind, one in found.items()}}
    draft = path.with_suffix(f".{os.getpid()}")
    draft.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
    draft.replace(path)
    return path


def place() -> Path:
    """The file for this machine."""
    folder = os.environ.get(VARIABLE) or Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "mixdown"
    named = json.dumps([described(), tf.__version__])
    return Path(folder) / f"measured-{blake2b(named.encode(), digest_size=8).hexdigest()}.json"


@cache
def described() -> dict[str, str]:
    """The devices of this machine by type, with the names that their makers gave them."""
    kinds = sorted({device.device_type for device in tf.config.list_physical_devices()} & {"CPU", "GPU", "TPU"})
    return {kind: _name(kind) for kind in kinds}


def _name(kind: str) -> str:
    if kind == "CPU":
        return f"{_processor()}, {os.cpu_count()} cores"
    device = tf.config.list_physical_devices(kind)[0]
    return str(tf.config.experimental.get_device_details(device).get("device_name", kind))


def _processor() -> str:
    """The model of the CPU, on Linux from /proc/cpuinfo."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    named = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return named[0] if named else platform.processor() or platform.machine()


@cache
def _read(path: Path, _stamp: int) -> dict[str, Measured]:
    try:
        if path.stat().st_size > LARGEST:
            raise MeasurementError(f"it has more than {LARGEST} bytes")
        data: Any = json.loads(path.read_text(encoding="utf-8"))
        if data["schema"] != SCHEMA:
            raise MeasurementError(f"it is {data['schema']!r}, not {SCHEMA!r}")
        return {kind: Measured.from_dict(one) for kind, one in data["devices"].items()}
    except (OSError, ValueError, OverflowError, RecursionError, KeyError, TypeError, AttributeError) as error:
        raise MeasurementError(
            f"The measurement in {path} cannot be used: {error}. Measure again with `mixdown doctor --measure`."
        ) from None
