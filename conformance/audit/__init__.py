"""How good a selection rule's choices are on this device: every backend timed, and the rule's regret against the best.

`grid` says what is timed, `timing` times it inside the device process, `survey` goes over the grid until the numbers
are stable or the time is out, `measurements` keeps them on disk, `judgement` says who wins and what the rule loses,
`advice` writes the rule that would be right here as rows of the selection table; `text`, `figure` and `page` show it.
Nothing here decides whether a copy is right beyond refusing to time one that is wrong.
"""
