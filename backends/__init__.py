"""What copies bytes, and who chooses: backends, platforms, the selection rule.

Importing this package (and `contract`, `registry`, `selection`) needs neither torch nor a device; the modules that
copy import torch when they are loaded, in the process that owns the device.
"""
