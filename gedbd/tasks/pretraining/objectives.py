"""The names of the objectives, the edges that each predicts, and their weights."""

from collections.abc import Mapping

from gedbd.encoders.code.inputs import InputParts

MLM = "mlm"
ALIGNMENT = "alignment"
EDGE = "edge"
TYPE = "type"
ROLE = "role"
EDGES_OF = {ALIGNMENT: "code_node", EDGE: "node_node", TYPE: "node_type", ROLE: "node_role"}
"""The field of ``CodeEdges`` that an objective predicts: E1 to E4 of the talk."""
OBJECTIVES = (MLM, *EDGES_OF)


def active_weights(weights: Mapping[str, float], parts: InputParts) -> dict[str, float]:
    """The weights above 0 of the objectives whose edges an input has.

    Args:
        weights: Weights by objective; one that is left out has weight 0.
        parts: The parts of an input.

    Raises:
        ValueError: If an objective is unknown, a weight is negative, or no objective is left.
    """
    for name, weight in weights.items():
        if name not in OBJECTIVES:
            raise ValueError(f"task.weights.{name} is unknown: choose among {', '.join(OBJECTIVES)}")
        if not 0 <= weight < float("inf"):
            raise ValueError(f"task.weights.{name}={weight} must be 0 or more")
    present = {MLM: True, ALIGNMENT: parts.nodes, EDGE: parts.nodes, TYPE: parts.types, ROLE: parts.roles}
    active = {name: float(weights.get(name, 0.0)) for name in OBJECTIVES if present[name]}
    active = {name: weight for name, weight in active.items() if weight > 0}
    if not active:
        raise ValueError("task.weights leaves no objective: give one whose part is in task.parts a weight above 0")
    return active
