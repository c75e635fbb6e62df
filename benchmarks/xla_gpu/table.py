"""Bytes that the kernels of a training step read and write, as compiled by XLA's GPU compiler: `make bench-gpu`.

Four models are compiled in float32, under Keras's policy `mixed_float16`, as rewritten by TensorFlow's own pass, and as
rewritten by mixdown. No GPU is needed: XLA compiles for the devices described in `a100.txtpb` and `h100.txtpb`. All
four models together take about six minutes on two cores, most of it for ResNet50.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
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
    policy = Policy(**{name: value for name in ("strategy", "rules") if (value := getattr(options, name))})
    variants = {**PEERS, f"mixdown, {policy.strategy}": Variant(rewrite=mixdowns(policy))}
    print(f"One training step, {policy.low}, rules {policy.rules}; casts: all (in kernels of their own)\n")
    print(LINE.format("model", "device", "variant", "MB", "/float32", "/Keras", "/theirs", "kernels", "casts"))
    with tempfile.TemporaryDirectory() as folder:
        for model in options.models.split(","):
            files = {name: Path(options.keep or folder, f"{model}-{name}.pb") for name in variants}
            for name, file in files.items():
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_bytes(lowered(model, variants[name]))
            for device in options.devices.split(","):
                compile_all(options.compiler, device, files.values())
                print_rows(model, device, {name: measured(file, device) for name, file in files.items()})


def read_options(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Parse the command line: what to measure, and with which policy."""
    parser = argparse.ArgumentParser(
        description=__doc__, epilog=EXAMPLE, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--models", default=",".join(MODELS), help="comma-separated (default: %(default)s)")
    parser.add_argument("--devices", default="a100,h100", help="comma-separated (default: %(default)s)")
    parser.add_argument("--strategy", help="of mixdown's policy, if not its default")
    parser.add_argument("--rules", help="of mixdown's policy, if not its default")
    parser.add_argument("--compiler", type=Path, default=ROOT / ".venv-gpu/bin/python", help="a Python with JAX 0.10.2")
    parser.add_argument("--keep", help="a folder for the HLO, before and after the compiler; by default it is deleted")
    return parser.parse_args(arguments)


def compile_all(compiler: Path, device: str, files: Iterable[Path]) -> None:
    """Compile lowered steps in the environment with JAX."""
    script = Path(__file__).with_name("compile.py")
    subprocess.run([compiler, script, device, *files], check=True)  # noqa: S603 - our own script


def measured(file: Path, device: str) -> list[Kernel]:
    """The kernels of a compiled step, from the text file that `compile.py` wrote next to it."""
    return kernels(parse(file.with_suffix(f".{device}.txt").read_text()))


def print_rows(model: str, device: str, found: dict[str, list[Kernel]]) -> None:
    """Print one row per variant, with its bytes relative to those of the peers."""
    sizes = {name: sum(kernel.size for kernel in each) for name, each in found.items()}
    for name, each in found.items():
        ratios = [f"{sizes[name] / sizes[peer]:.3f}" for peer in PEERS]
        alone = sum(kernel.casts for kernel in each if kernel.only_casts)
        casts = f"{sum(kernel.casts for kernel in each)} ({alone})"
        print(LINE.format(model, device, name, f"{sizes[name] / 1e6:.1f}", *ratios, len(each), casts), flush=True)


if __name__ == "__main__":
    main()
