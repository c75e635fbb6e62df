"""The hooks in TensorFlow, for calls and for sessions: put in together, and tested before they are relied on."""

import sys
from threading import RLock
from types import FrameType

import tensorflow as tf

from mixdown.errors import MixdownError
from mixdown.messages import warn
from mixdown.scaling.misuse import Usage
from mixdown.tensorflow.calls import active_policy, call_hook
from mixdown.tensorflow.runtime.private import refuse_missing
from mixdown.tensorflow.runtime.releases import TESTED, refuse_untested
from mixdown.tensorflow.sessions import hook

_lock = RLock()


def install() -> None:
    """Put the hooks into TensorFlow, and test that calls really pass through them, or else change and leave nothing."""
    if not call_hook.installed():
        refuse_untested()
        refuse_missing()
    with _lock:
        in_place = _put_in()
    if not in_place:
        raise MixdownError(
            f"TensorFlow {tf.__version__} does not call functions where mixdown expects it: nothing would change. "
            f"mixdown supports TensorFlow {TESTED}."
        )


def _put_in() -> bool:
    """Put the hooks in and test them; take them out again if that fails or is interrupted."""
    in_place = call_hook.installed()
    try:
        call_hook.install()
        hook.install(active_policy.current_policy)
        Usage.when_first_applied = staticmethod(warn_of_eager_steps)
        in_place = in_place or call_hook.works()
    finally:
        if not in_place:
            call_hook.uninstall()
            hook.uninstall()
    return in_place


def warn_of_eager_steps() -> None:
    """Warn if a model that applies gradients runs eagerly: a loop of the user's own may, but Keras was told to."""
    if active_policy.current() is not None and tf.executing_eagerly() and _is_told_to_run_eagerly():
        warn(
            "Mixed precision has no effect on this training step: it runs eagerly, op by op, so there is no graph to "
            "rewrite. Compile the model without run_eagerly=True, and leave out tf.config.run_functions_eagerly(True)."
        )


def _is_told_to_run_eagerly() -> bool:
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and getattr(frame.f_locals.get("self"), "run_eagerly", False) is not True:
        frame = frame.f_back
    return frame is not None or tf.config.functions_run_eagerly()
