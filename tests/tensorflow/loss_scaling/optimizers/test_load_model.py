"""A saved model comes back in a process that imports mixdown after Keras, or `mixdown.keras`, and does nothing else."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import keras
import pytest
import tf_keras
from tests.tensorflow.loss_scaling.optimizers import keras3_training as keras3
from tests.tensorflow.loss_scaling.optimizers import tf_keras_training as tf_keras2

SCRIPT = """
import json, sys
{imports}
for library, path in json.loads(sys.argv[1]):
    net = sys.modules[library].models.load_model(path)
    optimizer = net.optimizer
    told = [type(optimizer).__name__, optimizer.skipped_steps, float(optimizer.loss_scale), int(optimizer.iterations)]
    print(json.dumps([*told, [weight.tobytes().hex() for weight in net.get_weights()]]))
"""
FILES = ["keras 3 net.keras", "tf_keras net.keras", "tf_keras net.h5", "legacy net.h5"]


def saved(kind: str, folder: Path) -> tuple[str, list[Any]]:
    """Where a model that was trained a little is, and what must come back."""
    host, name = kind.rsplit(maxsplit=1)
    net = keras3.compiled(keras3.wrapped()) if host == "keras 3" else in_tf_keras(host)
    (keras3 if host == "keras 3" else tf_keras2).fit(net, range(5), bad=(1, 3))
    path = folder / f"{host.replace(' ', '')}-{name}"
    net.save(path)
    optimizer = net.optimizer
    counts = [optimizer.skipped_steps, float(optimizer.loss_scale), int(optimizer.iterations)]
    return str(path), [type(optimizer).__name__, *counts, [each.tobytes().hex() for each in net.get_weights()]]


def in_tf_keras(host: str) -> Any:
    return tf_keras2.compiled(tf_keras2.wrapped(tf_keras2.bare("legacy" if host == "legacy" else "new")))


def run(script: str, *arguments: str) -> Any:
    return subprocess.run(  # noqa: S603 - our own script
        [sys.executable, "-c", script, *arguments],
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "2"},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )


def test_import_mixdown_leaves_the_import_system_alone() -> None:
    done = run("""
import builtins, sys
before = list(sys.meta_path), list(sys.path_hooks), builtins.__import__
import mixdown
assert (list(sys.meta_path), list(sys.path_hooks), builtins.__import__) == before
""")
    assert done.returncode == 0, done.stderr


def test_import_mixdown_keras_registers_with_both_libraries() -> None:
    done = run("""
import mixdown, keras, tf_keras
assert not any(name.startswith("mixdown") for name in keras.utils.get_custom_objects())
import mixdown.keras
for library in (keras, tf_keras):
    print(*sorted(name for name in library.utils.get_custom_objects() if name.startswith("mixdown")))
""")
    known = [
        "mixdown>Keras3LossScaleOptimizer",
        "mixdown>TfKerasLegacyLossScaleOptimizer mixdown>TfKerasLossScaleOptimizer",
    ]
    assert done.stdout.splitlines() == known, done.stderr


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (
            "keras 3 net.keras",
            r"Could not locate class 'Keras3LossScaleOptimizer'.*'to_load': 'import mixdown.keras first, or pass",
        ),
        ("tf_keras net.h5", r"Unknown optimizer: 'mixdown>TfKerasLossScaleOptimizer'"),
    ],
)
@pytest.mark.filterwarnings("ignore:You are saving your model as an HDF5 file")
def test_without_registration_the_message_of_keras_names_what_is_missing(
    kind: str, message: str, tmp_path: Path
) -> None:
    library = "keras" if kind.startswith("keras 3") else "tf_keras"
    path, _ = saved(kind, tmp_path)
    done = run(f"import mixdown, {library}, sys; {library}.models.load_model(sys.argv[1])", path)
    assert done.returncode != 0
    assert re.search(message, done.stderr, re.DOTALL), done.stderr[-4000:]


@pytest.mark.parametrize(
    "imports",
    [
        "import mixdown, keras, tf_keras, mixdown.keras",
        pytest.param("import keras, tf_keras, mixdown", marks=pytest.mark.slow),
    ],
)
@pytest.mark.filterwarnings("ignore:You are saving your model as an HDF5 file")
def test_saved_models_come_back_in_a_new_process(imports: str, tmp_path: Path) -> None:
    expected = [saved(kind, tmp_path) for kind in FILES]
    libraries = ["keras" if kind.startswith("keras 3") else "tf_keras" for kind in FILES]
    asked = json.dumps([(library, path) for library, (path, _) in zip(libraries, expected, strict=True)])
    done = run(SCRIPT.format(imports=imports), asked)
    assert done.returncode == 0, done.stderr[-4000:]
    assert [json.loads(line) for line in done.stdout.splitlines()[-4:]] == [told for _, told in expected]


def test_the_stand_ins_never_replace_the_classes() -> None:
    for library, optimizer in ((keras, keras3.wrapped()), (tf_keras, in_tf_keras("tf_keras").optimizer)):
        name = f"mixdown>{type(optimizer).__name__}"
        assert library.utils.get_custom_objects()[name] is type(optimizer)


def test_import_mixdown_imports_neither_keras_nor_tensorflow() -> None:
    script = "import sys, mixdown; assert not {'keras', 'tf_keras', 'tensorflow'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", script], timeout=60, check=True)  # noqa: S603 - our own script
