"""Reads event files back without TensorBoard."""

from pathlib import Path
from typing import Any

import tensorflow as tf


def events_in(folder: Path) -> list[tuple[str, int, Any]]:
    """(tag, step, number or text) of everything written, in the order of writing."""
    found, plugins = [], dict[str, str]()
    for path in sorted(folder.glob("events.out.tfevents.*")):
        for event in tf.compat.v1.train.summary_iterator(str(path)):
            for value in event.summary.value:
                plugins.setdefault(value.tag, value.metadata.plugin_data.plugin_name)  # TensorBoard reads the first
                found.append((value.tag, event.step, content(value, plugins[value.tag])))
    return found


def content(value: Any, plugin: str) -> Any:
    """What a summary holds, for the plugin of TensorBoard that will read it."""
    if value.HasField("simple_value"):
        return value.simple_value
    held = tf.make_ndarray(value.tensor).item()
    assert plugin == ("text" if isinstance(held, bytes) else "scalars")
    return held.decode() if isinstance(held, bytes) else held


def under(tag: str, found: list[tuple[str, int, Any]]) -> list[tuple[int, Any]]:
    return [(step, value) for name, step, value in found if name == tag]
