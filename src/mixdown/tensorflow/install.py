"""The hooks in TensorFlow, for calls and for sessions: put in together, and tested before they are relied on."""

from __future__ import annotations

from threading import RLock

import tensorflow as tf

from mixdown.errors import MixdownError
from mixdown.tensorflow.calls import active_policy, call_hook
from mixdown.tensorflow.runtime.private import refuse_missing
from mixdown.tensorflow.runtime.releases import TESTED, refuse_untested
from mixdown.tensorflow.sessions import hook

_lock = RLock()


def install() -> None:
    """Put the hooks into TensorFlow, and test that calls really pass through them.

    Raises:
        MixdownError: this TensorFlow is not one that mixdown supports, or lacks what the hooks need. Nothing was
            changed.
    """
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
        in_place = in_place or call_hook.works()
    finally:
        if not in_place:
            call_hook.uninstall()
            hook.uninstall()
    return in_place
