"""Models on disk rewritten for serving: a SavedModel or a frozen graph comes in, a converted one and its report go out.

The door is `convert_saved_model`. Nothing of the model is run, and the result loads without mixdown.
"""

from mixdown.tensorflow.convert.convert import Conversion, convert_saved_model

__all__ = ["Conversion", "convert_saved_model"]
