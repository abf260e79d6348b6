"""The tag network and node2vec at the size of askubuntu: 366,000 questions, 3,000 tags."""

import numpy as np
from measure import Row, peak_mb, seconds

from gedbd.encoders.node2vec import TagEncoder, TagNetwork, build_tag_network, random_walks

SECTION = "tag network"
QUESTIONS, TAGS, MAX_TAGS, TOPICS, LABELS = 366_000, 3_000, 5, 60, 30_000


def main() -> list[Row]:
    """Measures."""
    before = peak_mb()
    tags = _generated(TAGS)
    network = build_tag_network(tags)
    size = f"{len(tags):,} questions, {len(network.tags):,} tags, {network.weights.nnz // 2:,} edges"
    return [
        Row(SECTION, "build", seconds(lambda: build_tag_network(tags)), "s", note=size),
        Row(SECTION, "walks", seconds(lambda: _walk(network)), "s", note="5 walks of 80 tags a tag"),
        Row(
            SECTION,
            "walks and vectors",
            seconds(lambda: TagEncoder().learn(network)),
            "s",
            note="64 dimensions, 5 epochs",
        ),
        Row(SECTION, "memory", peak_mb() - before, "MB", note="questions included"),
        Row(SECTION, f"build, {LABELS:,} tags", seconds(lambda: build_tag_network(_generated(LABELS))), "s"),
    ]


def _walk(network: TagNetwork) -> np.ndarray:
    return random_walks(network.weights, walks=5, length=80, p=1.3, q=0.8, rng=np.random.default_rng(0))


def _generated(num_tags: int) -> list[tuple[str, ...]]:
    """Questions of 1 to 5 tags: Zipf's law, and half of a question's tags from one topic."""
    rng = np.random.default_rng(0)
    frequency = 1 / np.arange(1, num_tags + 1)
    drawn = rng.choice(num_tags, size=(QUESTIONS, MAX_TAGS), p=frequency / frequency.sum())
    topic = drawn[:, :1] % TOPICS
    # Tag 130 is of the topic 130 % 60 = 10: with the topic 7 it becomes 127.
    same = drawn - drawn % TOPICS + topic
    chosen = np.where(rng.random(drawn.shape) < 0.5, same.clip(max=num_tags - 1), drawn)
    names = np.array([f"tag{number}" for number in range(num_tags)], dtype=object)
    sizes = rng.integers(1, MAX_TAGS + 1, size=QUESTIONS)
    return [tuple(dict.fromkeys(names[row[:size]])) for row, size in zip(chosen, sizes, strict=True)]
