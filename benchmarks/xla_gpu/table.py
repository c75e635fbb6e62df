"""Bytes at kernel boundaries of one compiled training step, by XLA's own GPU compiler: `make bench-gpu`.

Four models, each in float32, under Keras's policy `mixed_float16`, as TensorFlow's own pass colours it, and as mixdown
rewrites it. No GPU is needed: XLA compiles for devices that are only described (`a100.txtpb`, `h100.txtpb`). HLO is
kept under a name made of its content, so only what changed is compiled again; all four take about ten minutes.
"""

import argparse
import hashlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # run as a script, this is `benchmarks.xla_gpu.table`

from benchmarks.xla_gpu.hlo_text import parse
from benchmarks.xla_gpu.lower import Variant, lowered, mixdowns, tensorflows_colouring
from benchmarks.xla_gpu.models import MODELS
from benchmarks.xla_gpu.traffic import Kernel, kernels

from mixdown import Policy

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = (
    "example: .venv/bin/python benchmarks/xla_gpu/table.py --models MLP,conv+BN --strategy grappler --rules tf-2.19"
)
PEERS = {
    "float32": Variant(),
    "Keras mixed_float16": Variant("mixed_float16"),
    "TensorFlow's colouring": Variant(rewrite=tensorflows_colouring),
}
LINE = "{:<12} {:<6} {:<24} {:>9} {:>8} {:>8} {:>8} {:>8} {:>12}"


def main(arguments: Sequence[str] | None = None) -> None:
    """Lower, compile and print, model by model."""
    options = read_options(arguments)
    policy = Policy(**{name: value for name in ("strategy", "rules", "low") if (value := getattr(options, name))})
    variants = {**PEERS, f"mixdown, {policy.strategy}": Variant(rewrite=mixdowns(policy))}
    options.cache.mkdir(parents=True, exist_ok=True)
    print(f"One training step, {policy.low}, rules {policy.rules}; casts: all (in kernels of their own)\n")
    print(LINE.format("model", "device", "variant", "MB", "/float32", "/Keras", "/theirs", "kernels", "casts"))
    for model in options.models.split(","):
        files = {name: stored(model, variant, options.cache) for name, variant in variants.items()}
        for device in options.devices.split(","):
            compile_missing(options.compiler, device, list(files.values()))
            print_rows(model, device, {name: measured(file, device) for name, file in files.items()})


def read_options(arguments: Sequence[str] | None) -> argparse.Namespace:
    """What to measure, and with which plan."""
    parser = argparse.ArgumentParser(
        description=__doc__, epilog=EXAMPLE, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--models", default=",".join(MODELS), help="comma-separated (default: %(default)s)")
    parser.add_argument("--devices", default="a100,h100", help="comma-separated (default: %(default)s)")
    parser.add_argument("--strategy", help="of mixdown's policy, if not its default")
    parser.add_argument("--rules", help="of mixdown's policy, if not its default")
    parser.add_argument("--low", help="of mixdown's policy, if not its default")
    parser.add_argument("--compiler", type=Path, default=ROOT / ".venv-gpu/bin/python", help="a Python with JAX 0.10.2")
    parser.add_argument("--cache", type=Path, default=Path(tempfile.gettempdir()) / "mixdown-xla-gpu", help="for HLO")
    return parser.parse_args(arguments)


def stored(model: str, variant: Variant, cache: Path) -> Path:
    """The file of a lowered step, named by what is in it."""
    module = lowered(model, variant)
    file = cache / f"{model}-{hashlib.sha256(module).hexdigest()[:12]}.pb"
    file.write_bytes(module)
    return file


def compile_missing(compiler: Path, device: str, files: Sequence[Path]) -> None:
    """Compile what is not compiled yet, in the other environment."""
    missing = [str(file) for file in dict.fromkeys(files) if not compiled_file(file, device).exists()]
    if missing:
        script = Path(__file__).with_name("compile.py")
        subprocess.run([compiler, script, device, *missing], check=True)  # noqa: S603 - our own script


def compiled_file(file: Path, device: str) -> Path:
    """Where `compile.py` puts its result."""
    return file.with_suffix(f".{device}.txt")


def measured(file: Path, device: str) -> list[Kernel]:
    """The kernels of a compiled step."""
    return kernels(parse(compiled_file(file, device).read_text()))


def print_rows(model: str, device: str, found: dict[str, list[Kernel]]) -> None:
    """Print one row a variant, with its bytes against the peers'."""
    sizes = {name: sum(kernel.size for kernel in each) for name, each in found.items()}
    for name, each in found.items():
        ratios = [f"{sizes[name] / sizes[peer]:.3f}" for peer in PEERS]
        alone = sum(kernel.casts for kernel in each if kernel.only_casts)
        casts = f"{sum(kernel.casts for kernel in each)} ({alone})"
        print(LINE.format(model, device, name, f"{sizes[name] / 1e6:.1f}", *ratios, len(each), casts), flush=True)


if __name__ == "__main__":
    main()
