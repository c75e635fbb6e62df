"""Bytes that the kernels of a training step in JAX read and write, as compiled by XLA's GPU compiler: `make bench-jax`.

Every model is compiled in float32, annotated by hand with bfloat16, and as rewritten by mixdown. No GPU is needed: XLA
compiles for the device described in `xla_gpu/a100.txtpb`. What was compiled before is looked up by its content in the
folder `.bench-jax`.

    .venv-gpu/bin/python benchmarks/jax_bytes.py [--models ResNet50,GPT-2] [--low float16] [--keep FOLDER]
"""

from __future__ import annotations

import argparse
import functools
import hashlib
import json
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

import jax
import numpy as np
from benchmarks.jax_models.zoo import MODELS, Model
from benchmarks.xla_gpu.hlo_text import parse
from benchmarks.xla_gpu.traffic import kernels
from jax.experimental import topologies
from jax.extend.core import jaxpr_as_fun

from mixdown import Policy
from mixdown.jax.programs import plan_program

ROOT = Path(__file__).resolve().parents[1]
OPTIONS = {"xla_gpu_autotune_level": 0, "xla_gpu_enable_triton_gemm": False}
LINE = "{:<14} {:<10} {:>10} {:>9} {:>9} {:>8} {:>7} {:>9}"


def main(arguments: Sequence[str] | None = None) -> None:
    """Compile and print, model by model."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default=",".join(MODELS), help="comma-separated (default: all)")
    parser.add_argument("--variants", default="float32,by hand,mixdown", help="comma-separated (default: all)")
    parser.add_argument("--low", default="bfloat16", help="the 16-bit dtype (default: %(default)s)")
    parser.add_argument("--keep", type=Path, help="a folder for the compiled modules; by default they are not kept")
    options = parser.parse_args(arguments)
    print(f"One training step for the A100, {options.low}; bytes at kernel boundaries\n")
    print(LINE.format("model", "variant", "MB", "/float32", "/by hand", "kernels", "casts", "temp MB"), flush=True)
    for name in options.models.split(","):
        sizes: dict[str, int] = {}
        for variant in options.variants.split(","):
            found = measured(lowered(name, variant, options.low), options.keep and options.keep / f"{name}-{variant}")
            sizes[variant] = found["bytes"]
            ratios = [f"{found['bytes'] / sizes[peer]:.3f}" if peer in sizes else "" for peer in ("float32", "by hand")]
            columns = (found["kernels"], found["casts"], f"{found['temp'] / 1e6:.0f}")
            print(LINE.format(name, variant, f"{found['bytes'] / 1e6:.1f}", *ratios, *columns), flush=True)


def lowered(name: str, variant: str, low: str) -> Any:
    """A training step, lowered for CUDA."""
    model: Model = MODELS[name](low if variant == "by hand" else None, False)  # noqa: FBT003 - full-sized
    key = jax.random.key(0)
    state, batch = jax.eval_shape(model.start, key), jax.eval_shape(model.batch, key)
    step = mixed(model.step, (state, *batch), low) if variant == "mixdown" else model.step
    arguments = jax.tree.map(placed, (state, *batch))
    return jax.jit(step, donate_argnums=0).trace(*arguments).lower(lowering_platforms=("cuda",))


def mixed(step: Any, arguments: Any, low: str) -> Any:
    """A step as mixdown rewrites it for a GPU."""
    closed, tree = jax.make_jaxpr(step, return_shape=True)(*arguments)
    program = plan_program(closed, Policy(rules="jax", low=low, devices="all"), "cuda")
    run = jaxpr_as_fun(program.closed(differentiable=False))
    return lambda *given: jax.tree.unflatten(jax.tree.structure(tree), run(*jax.tree.leaves(given)))


@functools.cache
def device() -> Any:
    """A GPU that this machine does not have, created from its description."""
    text = (ROOT / "benchmarks" / "xla_gpu" / "a100.txtpb").read_text()
    return topologies.get_topology_desc("a100", platform="cuda", target_config=text, topology="1x1x1").devices[0]


def placed(leaf: Any) -> Any:
    """The shape of a leaf, placed on that GPU."""
    mesh = jax.sharding.Mesh(np.array([device()]), ("x",))
    return jax.ShapeDtypeStruct(
        leaf.shape, leaf.dtype, sharding=jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec())
    )


def measured(step: Any, keep: Path | None) -> dict[str, int]:
    """What a lowered step comes to, looked up or compiled."""
    key = hashlib.sha256(json.dumps([step.as_text(), OPTIONS, jax.__version__]).encode()).hexdigest()
    stored = ROOT / ".bench-jax" / f"{key}.json"
    if stored.exists() and keep is None:
        return dict(json.loads(stored.read_text()))
    start = time.perf_counter()
    compiled = step.compile(compiler_options=OPTIONS)
    print(f"  compiled in {time.perf_counter() - start:.0f} s", file=sys.stderr, flush=True)
    if keep is not None:
        keep.parent.mkdir(parents=True, exist_ok=True)
        keep.with_suffix(".txt").write_text(compiled.as_text())
    made = kernels(parse(compiled.as_text()))
    found = {
        "bytes": sum(kernel.size for kernel in made),
        "kernels": len(made),
        "casts": sum(kernel.casts for kernel in made),
        "temp": compiled.memory_analysis().temp_size_in_bytes,
    }
    stored.parent.mkdir(exist_ok=True)
    stored.write_text(json.dumps(found))
    return found


if __name__ == "__main__":
    main()
