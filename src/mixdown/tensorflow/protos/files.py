"""Read protos from files, and copy model folders, that may come from anywhere: `proto_in` and `copied`."""

import os
import shutil
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from google.protobuf import text_format  # type: ignore[import-untyped]  # its types are a package of their own
from google.protobuf.message import DecodeError, EncodeError  # type: ignore[import-untyped]  # likewise
from tensorflow.core.protobuf import saved_model_pb2

from mixdown.errors import GraphError, MixdownError
from mixdown.untrusted.model_files import saved_model_file

TEXT_ENDING = ".pbtxt"


def proto_in(path: Path, kind: Any, complaint: str) -> Any:
    """The message of a kind in a file, as text if its name ends in `.pbtxt`.

    If the file holds something else, the error message goes on with the complaint, after the path.
    """
    try:
        if path.suffix == TEXT_ENDING:
            # Serialize and parse once more: only the binary form limits how deeply messages nest.
            return kind.FromString(text_format.Parse(path.read_text("utf-8"), kind()).SerializeToString())
        return kind.FromString(path.read_bytes())
    except OSError as error:
        raise GraphError(f"{str(path)!r} cannot be read: {error.strerror}.") from None
    except RecursionError:
        raise GraphError(f"{str(path)!r} {complaint}: it nests too deeply.") from None
    except (DecodeError, EncodeError, text_format.ParseError, UnicodeDecodeError) as error:
        raise GraphError(f"{str(path)!r} {complaint}: {error}.") from None


def saved_model_in(folder: Path) -> Any:
    """The SavedModel in a folder, as a message with at least one graph."""
    file = saved_model_file(folder)
    try:
        model = proto_in(file, saved_model_pb2.SavedModel, "holds no SavedModel")
    except GraphError as broken:
        raise GraphError(f"The SavedModel in {str(folder)!r} is broken: {broken}") from None
    if not model.meta_graphs:
        raise GraphError(f"The SavedModel in {str(folder)!r} is broken: there is no graph in it.")
    return model


def copied(source: Path, target: Path, ignored: Callable[[str, list[str]], set[str]]) -> None:
    """Copy a folder; one that holds anything but files and folders of its own is refused."""
    home = source.resolve()
    for folder, folders, files in os.walk(home):
        for name in (*folders, *files):
            _refuse_strange(home, home.joinpath(folder, name))
    with telling(f"The model in {str(source)!r} cannot be copied", OSError):
        shutil.copytree(home, target, ignore=ignored)


@contextmanager
def telling(what: str, *errors: type[Exception]) -> Iterator[None]:
    """Turn errors, whose messages may name no file or a wrong one, into one that begins with what cannot be done."""
    try:
        yield
    except errors as error:
        raise MixdownError(f"{what}: {error}.") from None


def _refuse_strange(home: Path, path: Path) -> None:
    """Refuse a link, which could lead to any file of this machine or in a circle, and a pipe, which could never end."""
    try:
        inside, mode = path.resolve().is_relative_to(home), path.stat().st_mode
        circle = path.is_symlink() and path.is_dir()
    except (OSError, RuntimeError):  # it leads nowhere, or in a circle
        inside, mode, circle = False, 0, False
    if not inside or circle:
        raise MixdownError(
            f"{str(path)!r} is a link that leads out of the model, nowhere, or to a folder: "
            f"convert a copy without links (cp -rL)."
        )
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        raise MixdownError(f"{str(path)!r} is neither a file nor a folder: a model has nothing else.")
