"""Small cases that several tests use, made by hand."""

from __future__ import annotations

from backends.contract import Direction, Memory
from strategies.case import Case, Pool, Submission, Tensor

Ids = tuple[int, ...]
FEW: tuple[Ids, Ids] = ((2, 0, 1), (1, 3, 0))


def load(page_bytes: int = 16, ids: tuple[Ids, Ids] = FEW, **fields: object) -> Case:
    """A load of a few blocks between pools of four; `fields` are those of the case, or of the one tensor's pools."""
    source = Pool(4, int(fields.pop("source_stride", page_bytes)))  # type: ignore[call-overload]
    destination = Pool(4, int(fields.pop("destination_stride", page_bytes)))  # type: ignore[call-overload]
    tensor = Tensor(page_bytes, source, destination, *ids)
    submission = fields.pop("submission", Submission())
    return Case(Direction.LOAD, Memory.PAGEABLE, Memory.DEVICE, (tensor,), submission, **fields)  # type: ignore[arg-type]
