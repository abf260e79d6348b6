"""A converted encoder that OpenVINO runs on the CPU: arrays to arrays, without PyTorch."""

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import openvino as ov

PRECISIONS = {"float32": "f32", "bfloat16": "bf16", "int8": "f32"}
MIN_FIXED_LENGTH = 32  # tokens
OPENVINO_TOKENS = 1024  # padded tokens of a batch at which OpenVINO is fast


class OpenVinoModel:
    """Encodes several batches at a time.

    Args:
        model: ``(U, L), (U, L) -> (U, hidden)`` for any U and L: token ids, attention mask, pooled vectors.
        precision: ``float32`` or ``bfloat16``; ``int8`` for a model that was quantised.
        num_threads: Number of threads; 0 for one per core.
        max_tokens: Length of the longest text that the model has positions for; None if it has no limit.
    """

    def __init__(self, model: "ov.Model", precision: str, num_threads: int, max_tokens: int | None) -> None:
        self.model = model
        self.precision = precision
        self.num_threads = num_threads
        self.max_tokens = max_tokens
        self._queues: dict[str, ov.AsyncInferQueue] = {}
        self._fixed: dict[int, ov.InferRequest] = {}  # by length

    def encode(self, batches: Iterable[tuple[np.ndarray, np.ndarray]]) -> Iterator[np.ndarray]:
        """Pooled vectors ``(U, hidden)`` float32 of each batch, in the order of the batches.

        A single batch uses all threads; several batches run in parallel.

        Args:
            batches: ``input_ids (U, L)`` and ``attention_mask (U, L)``, both int64.
        """
        batches = iter(batches)
        head = list(islice(batches, 2))
        if len(head) == 1 and len(head[0][0]) == 1:
            length = self.padded_length(head[0][0].shape[1])
            if length % MIN_FIXED_LENGTH == 0:
                yield self._encode_one(*head[0], length)
                return
        # A hint fixes how many requests share the threads, so there is a queue for each hint.
        hint = "THROUGHPUT" if len(head) > 1 else "LATENCY"
        if hint not in self._queues:
            self._queues[hint] = import_openvino().AsyncInferQueue(self._compile(self.model, hint))
        queue = self._queues[hint]
        # Requests finish in any order: results wait in ``done`` until all earlier ones have been yielded.
        done: dict[int, np.ndarray] = {}
        queue.set_callback(lambda request, number: done.update({number: request.get_output_tensor().data.copy()}))
        next_number = 0
        try:
            for number, inputs in enumerate(chain(head, batches)):
                queue.start_async(list(inputs), number)
                while next_number in done:
                    yield done.pop(next_number)
                    next_number += 1
        finally:
            queue.wait_all()
        yield from (done[number] for number in sorted(done))

    def padded_length(self, tokens: int) -> int:
        """The length that a single text is padded to: 32, 64, 96, 128, 192, 256, 384, 512 ...; its own near the limit.

        More lengths would save little time, and each takes as much memory as the weights.
        """
        step = max(MIN_FIXED_LENGTH, (1 << (tokens - 1).bit_length()) // 4)
        length = -(-tokens // step) * step  # rounded up
        return length if self.max_tokens is None or length <= self.max_tokens else tokens

    def _encode_one(self, input_ids: np.ndarray, attention_mask: np.ndarray, length: int) -> np.ndarray:
        """Encodes one text by a model of fixed shape: with dynamic shapes, each new length takes up to twice as long.

        Returns:
            ``(1, hidden)``.
        """
        if length not in self._fixed:
            model = self.model.clone()
            model.reshape({part: [1, length] for part in model.inputs})
            self._fixed[length] = self._compile(model, "LATENCY").create_infer_request()
        padding = ((0, 0), (0, length - input_ids.shape[1]))
        inputs = [np.pad(part, padding) for part in (input_ids, attention_mask)]
        return np.array(self._fixed[length].infer(inputs)[0])

    def _compile(self, model: "ov.Model", hint: str) -> "ov.CompiledModel":
        ov = import_openvino()

        settings = {
            "PERFORMANCE_HINT": hint,
            "INFERENCE_PRECISION_HINT": PRECISIONS[self.precision],
            "INFERENCE_NUM_THREADS": self.num_threads,
            # Pinned threads wait for whatever else runs on their core, such as other searches.
            "ENABLE_CPU_PINNING": False,
        }
        return ov.Core().compile_model(model, "CPU", settings)


@cache
def has_bfloat16() -> bool:
    """Whether this CPU computes in bfloat16."""
    ov = import_openvino()

    return "BF16" in ov.Core().get_property("CPU", "OPTIMIZATION_CAPABILITIES")


def import_openvino() -> Any:
    """Imports ``openvino`` without the usage report that its first import in a process sends."""
    with telemetry_disabled():
        import openvino
    return openvino


@contextmanager
def telemetry_disabled() -> Iterator[None]:
    """Disables the usage reports of openvino and nncf, which send none if ``CI`` is set."""
    before = os.environ.get("CI")
    os.environ["CI"] = "true"
    try:
        yield
    finally:
        os.environ.pop("CI", None)
        if before is not None:
            os.environ["CI"] = before
