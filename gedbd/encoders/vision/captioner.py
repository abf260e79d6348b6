"""Describes images with a vision-language model."""

import hashlib
import json
from functools import cached_property
from typing import Any

import torch
from PIL import Image
from safetensors import SafetensorError
from transformers import (
    AutoConfig,
    AutoModelForImageTextToText,
    AutoProcessor,
    PreTrainedModel,
    ProcessorMixin,
    pipeline,
)

from gedbd.encoders.vision.caption_cache import Caption
from gedbd.encoders.vision.tiny_vision import tiny_processor, tiny_vision_model
from gedbd.encoders.weights import fingerprint

TASK = "image-text-to-text"


class Captioner:
    """Asks a model about images and returns its answers, by greedy decoding; on a GPU if there is one.

    Args:
        model: A model that goes on with a text in which images stand.
        processor: Its processor. It may have a chat template, which the prompt is then put into.
        prompt: What is asked about each image.
        max_new_tokens: Length that answers are cut to.
    """

    def __init__(self, model: PreTrainedModel, processor: ProcessorMixin, prompt: str, max_new_tokens: int) -> None:
        tokenizer = processor.tokenizer
        tokenizer.padding_side = "left"  # the answer begins right where the prompt ends
        if tokenizer.pad_token is None:
            tokenizer.pad_token = tokenizer.eos_token
        device = "cuda" if torch.cuda.is_available() else "cpu"
        self.pipe: Any = pipeline(TASK, model=model, processor=processor, device=device)  # type: ignore[call-overload]
        self.text = _ask(processor, prompt)
        self.max_new_tokens = max_new_tokens

    @cached_property
    def key(self) -> str:
        """A hash of all that a caption depends on beside the image, by which kept captions are told apart."""
        images = json.loads(self.pipe.processor.image_processor.to_json_string())
        about = [fingerprint(self.pipe.model), self.text, self.max_new_tokens, images]
        return hashlib.blake2b(json.dumps(about, sort_keys=True).encode(), digest_size=16).hexdigest()

    def announce(self, count: int) -> str:
        """Nothing: no image leaves this machine."""
        return ""

    def describe(self, images: list[Image.Image]) -> list[Caption]:
        """One caption an image, without the prompt, in one line. All images are read as one batch."""
        # As one input of many images: the pipeline's own batches cannot hold images that are cut into more or fewer
        # tiles, the processor's can.
        found = self.pipe(
            images=images,
            text=[self.text] * len(images),
            return_full_text=False,
            generate_kwargs={"do_sample": False, "max_new_tokens": self.max_new_tokens},
        )
        texts = [" ".join(answer["generated_text"].split()) for answer in found]
        return [Caption(text) for text in texts]


def load_captioner(name: str, model: str, prompt: str, max_new_tokens: int) -> Captioner:
    """Loads a pretrained vision-language model from the hub or a folder.

    Args:
        name: Short name, for messages.
        model: Name on the Hugging Face hub, or a folder.
        prompt: See ``Captioner``.
        max_new_tokens: See ``Captioner``.

    Raises:
        ValueError: If the model cannot be had, is not of that kind, or needs a package that is not installed.
    """
    _check(prompt, max_new_tokens)
    # CPUs without matrix units are slow in the half precision that weights are published in.
    precision = "auto" if torch.cuda.is_available() else torch.float32
    try:
        AutoConfig.from_pretrained(model)  # one small file: without access to the hub, that shows soonest here
        processor = AutoProcessor.from_pretrained(model)  # type: ignore[no-untyped-call]
        found = AutoModelForImageTextToText.from_pretrained(model, dtype=precision)
    except ImportError as error:
        raise ValueError(
            f"captioner={name}: {model} needs a package that is missing: {_first_line(error)}. Install it; torchvision"
            " must be one built for the torch that is there"
        ) from error
    except (OSError, ValueError, SafetensorError) as error:
        raise ValueError(
            f"captioner={name}: cannot load {model}: {_first_line(error)}. Without access to the hub, download it"
            " elsewhere and say captioner.model=<folder>."
        ) from error
    return Captioner(found, processor, prompt, max_new_tokens)


def load_tiny_captioner(name: str, prompt: str, max_new_tokens: int, hidden: int, layers: int, seed: int) -> Captioner:
    """A tiny random model behind the same command as ``load_captioner``; see ``gedbd.encoders.vision.tiny_vision``."""
    _check(prompt, max_new_tokens)
    processor = tiny_processor()
    model = tiny_vision_model(hidden, layers, seed, processor)
    return Captioner(model, processor, prompt, max_new_tokens)


def _check(prompt: str, max_new_tokens: int) -> None:
    if not prompt.strip():
        raise ValueError("captioner.prompt is empty: say what to tell about an image")
    if max_new_tokens < 1:
        raise ValueError(f"captioner.max_new_tokens={max_new_tokens} must be 1 or more")


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0].rstrip(".")


def _ask(processor: ProcessorMixin, prompt: str) -> str:
    """The text of one question: an image, then the prompt, in the words of the chat template if there is one."""
    if processor.chat_template is None:
        return f"{getattr(processor, 'image_token', '')}{prompt}"
    content: Any = [{"type": "image"}, {"type": "text", "text": prompt}]
    asked = processor.apply_chat_template([{"role": "user", "content": content}], add_generation_prompt=True)
    return str(asked)
