"""Writes the text branch of a finished run in an export format, with a model card."""

from pathlib import Path

from hydra.utils import instantiate

from gedbd.encoders.export_formats import Format, largest_difference, some_texts, whole_folder
from gedbd.encoders.loaded_encoder import LoadedEncoder
from gedbd.evaluation.model_card import MADE_UP, model_card
from gedbd.evaluation.run_folders import Run
from gedbd.experiments.checkpoint import check_corpus, find_run
from gedbd.experiments.reading import read_corpus
from gedbd.io.console import stage
from gedbd.text.templates import Text


@stage("export and check")
def export_run(folder: Path, checkpoint: str, name: str, form: Format, out: Path, cache_dir: str) -> tuple[int, float]:
    """Writes the folder; where its vectors differ from gedbd's, nothing is left behind.

    Args:
        folder: The run folder.
        checkpoint: ``best`` or ``last``.
        name: The format's name, for the model card.
        form: The format.
        out: A folder that does not exist, or an empty one.
        cache_dir: Where vectors are kept.

    Returns:
        How many texts were compared, and the largest difference of their vectors' numbers.

    Raises:
        ValueError: If the run is unfinished, its corpus has changed, or the vectors differ.
    """
    saved, weights = find_run(folder, checkpoint)
    if not (folder / "results.csv").is_file():
        raise ValueError(f"run={folder} is unfinished: resume it with ckpt_path={folder}/checkpoints/last.ckpt")
    corpus = read_corpus(saved.dataset)
    check_corpus(folder, corpus)
    encoder: LoadedEncoder = instantiate(saved.encoder, cache_dir=cache_dir)
    encoder.load_weights(weights)
    text: Text = instantiate(saved.text)
    texts = some_texts(text(corpus.reports, encoder.tokenizer, encoder.text_tokens).texts)
    expected = encoder.encode(texts)
    with whole_folder(out) as fresh:
        form.write(fresh, encoder)
        (example,) = text(MADE_UP, encoder.tokenizer, encoder.text_tokens).texts
        (fresh / "README.md").write_text(model_card(Run(folder), corpus, name, checkpoint, example))
        difference = largest_difference(form.read(fresh, texts), expected)
    return len(texts), difference
