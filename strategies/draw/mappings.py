"""Which block goes where: pairs of block ids in the orders and shapes that block managers make.

A big mapping is a pattern, a count and a seed, expanded by a generator that is the same on every Python; a small one
may also be drawn id by id, so that it shrinks to the ids that matter. Destinations never hold an id twice.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from random import Random

from hypothesis import strategies as st

from strategies.draw.choices import between, pick

Ids = list[int]
Pattern = Callable[[int, int, int, Random], tuple[Ids, Ids]]

FEW = 6  # up to so many pairs may be drawn id by id
NEAR_COUNTS = (1, 16, 1000, 1024, 4096, 8192, 65536)  # thresholds and caps of known implementations
MOST_SEED = 255
MOST_FEW = 24  # blocks of a small mapping


def identity(count: int, sources: int, destinations: int, random: Random) -> tuple[Ids, Ids]:
    """Block i to block i."""
    return list(range(count)), list(range(count))


def backwards(count: int, sources: int, destinations: int, random: Random) -> tuple[Ids, Ids]:
    """The first block to the last place."""
    return list(range(count)), list(range(count - 1, -1, -1))


def permutation(count: int, sources: int, destinations: int, random: Random) -> tuple[Ids, Ids]:
    """Any blocks to any places."""
    return random.sample(range(sources), count), random.sample(range(destinations), count)


def runs(count: int, sources: int, destinations: int, random: Random) -> tuple[Ids, Ids]:
    """Runs that are consecutive on both sides, in shuffled order."""
    lengths: Ids = []
    while sum(lengths) < count:
        lengths.append(min(random.randint(1, max(2, count // 3)), count - sum(lengths)))
    return _placed(lengths, sources, random), _placed(lengths, destinations, random)


def near_run(count: int, sources: int, destinations: int, random: Random) -> tuple[Ids, Ids]:
    """Consecutive on both sides but for one id, on one side."""
    pair = identity(count, sources, destinations, random)
    if count >= 2:
        side = random.randrange(2)
        _break_one(pair[side], (sources, destinations)[side], random)
    return pair


def false_run(count: int, sources: int, destinations: int, random: Random) -> tuple[Ids, Ids]:
    """The first and the last id look as if all between were consecutive, and they aren't (from four blocks on)."""
    pair = identity(count, sources, destinations, random)
    if count >= 4:
        ids = pair[random.randrange(2)]
        inner = ids[1:-1]
        random.shuffle(inner)
        if inner == sorted(inner):
            inner.reverse()
        ids[1:-1] = inner
    return pair


def source_run(count: int, sources: int, destinations: int, random: Random) -> tuple[Ids, Ids]:
    """Consecutive at the source only."""
    return _stretch(count, sources, random), random.sample(range(destinations), count)


def destination_run(count: int, sources: int, destinations: int, random: Random) -> tuple[Ids, Ids]:
    """Consecutive at the destination only."""
    return random.sample(range(sources), count), _stretch(count, destinations, random)


def same_slots(count: int, sources: int, destinations: int, random: Random) -> tuple[Ids, Ids]:
    """Each block to the place of the same number, in any order."""
    ids = random.sample(range(min(sources, destinations)), count)
    return ids, list(ids)


def pool_ends(count: int, sources: int, destinations: int, random: Random) -> tuple[Ids, Ids]:
    """The last and the first block of both pools, then inwards."""
    return _from_ends(count, sources), _from_ends(count, destinations)[::-1]


def holes(count: int, sources: int, destinations: int, random: Random) -> tuple[Ids, Ids]:
    """Ascending with a gap after each id, as far as the pools have room."""
    return _spread(count, sources), _spread(count, destinations)


def repeated_sources(count: int, sources: int, destinations: int, random: Random) -> tuple[Ids, Ids]:
    """One source may go to several places."""
    few = random.sample(range(sources), min(sources, 1 + count // 2))
    return random.choices(few, k=count), random.sample(range(destinations), count)


UNIQUE: tuple[Pattern, ...] = (
    identity,
    backwards,
    permutation,
    runs,
    near_run,
    false_run,
    source_run,
    destination_run,
    same_slots,
    pool_ends,
    holes,
)
PATTERNS: tuple[Pattern, ...] = (*UNIQUE, repeated_sources)
SEEDLESS = frozenset({identity, backwards, pool_ends, holes})


def chunked(count: int, blocks: int, per_chunk: int, skip: int, gaps: int, random: Random) -> Ids:
    """Ids of a logical range of `count` blocks laid over whole chunks in any order.

    The range begins `skip` blocks into its first chunk and leaves out `gaps` blocks inside. Both give way where the
    pool of `blocks` ids (a multiple of `per_chunk`) is too small."""
    chunks = blocks // per_chunk
    gaps = min(gaps, chunks * per_chunk - count)
    skip = min(skip, chunks * per_chunk - count - gaps)
    total = count + gaps
    order = random.sample(range(chunks), -(-(skip + total) // per_chunk))
    kept = range(total)
    if gaps and count >= 2:
        kept_inside = sorted(random.sample(range(1, total - 1), count - 2))
        kept = [0, *kept_inside, total - 1]  # type: ignore[assignment]
    return [order[at // per_chunk] * per_chunk + at % per_chunk for at in (skip + k for k in kept[:count])]


def counts(most: int) -> st.SearchStrategy[int]:
    """Of a small mapping, at most `most`: 1 first, and 0 and the neighbours of 16 among them."""
    return pick(*(count for count in (1, 2, 3, 0, 4, 5, 15, 16, 17) if count <= most))


def many_counts(most: int) -> tuple[int, ...]:
    """Of big mappings: one below, at and above each threshold from 1000 on, up to `most`, ascending."""
    return tuple(near + step for near in NEAR_COUNTS if near >= 1000 for step in (-1, 0, 1) if near + step <= most)


@st.composite
def mappings(
    draw: st.DrawFn, count: int, sources: int, destinations: int, unique_sources: bool = False
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """`count` pairs of ids below `sources` and `destinations`, both of which are at least `count`."""
    if count <= 1 and sources == destinations == 1:
        return (0,) * count, (0,) * count
    by_id = count <= FEW
    known = UNIQUE if unique_sources else PATTERNS
    chosen = draw(between(0, len(known) - 1 + (3 if by_id else 0)))
    if chosen >= len(known):
        taken = draw(_ids(count, destinations, True))
        return tuple(draw(_ids(count, sources, unique_sources))), tuple(taken)
    pattern = known[chosen]
    seed = 0 if pattern in SEEDLESS else draw(between(0, MOST_SEED))
    left, right = pattern(count, sources, destinations, Random(seed))
    return tuple(left), tuple(right)


@lru_cache(maxsize=4096)
def _ids(count: int, below: int, unique: bool) -> st.SearchStrategy[list[int]]:
    return st.lists(between(0, below - 1), min_size=count, max_size=count, unique=unique)


def _placed(lengths: Sequence[int], total: int, random: Random) -> Ids:
    """A run of consecutive ids for each length, apart, in shuffled places below `total`."""
    order = list(range(len(lengths)))
    random.shuffle(order)
    spare = total - sum(lengths)
    starts = [0] * len(lengths)
    at = 0
    for index in order:
        gap = random.randint(0, min(spare, 2))
        spare -= gap
        starts[index] = at + gap
        at += gap + lengths[index]
    return [start + k for start, length in zip(starts, lengths, strict=True) for k in range(length)]


def _break_one(ids: Ids, total: int, random: Random) -> None:
    at = random.randrange(len(ids))
    if total > len(ids):
        ids[at] = random.randrange(len(ids), total)
    else:
        other = (at + 1) % len(ids)
        ids[at], ids[other] = ids[other], ids[at]


def _stretch(count: int, total: int, random: Random) -> Ids:
    start = random.randint(0, total - count)
    return list(range(start, start + count))


def _from_ends(count: int, total: int) -> Ids:
    return [total - 1 - k // 2 if k % 2 == 0 else k // 2 for k in range(count)]


def _spread(count: int, total: int) -> Ids:
    step = 2 if total >= 2 * count else 1
    return [k * step for k in range(count)]
