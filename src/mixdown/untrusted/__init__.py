"""What others wrote: text made harmless to show, JSON checked before it is believed. Pure, and below all layers."""
