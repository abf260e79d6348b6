"""Settings of hierarchical momentum contrast."""

from dataclasses import dataclass

LEVELS = ("feature", "model", "bank")
POOLINGS = ("mean", "cls")
SIMILARITIES = ("cosine", "max_sim")


@dataclass(frozen=True)
class HmcblSettings:
    """The model and the loss.

    Source: a talk on "Pre-training Code Representation with Semantic Flow Graph for Effective Bug Localization" (2023).
    It names no number; ``num_layers``, ``dim``, ``temperature``, ``momentum`` and ``bank_size`` are those of its
    authors' code.

    Args:
        num_layers: Last layers of an encoder whose token vectors are concatenated.
        pooling: ``mean`` of the tokens of the text, or ``cls``, the first token. The talk does not say which.
        dim: Size of projected vectors.
        projector_hidden: Units of the projector's hidden layer.
        temperature: Divisor of the cosines.
        momentum: Share of its old weights that a momentum twin keeps in a step. With 0 it is the encoder itself, so
            that keys come from the encoders.
        bank_size: Keys of a memory bank.
        feature_level: Weight of the loss of concatenated features; 0 leaves it out.
        model_level: Weight of the loss of projected vectors; 0 leaves it out.
        bank_level: Weight of the loss against the memory banks; 0 leaves out banks and momentum twins.
        similarity: Of a report and a change at the feature and model levels: ``cosine`` of their pooled vectors, or
            ``max_sim`` of their tokens, as in the authors' code. With it the projector reads each token; the vector of
            a text is the mean of its projected tokens, of length 1 each, at the bank level and in rankings.
        both_directions: Whether changes look for their reports too at the feature and model levels; the bank level
            always has both directions.
        bank_positives: Whether the keys of positives enter the memory banks too, or those of negatives alone.
        train_encoders: Whether the encoders are trained. If not, only the projectors are, which takes little time: each
            text is read once. The feature level is left out then, as there is nothing that it could train.

    Raises:
        ValueError: If a choice is unknown, does not go with another one, or leaves nothing to train.
    """

    num_layers: int = 4
    pooling: str = "mean"
    dim: int = 128
    projector_hidden: int = 512
    temperature: float = 0.07
    momentum: float = 0.999
    bank_size: int = 2048
    feature_level: float = 1.0
    model_level: float = 1.0
    bank_level: float = 1.0
    similarity: str = "cosine"
    both_directions: bool = True
    bank_positives: bool = True
    train_encoders: bool = True

    def __post_init__(self) -> None:
        if self.pooling not in POOLINGS:
            raise ValueError(f"task.model.settings.pooling={self.pooling} is unknown: choose {' or '.join(POOLINGS)}")
        if self.similarity not in SIMILARITIES:
            raise ValueError(
                f"task.model.settings.similarity={self.similarity} is unknown: choose {' or '.join(SIMILARITIES)}"
            )
        if self.by_tokens and (self.pooling != "mean" or not self.train_encoders):
            raise ValueError(
                "task.model.settings.similarity=max_sim compares the tokens of encoders that are trained: set"
                " pooling=mean and train_encoders=true there"
            )
        if not self.weights:
            levels = (
                "feature_level, model_level and bank_level" if self.train_encoders else "model_level and bank_level"
            )
            raise ValueError(f"one of task.model.settings.{levels} must be above 0: nothing would be trained")

    @property
    def weights(self) -> dict[str, float]:
        """The levels that are not left out, and their weights."""
        levels = LEVELS if self.train_encoders else LEVELS[1:]
        found = {level: float(getattr(self, f"{level}_level")) for level in levels}
        return {level: weight for level, weight in found.items() if weight > 0}

    @property
    def by_tokens(self) -> bool:
        """Whether reports and changes are compared by their tokens."""
        return self.similarity == "max_sim"

    @property
    def projects(self) -> bool:
        """Whether a loss of projected vectors trains the projectors."""
        return self.model_level > 0 or self.bank_level > 0
