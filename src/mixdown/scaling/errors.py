"""What loss scaling raises."""


class LossScaleError(RuntimeError):
    """Too many steps in a row had non-finite gradients: the model, not the scale, is the trouble."""
