"""The hooks in TensorFlow, put in together and proved before they are trusted."""

from __future__ import annotations

import tensorflow as tf

from mixdown.core import MixdownError
from mixdown.tensorflow import functions, notices, scopes, session


def install() -> None:
    """Put the hooks into TensorFlow, and prove that calls really pass through them."""
    fresh = not functions.installed()
    functions.install()
    session.install(scopes.current_policy)
    if fresh and not functions.works():
        functions.uninstall()
        session.uninstall()
        raise MixdownError(
            f"TensorFlow {tf.__version__} does not call functions where mixdown expects it: nothing would change. "
            f"mixdown supports TensorFlow 2.16 to 2.21."
        )


def warn(message: str) -> None:
    """Warn the user's own line."""
    notices.warn(message, stacklevel=3)
