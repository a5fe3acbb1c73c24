"""Print SPEC.md: the requirements, how they are judged, and what is deliberately not checked."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from itertools import groupby

from conformance.requirements import copies
from conformance.requirements import rules as selection
from conformance.requirements.copies import Requirement

NAME = "spec"
HELP = "print the requirements as SPEC.md"

TITLES = {
    "BYTES": "what a copy leaves in memory",
    "INPUT": "descriptors that can't be copied",
    "REFUSE": "what a backend declares unsupported",
    "SURVIVE": "the process and the device live on",
    "SELECT": "the rule that chooses a backend",
    "COVER": "the run itself has looked",
}

HEAD = """\
# What must hold

Made from `conformance/requirements/copies.py` and `conformance/requirements/rules.py` by `make spec`; change those, not
this page. An id is never reused and never changes its meaning. The docstring of each test in `conformance/` names the
ids that it checks; those of the run itself are checked by the report, when the run has ended.

## What is judged

A *backend* copies a batch of descriptors: `copy(src_ptrs, dst_ptrs, sizes, is_src_access_order_any=False)`, three
one-dimensional CPU int64 tensors of equal length, addresses and sizes in bytes. It enqueues the copies on the current
stream and may return before they finish. The batch as a whole is ordered with its stream; the copies inside it have no
order. Several descriptors may read the same source; destinations that overlap are undefined. With
`is_src_access_order_any` the source may be read before the stream gets there. The words are in `backends/contract.py`.

A *case* is one copy to try, as plain data: direction, kinds of memory, pools and their strides, which block goes where,
stream, submission, seed of the contents. It holds block ids and offsets and never an address. A case is run on real
memory with guard bands or unmapped pages at both ends; afterwards both allocations are read back whole and every byte
is compared with an image that numpy computes from the block ids, without torch, without any backend and without the
code that makes descriptors.

A backend *declares* what it can't do (`Support`). Whatever it does not declare must work. A copy that it declares
unsupported is counted as refused, apart from those that held: refusing is no way to pass.
"""

TAIL = """\
## How a case can end

| verdict | meaning |
| --- | --- |
| passed | every byte on both sides is as it must be, and the device is well |
| wrong bytes | at least one byte differs; each is named by its role: block, row padding, gap, guard, source |
| fault | a signal, an exit, or an error of the device, with its own text |
| hang | no end within the deadline: 100 times what the bytes and descriptors should take, and at least `--deadline` |
| poisoned | the bytes are right, but the device is in error afterwards |
| error | an exception, a refusal or an acceptance where the contract has none |
| refused | as declared, with a reason, nothing written |
| not judged | this machine can't build the case; it never counts as passed |

A run is a **pass** if nothing failed, every planned case was drawn and judged, and every mandatory requirement was run;
**incomplete** if something mandatory was left out; otherwise a **fail**. For each backend and requirement,
drawn = passed + failed + refused + not judged: a sum that does not add up fails the run.

## What a seed does not pin

`--run-seed` makes a run draw the same cases again only as long as everything else stays as it is. Hypothesis draws
other cases from the same seed when its version changes, when the body of a test or a strategy is edited, and when a
constant in the code under test changes, because it collects such constants as interesting values. What a backend
declares also decides what is drawn for it. So a seed is a convenience for one person on one day.

Two runs that have to do the same thing, on two machines or in two releases, need the cases themselves. `corpus/` holds
them under version control: `cpu.jsonl` and `accelerator.jsonl` were drawn once from a pinned seed, and each names its
digest, which the report shows and `kvconform corpus check` verifies. `smoke` and `gate` run a part of them, `certify`
runs them all. `corpus/public/` holds the cases that bugs in other implementations left, with their public reference.
The drawn cases come on top, from a seed that nobody knew when the backend was written. Each failure is saved as a file
that holds the whole case, and `kvconform replay` and `--corpus` run exactly that.

Every shard of a claim draws from a seed of its own, made from the run's seed, the claim, the backend and the shard:
under one seed for all, every worker would try the same cases.

## What is deliberately not checked

* **Speed.** A copy that is right and slow passes. Deadlines only catch what never ends.
* **Reads beyond the source** leave no trace in bytes. They are caught where an arena ends at an unmapped page (the case
  says so, and so does `kvconform list`), and not where only guard bands lie there.
* **Order inside a batch**, and what duplicate destinations hold, beyond that it is one of the contents copied there.
* **Descriptors above 1 MiB**, and descriptor tensors that are strided views.
* **Contents of one value.** Neighbouring bytes always differ, and so do source and destination, so that a wrong byte
  shows. A copy that goes wrong only where blocks are all zeros, or where both sides are equal already, does not.
* **Batches above 6 MiB**, and descriptors that the copy changes in the caller's tensors.
* **Stray writes far away.** A byte written more than a block beyond the arena is caught at a fence only.
* **Graph capture**, peer copies between devices, and copies between hosts.
* **Concurrent copies.** One case runs at a time on a device, so that a crash names its case.
* **Engines.** No scheduler, block table or eviction is involved: it is the copy, and the choice of the copy.
* **A platform that is not here.** The README says what was run on which device; code paths that were never run on one
  are named there.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    pass


def run(args: argparse.Namespace) -> int:
    """Print the page."""
    print(render(), end="")
    return 0


def all_requirements() -> tuple[Requirement, ...]:
    """Every requirement of the suite."""
    return (*copies.REQUIREMENTS, *selection.REQUIREMENTS)


def render() -> str:
    """The page, as Markdown."""
    return "\n".join([HEAD, *_sections(all_requirements()), TAIL])


def _sections(found: Iterable[Requirement]) -> Iterable[str]:
    order = list(TITLES)
    for group, members in groupby(sorted(found, key=lambda one: order.index(_group(one))), _group):
        yield f"## {group}: {TITLES[group]}\n"
        yield "| id | must hold | why |\n| --- | --- | --- |"
        yield "".join(f"| `{one.id}` | {one.statement}{_advisory(one)} | {one.why} |\n" for one in members)


def _group(requirement: Requirement) -> str:
    return requirement.id.partition("-")[0]


def _advisory(requirement: Requirement) -> str:
    return "" if requirement.mandatory else " (Advisory: reported, no reason to fail.)"
