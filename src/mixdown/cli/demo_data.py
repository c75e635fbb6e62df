"""Images with labels for the demonstration: bundled, downloaded by Keras, or from a file. Start with `load`."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import NamedTuple
from zipfile import BadZipFile, ZipFile
from zlib import error

import numpy as np

from mixdown.errors import MixdownError

KERAS = {"cifar10": "cifar10", "fashion-mnist": "fashion_mnist"}
"""Names of data sets -> their modules in `keras.datasets`."""

ARRAYS = ("x_train", "y_train", "x_test", "y_test")
DIMENSIONS = (3, 4)  # of images, without or with channels
LARGEST = 2**32
"""Bytes: the demonstration is for small data."""


class Data(NamedTuple):
    """Images, whose values lie between 0 and 1, and their labels."""

    x_train: np.ndarray
    y_train: np.ndarray
    x_test: np.ndarray
    y_test: np.ndarray

    @property
    def classes(self) -> int:
        """How many different labels there are."""
        return int(self.y_train.max()) + 1


def load(name: str) -> Data:
    """The data set of that name, or the arrays x_train, y_train, x_test and y_test of an `.npz` file.

    Raises:
        MixdownError: there is no such data set or file, or what it needs is not installed.
    """
    if name == "digits":
        return _prepared(*_digits())
    if name in KERAS:
        (x_train, y_train), (x_test, y_test) = import_module(f"keras.datasets.{KERAS[name]}").load_data()
        return _prepared(x_train, y_train, x_test, y_test)
    return _prepared(*_from_file(Path(name)))


def _digits() -> tuple[np.ndarray, ...]:
    try:
        found = import_module("sklearn.datasets").load_digits()
    except ImportError:
        raise MixdownError("The digits come with scikit-learn: pip install 'mixdown[demo]'.") from None
    order = np.random.default_rng(0).permutation(len(found.target))
    images, labels = found.images[order], found.target[order]
    fifth = len(order) // 5
    return images[fifth:], labels[fifth:], images[:fifth], labels[:fifth]


def _from_file(path: Path) -> tuple[np.ndarray, ...]:
    if not path.is_file():
        known = ", ".join(("digits", *KERAS))
        raise MixdownError(f"There is no data set {str(path)!r}: give {known}, or an .npz file.")
    try:
        _refuse_large(path)
        with np.load(path, allow_pickle=False) as arrays:
            return _fit(*(arrays[name] for name in ARRAYS))
    except (OSError, EOFError, ValueError, KeyError, MemoryError, BadZipFile, NotImplementedError, error) as wrong:
        raise MixdownError(
            f"{str(path)!r} must be an .npz file with the arrays {', '.join(ARRAYS)}: {wrong}."
        ) from None


def _fit(*arrays: np.ndarray) -> tuple[np.ndarray, ...]:
    """The arrays, if they are images and as many labels, for training and for testing."""
    for images, labels in (arrays[:2], arrays[2:]):
        numbers = images.dtype.kind in "biuf" and labels.dtype.kind in "biuf"
        if not numbers or images.ndim not in DIMENSIONS or not 0 < len(images) == labels.size:
            raise ValueError("images have three or four dimensions, labels one, and there are as many of both")
    return arrays


def _refuse_large(path: Path) -> None:
    """Refuse what would fill the memory once it is unpacked."""
    with ZipFile(path) as archive:
        size = sum(each.file_size for each in archive.infolist())
    if size > LARGEST:
        raise ValueError(f"unpacked it has {size} bytes, more than {LARGEST}")


def _prepared(x_train: np.ndarray, y_train: np.ndarray, x_test: np.ndarray, y_test: np.ndarray) -> Data:
    largest = max(float(x_train.max()), 1.0)
    labels = [part.ravel().astype("int32") for part in (y_train, y_test)]
    return Data(_images(x_train, largest), labels[0], _images(x_test, largest), labels[1])


def _images(part: np.ndarray, largest: float) -> np.ndarray:
    with_channels = part if part.ndim == len(("batch", "height", "width", "channels")) else part[..., None]
    return (with_channels / largest).astype("float32")
