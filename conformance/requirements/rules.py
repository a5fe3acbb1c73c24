"""What must hold of a selection rule, as data, for SPEC.md and for the claims that name these ids."""

from __future__ import annotations

from conformance.requirements.copies import Requirement

TABLE = "SELECT-TABLE"
BOUNDARY = "SELECT-BOUNDARY"
EXPLICIT = "SELECT-EXPLICIT"
DIRECTIONS = "SELECT-DIRECTIONS"
SAFETY = "SELECT-SAFETY"
STABLE = "SELECT-STABLE"
BLIND_SPOT = "SELECT-BLIND-SPOT"
PERFORMANCE = "SELECT-PERFORMANCE"

REQUIREMENTS = (
    Requirement(
        TABLE,
        "For every platform, direction, kind of memory and set of sizes, the rule chooses the backend that the table "
        "in docs/selection.md chooses, and the same chunk.",
        "The rule decides which code moves every block; written twice, by different hands, it is hard to get wrong in "
        "the same way.",
    ),
    Requirement(
        BOUNDARY,
        "The published thresholds are exact: the choice changes at the byte and at the descriptor that the table "
        "names, not one beside it.",
        "No real model has a page near the 28 KiB threshold, so only a made-up size shows an off-by-one.",
    ),
    Requirement(
        EXPLICIT,
        "A backend asked for by name is used, or the call raises an error with the reason. Another one is never used "
        "instead.",
        "Whoever names a backend is measuring or debugging it; a silent fallback makes them measure something else.",
    ),
    Requirement(
        DIRECTIONS,
        "Loads and stores of the same pages take the same path, or a row of the table says why they do not.",
        "An asymmetry nobody decided on is how one direction stays untested.",
    ),
    Requirement(
        SAFETY,
        "The rule never chooses what the facts rule out: a kernel on memory that it can't dereference, a batch call "
        "where it is refused, sizes or addresses that the kernel can't copy whole.",
        "A wrong guess is an illegal access that ends the process, or bytes left out without a word.",
    ),
    Requirement(
        STABLE,
        "Equal facts get equal answers; the order of the page sizes and repeats among them do not matter.",
        "The sizes come from a walk over layers, whose order belongs to the model and not to the rule.",
    ),
    Requirement(
        BLIND_SPOT,
        "Nor does the rule choose what is ruled out by facts that it does not look at.",
        "A rule that judges by page while fragments are submitted is right only as long as nobody changes the layout.",
        mandatory=False,
    ),
    Requirement(
        PERFORMANCE,
        "Where a measurement on some device found another safe backend faster, the rule chooses that one.",
        "Thresholds tuned on one device serve all devices; what they cost is worth knowing, but it is no error.",
        mandatory=False,
    ),
)
