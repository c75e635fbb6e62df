"""What XLA compiled: the HLO of twins, written down by XLA itself in a process of its own (see twins_hlo.py)."""

import os
import re
import subprocess
from pathlib import Path

import pytest
from tests import fresh

ROOT = Path(__file__).parents[3]
PRODUCT = re.compile(r"= (\w+)\[.* (?:dot|convolution)\(.*op_name=\"([^\"]+)\"")


def compiled_products(low: str, folder: Path) -> dict[str, str]:
    """The dtype of every matrix product and convolution that XLA compiled, by the name of the op."""
    flags = f"--xla_dump_to={folder} --xla_dump_hlo_as_text"
    subprocess.run(  # noqa: S603 - our own script
        [*fresh.python(), "-m", "tests.tensorflow.calls.twins_hlo", low],
        cwd=ROOT,
        env={**os.environ, "XLA_FLAGS": flags, "TF_CPP_MIN_LOG_LEVEL": "2"},
        check=True,
    )
    modules = [path.read_text() for path in folder.glob("*before_optimizations.txt")]
    return {name: dtype for module in modules for dtype, name in PRODUCT.findall(module)}


@pytest.mark.parametrize(
    ("low", "hlo"),
    [
        ("float16", "f16"),
        pytest.param("bfloat16", "bf16", marks=pytest.mark.slow),
        pytest.param("float32", "f32", marks=pytest.mark.slow),
    ],
)
def test_xla_compiles_every_product_in_the_low_dtype(low: str, hlo: str, tmp_path: Path) -> None:
    products = compiled_products(low, tmp_path)
    assert set(products.values()) == {hlo}
    assert {"MatMul", "while/MatMul", "Conv2D"} <= products.keys()
    dense = [name for name in products if "dense" in name]
    assert len(dense) == 5, dense  # two layers forward, both kernels and one input backward
