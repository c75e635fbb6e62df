"""The corpus: full training steps (forward, backward, update) of well-known models as flat GraphDefs.

Start at `load`. A graph is built once, in a child process (a model's weights may take gigabytes), and kept
under `benchmarks/.corpus/`. `CORPUS` names them all; `TINY` are the ones that build within seconds.

    .venv/bin/python benchmarks/corpus.py bert_base resnet50_k3    # build these now and print their sizes
"""

import hashlib
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from importlib import import_module, metadata
from pathlib import Path
from typing import Any

import tensorflow as tf

HERE = Path(__file__).resolve().parent
STORE = HERE / ".corpus"


@dataclass(frozen=True)
class Sample:
    """One graph of the corpus; feeds and fetches are tensor names."""

    name: str
    graph_def: Any
    fetches: tuple[str, ...]
    feeds: tuple[str, ...]


def vision(builder: str, *arguments: Any, **sizes: Any) -> Callable[[], Any]:
    """Name a builder of `corpus_vision` without importing Keras yet."""
    return partial(_build_step, "benchmarks.corpus_vision", builder, *arguments, **sizes)


def text(builder: str, **sizes: Any) -> Callable[[], Any]:
    """Name a builder of `corpus_text` without importing Keras yet."""
    return partial(_build_step, "benchmarks.corpus_text", builder, **sizes)


def _build_step(module: str, builder: str, *arguments: Any, **sizes: Any) -> Any:
    return getattr(import_module(module), builder)(*arguments, **sizes)


TINY: dict[str, Callable[[], Any]] = {
    "resnet_tiny_k3": vision("small_resnet", "k3"),
    "resnet_tiny_k2": vision("small_resnet", "k2"),
    "unet_tiny_k3": vision("unet", "k3", size=16, width=8, depth=2),
    "unet_tiny_k2": vision("unet", "k2", size=16, width=8, depth=2),
    "dcgan_tiny_k3": vision("dcgan", "k3", size=16, width=8),
    "dcgan_tiny_k2": vision("dcgan", "k2", size=16, width=8),
    "bert_tiny": text("encoder", blocks=1, width=64, length=16, vocabulary=100),
    "gpt2_tiny": text("decoder", blocks=1, width=64, length=16, vocabulary=100),
    "lstm_tiny": text("lstm_language_model", width=16, length=5, vocabulary=50),
    "dlrm_tiny": text("recommender", tables=3, rows=50, width=8),
}

FULL: dict[str, Callable[[], Any]] = {
    "resnet50_k3": vision("classifier", "ResNet50", "k3"),
    "resnet50_k2": vision("classifier", "ResNet50", "k2"),
    "mobilenetv2_k3": vision("classifier", "MobileNetV2", "k3"),
    "mobilenetv2_k2": vision("classifier", "MobileNetV2", "k2"),
    "efficientnetb0_k3": vision("classifier", "EfficientNetB0", "k3"),
    "efficientnetb0_k2": vision("classifier", "EfficientNetB0", "k2"),
    "unet_k3": vision("unet", "k3"),
    "unet_k2": vision("unet", "k2"),
    "dcgan_k3": vision("dcgan", "k3"),
    "dcgan_k2": vision("dcgan", "k2"),
    "bert_base": text("encoder"),
    "gpt2_small": text("decoder"),
    "lstm_lm": text("lstm_language_model"),
    "dlrm": text("recommender"),
}

CORPUS: dict[str, Callable[[], Any]] = {**TINY, **FULL}


def load(name: str) -> Sample:
    """Return a graph of the corpus, building it first if this is the first time.

    Args:
        name: a key of `CORPUS`.

    Returns:
        A fresh copy, yours to change.

    Raises:
        KeyError: if the corpus has no graph of that name.
    """
    ensure([name])
    stored = tf.compat.v1.MetaGraphDef.FromString(path_of(name).read_bytes())
    fetches, feeds = (tuple(stored.collection_def[key].node_list.value) for key in ("fetches", "feeds"))
    return Sample(name, stored.graph_def, fetches, feeds)


def ensure(names: Iterable[str]) -> None:
    """Build what is not stored yet, all of it in one child process."""
    missing = [name for name in names if not path_of(name).exists()]
    if not missing:
        return
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": "-1", "TF_CPP_MIN_LOG_LEVEL": "3"}
    command = [sys.executable, str(Path(__file__).resolve()), *missing]
    built = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)  # noqa: S603 - our own file
    if built.returncode:
        raise RuntimeError(f"building {', '.join(missing)} failed:\n{built.stderr[-3000:]}")


def path_of(name: str) -> Path:
    """Where a graph is kept: another TensorFlow, Keras or builder gets another file."""
    if name not in CORPUS:
        raise KeyError(f"the corpus has no graph {name!r}; it has {', '.join(CORPUS)}")
    return STORE / f"{name}-{fingerprint()}.pb"


@cache
def fingerprint() -> str:
    """Identify all that a stored graph depends on: the libraries and the builders' own text."""
    sources = sorted([*HERE.glob("corpus*.py"), HERE / "flat_graph.py"])
    digest = hashlib.sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()[:8]
    return f"tf{tf.__version__}-k{metadata.version('keras')}-k{metadata.version('tf_keras')}-{digest}"


def build(name: str) -> None:
    """Build one graph in this process and store it whole or not at all."""
    flat = import_module("benchmarks.flat_graph").flatten(CORPUS[name]())
    stored = tf.compat.v1.MetaGraphDef(graph_def=flat.graph_def)
    stored.collection_def["fetches"].node_list.value.extend(flat.fetches)
    stored.collection_def["feeds"].node_list.value.extend(flat.feeds)
    STORE.mkdir(exist_ok=True)
    target = path_of(name)
    unfinished = target.with_suffix(f".{os.getpid()}")
    unfinished.write_bytes(stored.SerializeToString(deterministic=True))
    unfinished.replace(target)


def main(names: Sequence[str]) -> None:
    """Build the named graphs, or all of them, and print their sizes."""
    for name in names or CORPUS:
        if not path_of(name).exists():
            build(name)
        sample = load(name)
        print(f"{name:20} {len(sample.graph_def.node):6} nodes   {sample.graph_def.ByteSize() / 1e6:6.2f} MB")


if __name__ == "__main__":
    sys.path.insert(0, str(HERE.parent))  # run as a script, the builders are still `benchmarks.corpus_...`
    main(sys.argv[1:])
