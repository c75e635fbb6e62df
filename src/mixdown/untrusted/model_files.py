"""What kind of model lies at a path, found out without a framework: `kind_of`. Commands ask it before they load one."""

import os
import zipfile
from collections.abc import Collection
from pathlib import Path
from typing import Literal

from mixdown.errors import GraphError, MixdownError

SAVED_MODEL, SAVED_MODEL_TEXT, SAVED_MODEL_CHUNKS = "saved_model.pb", "saved_model.pbtxt", "saved_model.cpb"

HDF5 = b"\x89HDF\r\n\x1a\n"
"""How every .h5 file begins."""

H5_ENDINGS = (".h5", ".hdf5")

Kind = Literal["SavedModel", "GraphDef", "Keras"]


def kind_of(path: Path) -> Kind:
    """What kind of model lies at a path, as far as names and first bytes tell; a `GraphError` if there is none."""
    if is_dir(path):
        saved_model_file(path)
        return "SavedModel"
    if not is_file(path):
        raise GraphError(
            f"There is no model at {str(path)!r}: give a SavedModel's folder, or a .keras, .h5, .pb or .pbtxt file."
        )
    if path.suffix not in (".keras", *H5_ENDINGS):
        return "GraphDef"
    if path.suffixes[-2:-1] == [".weights"]:
        raise GraphError(
            f"{str(path)!r} holds weights without a model: build the model, load them, and give the model."
        )
    try:
        is_one = zipfile.is_zipfile(path) if path.suffix == ".keras" else _begins(path, HDF5)
    except OSError as error:
        raise GraphError(f"{str(path)!r} cannot be read: {error.strerror}.") from None
    if not is_one:
        raise GraphError(f"{str(path)!r} is no Keras model: what is in it is not a {path.suffix} file.")
    return "Keras"


def saved_model_folder(path: Path) -> Path:
    """The folder of a SavedModel, if the path is that of the file in it; else the path."""
    return path.parent if path.name in (SAVED_MODEL, SAVED_MODEL_TEXT) else path


def saved_model_file(folder: Path) -> Path:
    """The file that holds a SavedModel's graphs; a `GraphError` if there is none, or if it is split into several."""
    for name in (SAVED_MODEL, SAVED_MODEL_TEXT):
        if (folder / name).is_file():
            return folder / name
    if (folder / SAVED_MODEL_CHUNKS).is_file():
        raise GraphError(
            f"The SavedModel in {str(folder)!r} is split into chunks ({SAVED_MODEL_CHUNKS}): save it in one piece."
        )
    raise GraphError(f"There is no SavedModel in {str(folder)!r}: it has neither {SAVED_MODEL} nor {SAVED_MODEL_TEXT}.")


def refuse_signatures(path: Path, signatures: Collection[str]) -> None:
    """Refuse to look for signatures where there are none."""
    if signatures:
        raise GraphError(f"{path} is no SavedModel, so it has no signatures.")


def refuse_target(source: Path, target: Path, *, overwrite: bool) -> None:
    """Refuse a place where a converted model must not or cannot go: in its source, on something else, a Keras file."""
    if source.resolve() in (target.resolve(), *target.resolve().parents):
        raise MixdownError(f"{str(target)!r} lies in the model to convert: write the converted model somewhere else.")
    if target.suffix in (".keras", *H5_ENDINGS):
        raise MixdownError(
            f"{str(target)!r} names a Keras file, which holds layers and no graph that could be converted. "
            "A converted Keras model is a SavedModel: give the name of a folder."
        )
    refuse_taken(target, overwrite=overwrite)


def refuse_taken(target: Path, *, overwrite: bool) -> None:
    """Refuse a place where there is something already, unless it may be overwritten."""
    if target.exists() and not overwrite:
        raise MixdownError(f"{str(target)!r} exists already. Choose another name, or say overwrite (--overwrite).")


def is_file(path: Path) -> bool:
    """Whether there is such a file; False for a name that no file can have."""
    return os.path.isfile(path)  # noqa: PTH113 - Path.is_file raises on a name that is too long


def is_dir(path: Path) -> bool:
    """Whether there is such a folder; False for a name that no folder can have."""
    return os.path.isdir(path)  # noqa: PTH112 - Path.is_dir raises on a name that is too long


def _begins(path: Path, magic: bytes) -> bool:
    with path.open("rb") as file:
        return file.read(len(magic)) == magic
