"""A tiny Idefics3 (the architecture of SmolVLM) with random weights, built in memory, for tests and dry runs."""

import torch
from transformers import Idefics3Config, Idefics3ForConditionalGeneration, Idefics3Processor
from transformers.models.idefics3.image_processing_pil_idefics3 import Idefics3ImageProcessorPil

from gedbd.encoders.tiny import tiny_tokenizer

TILE = 32  # pixels
PATCH = 8
SHRINK = 2
MAX_SIDE = 2 * TILE
TILES_A_SIDE = 6
CHAT = (
    "{% for message in messages %}{{ message['role'] }}:{% for part in message['content'] %}"
    "{{ '<image>' if part['type'] == 'image' else part['text'] }}{% endfor %}<end_of_utterance>\n{% endfor %}"
    "{% if add_generation_prompt %}assistant:{% endif %}"
)


def tiny_processor() -> Idefics3Processor:
    """Cuts images into at most two by two tiles of 32 pixels, and texts into the word pieces of ``tiny_tokenizer``."""
    tokenizer = tiny_tokenizer()
    places = range(1, TILES_A_SIDE + 1)
    marks = ["<fake_token_around_image>", "<image>", "<end_of_utterance>", "<global-img>"]
    marks += [f"<row_{row}_col_{column}>" for row in places for column in places]
    tokenizer.add_special_tokens({"additional_special_tokens": marks})
    images = Idefics3ImageProcessorPil(size={"longest_edge": MAX_SIDE}, max_image_size={"longest_edge": TILE})
    return Idefics3Processor(images, tokenizer, (TILE // PATCH // SHRINK) ** 2, CHAT)


def tiny_vision_model(
    hidden: int, layers: int, seed: int, processor: Idefics3Processor
) -> Idefics3ForConditionalGeneration:
    """An Idefics3 of ``layers`` layers and ``hidden`` units in both of its parts; the seed fixes the weights."""
    sizes = {
        "hidden_size": hidden,
        "intermediate_size": hidden,
        "num_hidden_layers": layers,
        "num_attention_heads": 2,
        "initializer_range": 0.5,  # wide enough for answers that depend on the image
    }
    tokenizer = processor.tokenizer
    text = {"vocab_size": len(tokenizer), "pad_token_id": tokenizer.pad_token_id, "num_key_value_heads": 2}
    text |= {"model_type": "llama", "bos_token_id": None, "eos_token_id": None}
    config = Idefics3Config(
        image_token_id=processor.image_token_id,
        scale_factor=SHRINK,
        vision_config={**sizes, "image_size": TILE, "patch_size": PATCH},
        text_config={**sizes, **text},
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return Idefics3ForConditionalGeneration(config)
