"""Attention of encoders that are converted into a graph of another program."""

from transformers import PreTrainedModel

from gedbd.encoders import packing


def make_traceable(backbone: PreTrainedModel) -> None:
    """Gives a backbone attention over padded batches that survives conversion.

    Converters write the fused attention of PyTorch with scores of minus infinity where a token may not look. With a
    sliding window, as in ModernBERT, padding far from the text may look nowhere, and its vector is not a number, which
    spreads to the whole text. The plain implementation adds the smallest finite number instead.
    """
    if hasattr(backbone.config, "sliding_window"):
        backbone.set_attn_implementation("eager")
    elif backbone.config._attn_implementation == packing.NAME:
        backbone.set_attn_implementation("sdpa")
