"""How a batch is handed over: the stream, several calls, entries of size zero, early reads, sides written late."""

from __future__ import annotations

from hypothesis import strategies as st

from backends.contract import Memory
from strategies.case import Submission
from strategies.draw.choices import between, pick
from strategies.scope import Scope

MOST_CALLS = 3
MOST_ZEROS = 3


@st.composite
def submissions(
    draw: st.DrawFn,
    scope: Scope,
    source: Memory,
    destination: Memory,
    descriptors: int,
    *,
    late: bool = True,
    zeros: bool = True,
) -> Submission:
    """Any way to submit `descriptors` descriptors that the scope allows; three of four are plain but for the stream."""
    stream = draw(pick(*scope.stream_kinds))
    if draw(between(0, 3)) < 3:
        return Submission(stream)
    support = scope.support
    calls = draw(between(1, MOST_CALLS))
    order_any = draw(between(0, 2)) == 2
    late &= support.stream_order
    late_source = late and not order_any and source in scope.late and draw(between(0, 1)) == 1
    late_destination = late and destination in scope.late and draw(between(0, 1)) == 1
    reuse = support.reuse_descriptors and draw(between(0, 1)) == 1
    spare = min(MOST_ZEROS, scope.most_descriptors - descriptors)
    positions: tuple[int, ...] = ()
    if zeros and spare > 0 and support.zero_sizes and not support.uniform_dense:
        how_many = draw(pick(0, 0, 1, spare))
        positions = tuple(sorted(draw(between(0, descriptors)) for _ in range(how_many)))
    return Submission(
        stream,
        calls=calls,
        zero_entries=positions,
        order_any=order_any,
        late_source=late_source,
        late_destination=late_destination,
        reuse_descriptors=reuse,
    )
