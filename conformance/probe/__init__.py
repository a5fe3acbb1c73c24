"""What this device can really do, found out by trying: each question in a process of its own, a fault being an answer.

`attempt` runs one case although a backend declares it unsupported; `questions` says what is asked, `batch_call` asks
the driver's batch call itself, `answers` holds what came of it, `findings` compares that with the selection table and
with a selection rule. Nothing here judges a backend: whether a declared limit is kept is the REFUSE
claims' business.
"""
