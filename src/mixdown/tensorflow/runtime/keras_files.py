"""Models in `.keras` and `.h5` files, by the Keras that wrote them: `loaded`, and as a SavedModel: `exported`."""

import zipfile
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from importlib import import_module
from importlib.util import find_spec
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from mixdown.errors import GraphError
from mixdown.keras_registration import register
from mixdown.untrusted.json_text import parsed

METADATA = "metadata.json"
"""The file in a .keras file that says which Keras wrote it."""

MOST = 10_000
"""So many bytes of it are read: whatever a file unpacks to, Keras writes less than a hundred."""


def loaded(path: Path, *, compiled: bool = False) -> Any:
    """The model in a file of Keras 3 or tf_keras; if `compiled`, with its optimizer, which mixdown may have wrapped."""
    is_old = _written_by(path).startswith("2.") and find_spec("tf_keras") is not None
    library = import_module("tf_keras" if is_old else "keras")
    register()  # files that were trained with mixdown name its optimizers
    backend = getattr(library.backend, "backend", lambda: "tensorflow")()
    if backend != "tensorflow":
        raise GraphError(f"Keras runs on {backend} here, so {str(path)!r} has no TensorFlow graph.")
    try:
        return library.models.load_model(path, compile=compiled)
    except Exception as error:
        raise GraphError(
            f"{library.__name__} cannot load {str(path)!r}: {_cause(error)} If it has layers of your own, load it "
            f"yourself, {library.__name__}.models.load_model(path, custom_objects=...), and give the model."
        ) from error


@contextmanager
def exported(path: Path) -> Iterator[Path]:
    """A folder with the SavedModel that Keras exports a file's model as, for as long as the block lasts."""
    model = loaded(path)
    with TemporaryDirectory() as folder:
        saved = Path(folder, "exported")
        try:
            with redirect_stdout(StringIO()):  # it lists the signatures
                model.export(saved)
        except Exception as error:
            raise GraphError(
                f"Keras cannot export {str(path)!r}: {_cause(error)} Export it yourself, model.export(folder), and "
                f"convert that."
            ) from error
        yield saved


def _cause(error: Exception) -> str:
    """The first line of an error of Keras's; of one that tells of another, that of the other."""
    return str(error).rpartition("Exception encountered: ")[2].strip().partition("\n")[0][:300]


def _written_by(path: Path) -> str:
    """The version of Keras that a file names; "" if it names none."""
    try:
        if path.suffix != ".keras":
            with import_module("h5py").File(path, "r") as file:
                return str(file.attrs.get("keras_version", ""))
        with zipfile.ZipFile(path) as archive, archive.open(METADATA) as file:
            return str(parsed(file.read(MOST).decode()).get("keras_version", ""))
    except (OSError, ValueError, KeyError, AttributeError, zipfile.BadZipFile):
        return ""  # Keras will say what is wrong with it
