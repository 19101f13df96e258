"""Whether a checkpoint may be relied on before the files that it replaces are removed (I15, I24).

    why = unreliable(storage, 25, files)          # empty: everything before version 25 may go

Two conditions. First, each of its files can be read whole, with the number of files that other
sources have (``delta.soundness.judge``). Second, the files of its version are, one by one, the
files that the same version has by an older start: an older checkpoint, or version 0, and the
commits after it. If an earlier clean-up left no older start, the first condition alone decides. So
a checkpoint with some changed bytes is found even if its writer left no checksums of pages. The
state of the version is read three times; the keys of the commits after the older start are in
memory.
"""

from __future__ import annotations

from hashlib import blake2b

from turnstile.delta.core.segments import complete_checkpoints, starts, vector_id
from turnstile.delta.core.soundness import REMOVE_CHECKPOINT
from turnstile.delta.log.files import LogFiles, sizes_of
from turnstile.delta.soundness.checkpoints import judge_checkpoint
from turnstile.maintenance.state import TableState, open_state
from turnstile.store.core.errors import UnsupportedTable
from turnstile.store.core.names import LOG
from turnstile.store.ports import LogStorage

_MASK = (1 << 128) - 1


def unreliable(storage: LogStorage, version: int, files: LogFiles) -> str:
    """Returns why the checkpoint of ``version`` cannot be relied on; empty if it can. ``files``:
    the listing of the log. Raises StorageFault."""
    sizes = sizes_of(files).checkpoints[version]
    if not complete_checkpoints(sizes):
        return (
            f"{LOG}{min(sizes)} is empty, or one of several parts of which some are missing; remove it, or bring the "
            f"others back"
        )
    judgement = judge_checkpoint(storage, version, files, upto_bytes=1 << 62)
    if judgement.faults:
        return f"{judgement.faults[0].message}; {judgement.faults[0].remedy}"
    if judgement.not_judged:
        return f"{judgement.not_judged[0].path} was not read: {judgement.not_judged[0].reason}"
    first = f"{LOG}{min(sizes)}"
    try:
        state = open_state(storage, version, files)
        if state.start != version:
            return f"{first} cannot be read; {REMOVE_CHECKPOINT}"
        own = _sum_digests(state)
    except UnsupportedTable as error:
        return error.message
    older = {at: stats for at, stats in files.checkpoints.items() if at < version}
    if next(starts(older, files.commits, version), None) is None:  # an earlier clean-up removed what could be compared
        return ""
    try:
        state = open_state(storage, version, files, without=(version,))
        other = _sum_digests(state)
    except UnsupportedTable as error:
        return f"{first} cannot be compared with an older start: {error.message}"
    if own != other:
        start = f"the checkpoint of version {state.start}" if state.start >= 0 else "version 0"
        text = f"{first} has other files than {start} and the commits after it: {own[0]} files, and {other[0]}"
        return f"{text}; 'turnstile verify' says which file is damaged; remove that checkpoint, or bring it back"
    return ""


def _sum_digests(state: TableState) -> tuple[int, int]:
    """The number of files of a state, and a sum of their digests in any order."""
    count = 0
    total = 0
    for add in state.files():
        text = f"{add.path}\0{vector_id(add.deletionVector)}\0{add.size}"
        total += int.from_bytes(blake2b(text.encode(errors="surrogatepass"), digest_size=16).digest())
        count += 1
    return count, total & _MASK
