"""Captions from a vision-language model on this machine."""

import hashlib
import json
from functools import cached_property
from typing import Any

import torch
from PIL import Image
from transformers import (
    AutoConfig,
    AutoModelForImageTextToText,
    AutoProcessor,
    Idefics3Config,
    Idefics3ForConditionalGeneration,
    Idefics3Processor,
    PreTrainedModel,
    ProcessorMixin,
    pipeline,
)
from transformers.models.idefics3.image_processing_pil_idefics3 import Idefics3ImageProcessorPil

from gedbd.encoders.captioning import Caption, check_prompt
from gedbd.encoders.encoder_weights import fingerprint
from gedbd.encoders.model_files import local_first
from gedbd.encoders.pretrained import tiny_tokenizer

TILE = 32  # pixels
PATCH = 8
SHRINK = 2
MAX_SIDE = 2 * TILE
TILES_PER_SIDE = 6
CHAT = (
    "{% for message in messages %}{{ message['role'] }}:{% for part in message['content'] %}"
    "{{ '<image>' if part['type'] == 'image' else part['text'] }}{% endfor %}<end_of_utterance>\n{% endfor %}"
    "{% if add_generation_prompt %}assistant:{% endif %}"
)
TASK = "image-text-to-text"


class ModelCaptioner:
    """Asks a model about images by greedy decoding, on a GPU if there is one.

    Args:
        model: A model that continues a text with images in it.
        processor: The processor of the model; a chat template, if it has one, is applied to the prompt.
        prompt: The question about each image.
        max_new_tokens: Maximum number of tokens of an answer.
    """

    def __init__(self, model: PreTrainedModel, processor: ProcessorMixin, prompt: str, max_new_tokens: int) -> None:
        tokenizer = processor.tokenizer
        tokenizer.padding_side = "left"  # the answer begins right where the prompt ends
        if tokenizer.pad_token is None:
            tokenizer.pad_token = tokenizer.eos_token
        device = "cuda" if torch.cuda.is_available() else "cpu"
        self.pipe: Any = pipeline(  # type: ignore[call-overload]
            TASK, model=model, processor=processor, device=device, trust_remote_code=False
        )
        self.text = f"{getattr(processor, 'image_token', '')}{prompt}"
        if processor.chat_template is not None:
            content: Any = [{"type": "image"}, {"type": "text", "text": prompt}]
            messages = [{"role": "user", "content": content}]
            self.text = str(processor.apply_chat_template(messages, add_generation_prompt=True))
        self.max_new_tokens = max_new_tokens

    @cached_property
    def key(self) -> str:
        """A hash of everything but the image that a caption depends on."""
        images = json.loads(self.pipe.processor.image_processor.to_json_string())
        settings = [fingerprint(self.pipe.model), self.text, self.max_new_tokens, images]
        return hashlib.blake2b(json.dumps(settings, sort_keys=True).encode(), digest_size=16).hexdigest()

    def announce(self, count: int) -> str:
        """Empty: no image leaves this machine."""
        return ""

    def describe(self, images: list[Image.Image]) -> list[Caption]:
        """One caption for each image, without the prompt, in one line. All images form one batch."""
        # One input with many images: unlike the processor's batches, the pipeline's cannot hold images with different
        # numbers of tiles.
        answers = self.pipe(
            images=images,
            text=[self.text] * len(images),
            return_full_text=False,
            generate_kwargs={"do_sample": False, "max_new_tokens": self.max_new_tokens},
        )
        texts = [" ".join(answer["generated_text"].split()) for answer in answers]
        return [Caption(text) for text in texts]


def load_captioner(name: str, model: str, prompt: str, max_new_tokens: int) -> ModelCaptioner:
    """Loads a pretrained vision-language model from the hub or a folder.

    Args:
        name: Short name, for messages.
        model: Name on the Hugging Face hub, or a folder.
        prompt: The question about each image.
        max_new_tokens: Maximum number of tokens of an answer.

    Raises:
        ValueError: If the model is not available, is no vision-language model, or needs a missing package.
    """
    check_prompt(prompt)
    # CPUs without matrix units are slow in the half precision that weights are published in.
    precision = "auto" if torch.cuda.is_available() else torch.float32
    processor, loaded = local_first("captioner", name, model, lambda local: _read(model, precision, local))
    return ModelCaptioner(loaded, processor, prompt, max_new_tokens)


def load_tiny_captioner(
    name: str, prompt: str, max_new_tokens: int, hidden: int, layers: int, seed: int
) -> ModelCaptioner:
    """A tiny random model; for the arguments see ``load_captioner`` and ``tiny_vision_model``."""
    check_prompt(prompt)
    processor = tiny_processor()
    model = tiny_vision_model(hidden, layers, seed, processor)
    return ModelCaptioner(model, processor, prompt, max_new_tokens)


def _read(model: str, precision: "torch.dtype | str", local: bool) -> tuple[Any, PreTrainedModel]:
    """Processor and model; nothing that their files name is run or fetched, see ``gedbd.encoders.model_files``."""
    # A small file first: without access to the hub, this fails at once.
    config = AutoConfig.from_pretrained(model, trust_remote_code=False, local_files_only=local)
    config._attn_implementation = None
    processor = AutoProcessor.from_pretrained(  # type: ignore[no-untyped-call]
        model, trust_remote_code=False, local_files_only=local
    )
    loaded = AutoModelForImageTextToText.from_pretrained(
        model, config=config, dtype=precision, trust_remote_code=False, local_files_only=local, use_safetensors=True
    )
    return processor, loaded


def tiny_processor() -> Idefics3Processor:
    """A processor of images, as at most two by two tiles of 32 pixels, and of texts, by ``tiny_tokenizer``."""
    tokenizer = tiny_tokenizer()
    positions = range(1, TILES_PER_SIDE + 1)
    marks = ["<fake_token_around_image>", "<image>", "<end_of_utterance>", "<global-img>"]
    marks += [f"<row_{row}_col_{column}>" for row in positions for column in positions]
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
