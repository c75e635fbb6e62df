"""What the machine offers: its types of devices, whether they gain from 16 bits, and how fast they are.

In come a policy or a device string, out come device types, reasons and timings. The doors are `devices` for device
strings, `gates.closed_gate` for whether mixed precision acts here, and `measurements.measured` for timings.
"""
