"""Models on disk, converted for serving. Start with `convert_saved_model`."""

from mixdown.tensorflow.convert.conversion import Conversion
from mixdown.tensorflow.convert.convert import convert_saved_model

__all__ = ["Conversion", "convert_saved_model"]
