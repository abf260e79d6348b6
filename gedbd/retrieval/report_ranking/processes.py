"""Work on many items by several processes, which share the arrays that they read."""

import mmap
import pickle
import tempfile
import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar, cast

import numpy as np

Item = TypeVar("Item")
Result = TypeVar("Result")

ALIGNMENT = 64  # bytes; arrays in the file begin at multiples of it
WORK, ARRAYS, ENDS = "work.pickle", "arrays.bin", "ends.npy"


def num_available_cores() -> int:
    """Cores that this process may use; ``LOKY_MAX_CPU_COUNT`` lowers it."""
    from joblib import cpu_count

    return int(cpu_count())


def map_in_processes(
    work: Callable[[Item], Result], items: Sequence[Item], num_processes: int | None = None
) -> Iterator[Result]:
    """The results of some work on items, in the order of the items, computed by several processes.

    The work is written to a temporary folder once. The processes map its arrays into memory: all of them read the same
    copy, and what one writes into an array no other one sees. BLAS has one thread in each process. The processes stay
    for the next call, for at most five minutes. An interruption ends them.

    Args:
        work: Can be pickled, such as an instance of a class of a module.
        items: Likewise; small.
        num_processes: None for ``num_available_cores``; 1 works in this process.
    """
    num_processes = num_available_cores() if num_processes is None else num_processes
    if num_processes == 1:
        yield from map(work, items)
        return
    from joblib import Parallel, delayed

    # loky replaces a process that uses 300 MB more than at first, which the parts of the file that it reads count as.
    warnings.filterwarnings("ignore", "A worker stopped while some jobs were given", UserWarning)
    # On Windows, files that a process has mapped into memory cannot be deleted: the system does it later.
    with tempfile.TemporaryDirectory(prefix="gedbd-", ignore_cleanup_errors=True) as folder:
        _write(work, Path(folder))
        # By default twice as many items are begun as there are processes: few results wait in memory.
        parallel = Parallel(num_processes, backend="loky", return_as="generator", batch_size=1, max_nbytes=None)
        yield from parallel(delayed(_work_on)(folder, item) for item in items)


def _write(work: object, folder: Path) -> None:
    """Writes an object, and its arrays one after the other into a file of their own."""
    buffers: list[pickle.PickleBuffer] = []
    content = pickle.dumps(work, protocol=5, buffer_callback=buffers.append)
    (folder / WORK).write_bytes(content)
    ends = []
    with (folder / ARRAYS).open("wb") as file:
        for buffer in buffers:
            file.write(bytes(-file.tell() % ALIGNMENT))
            start = file.tell()
            file.write(buffer.raw())
            ends.append((start, file.tell()))
        file.write(b"\0")  # an empty file cannot be mapped
    np.save(folder / ENDS, np.array(ends, dtype=np.int64).reshape(-1, 2))


@lru_cache(maxsize=1)
def _read(folder: str) -> Callable[[Any], Any]:
    """What ``_write`` wrote; its arrays are private copies of the parts of the file that are written to."""
    with (Path(folder) / ARRAYS).open("rb") as file:
        mapped = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY))
    buffers = [mapped[start:end] for start, end in np.load(Path(folder) / ENDS).tolist()]
    return cast(Callable[[Any], Any], pickle.loads((Path(folder) / WORK).read_bytes(), buffers=buffers))


def _work_on(folder: str, item: Item) -> Any:
    return _read(folder)(item)
