"""Device processes: one a device, forked from a server that has torch loaded, so that a crash is a verdict.

`server` owns the processes and ends them; `process` is what runs inside one; `client` is what a pytest worker holds;
`direct` runs cases in the caller's own process instead, for debuggers and sanitizers.
"""
