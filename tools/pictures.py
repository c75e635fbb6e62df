"""Takes the pictures of the documentation: `python tools/pictures.py`. Needs Chromium, as the tests of the page do.

They show the page for a training step of a small transformer: on a desk, in the dark, and on a phone.
"""

import os
import sys
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

import keras
import tensorflow as tf
from tests.reports.rendering.browser import READY, headless

import mixdown
from mixdown.reports.rendering.page import page

WIDTH, HEADS, BLOCKS, LENGTH, BATCH = 256, 4, 4, 128, 32
PICTURES = {
    "report.png": (1440, 960, False),
    "report_dark.png": (1440, 960, True),
    "report_phone.png": (390, 844, False),
}
SHOWN = "softmax"
"""What is searched for on the larger pictures: the first op found is shown with its chain of causes."""


def transformer() -> keras.Model:
    """A transformer that classifies texts."""
    layers = keras.layers
    words = layers.Input((LENGTH,), dtype="int32")
    x = layers.Embedding(8000, WIDTH)(words)
    for _ in range(BLOCKS):
        x = layers.LayerNormalization()(x + layers.MultiHeadAttention(HEADS, WIDTH // HEADS)(x, x))
        inner = layers.Dense(WIDTH)(layers.Dense(4 * WIDTH, activation="gelu")(x))
        x = layers.LayerNormalization()(x + inner)
    model = keras.Model(words, layers.Dense(2)(layers.GlobalAveragePooling1D()(x)), name="transformer")
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    return model


def main() -> None:
    """Write all pictures into docs/."""
    if not READY:
        sys.exit("needs Chromium: apt-get install chromium chromium-driver, and pip install selenium")
    specs = tf.TensorSpec([BATCH, LENGTH], tf.int32), tf.TensorSpec([BATCH], tf.int32)
    report = mixdown.explain(transformer(), *specs, policy=mixdown.Policy(devices=("GPU", "CPU")), device="A100")
    with headless() as browser:
        for name, (width, height, dark) in PICTURES.items():
            browser.open(page(report), width=width, height=height, dark=dark)
            if width > height:
                browser.press("/", SHOWN, "\ue007")
                browser.script("window.scrollTo(0, 0)")
            browser.driver.save_screenshot(str(ROOT / "docs" / name))
            print(f"docs/{name}: {(ROOT / 'docs' / name).stat().st_size / 1e3:.0f} KB")


if __name__ == "__main__":
    main()
