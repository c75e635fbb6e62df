"""What the machine offers: its types of devices, whether they gain from 16 bits, and which versions run on it.

In come a policy or a device string, out come device types and reasons. The doors are `devices` for device strings, and
`gates.closed_gate` for whether mixed precision acts here.
"""
