"""Low-rank adapters of an encoder's linear layers: W x + 2 B A x, where only A and B are trained.

Source: Hu et al., "LoRA: Low-Rank Adaptation of Large Language Models" (2022).
"""

import math
from typing import Any

from torch import Tensor, nn

SCALE = 2.0  # alpha / r of the paper, for alpha = 2 r
DOWN, UP = ".lora_A", ".lora_B"  # what their names add to that of a layer


def add_adapters(backbone: nn.Module, rank: int) -> None:
    """Freezes all weights and adds an adapter to each linear layer, in place; the output stays the same until training.

    A layer gets the parameters ``lora_A (rank, in)``, initialised as in peft, and ``lora_B (out, rank)``, zeros. No
    weight is renamed. ``rank`` is at least 1.

    Raises:
        ValueError: If there is no linear layer.
    """
    layers = [module for module in backbone.modules() if isinstance(module, nn.Linear)]
    if not layers:
        raise ValueError("this encoder has no linear layers, to which adapters could be added: train all its weights")
    backbone.requires_grad_(False)
    for layer in layers:
        layer.lora_A = nn.Parameter(layer.weight.new_empty(rank, layer.in_features))
        layer.lora_B = nn.Parameter(layer.weight.new_zeros(layer.out_features, rank))
        nn.init.kaiming_uniform_(layer.lora_A, a=math.sqrt(5))
        layer.register_forward_hook(_add)


def merge_adapters(state: dict[str, Any]) -> dict[str, Any]:
    """Weights, by name, with the adapters among them added to the weights of their layers."""
    merged = {name: value for name, value in state.items() if not name.endswith((DOWN, UP))}
    for name, down in state.items():
        if name.endswith(DOWN):
            path = name.removesuffix(DOWN)
            merged[f"{path}.weight"] = merged[f"{path}.weight"] + SCALE * (state[path + UP] @ down)
    return merged


def _add(layer: nn.Module, inputs: tuple[Tensor], output: Tensor) -> Tensor:
    """A forward hook: the output of a layer and its adapter."""
    assert isinstance(layer.lora_A, Tensor)
    assert isinstance(layer.lora_B, Tensor)
    added: Tensor = output + SCALE * (inputs[0] @ layer.lora_A.T) @ layer.lora_B.T
    return added
