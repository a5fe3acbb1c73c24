"""The selection rule held to account: a table as oracle, claims that compare any selector with it, no device needed.

`table.json` says what is right and why; `table` answers facts from it, `totality` proves that it always has exactly
one answer, `claims` finds where a selector disagrees, `subjects` and `vllm` make selectors of what other people wrote.
Nothing here reads how `backends.selection` decides: only its words (`Facts`, `Choice`) are shared.
"""
