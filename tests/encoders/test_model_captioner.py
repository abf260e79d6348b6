import json
from importlib.util import find_spec

import pytest
import torch
from PIL import Image

from gedbd.encoders.captioning import Caption
from gedbd.encoders.model_captioner import ModelCaptioner, load_captioner, load_tiny_captioner, tiny_processor

# Cut into one, two and four tiles beside the whole, and as odd as files can be.
SIZES = [(64, 40), (40, 64), (30, 10), (64, 20), (1, 1), (1, 300), (300, 1), (3, 3)]
SIZED = {"prompt": "Describe the screenshot.", "max_new_tokens": 6, "hidden": 32, "layers": 1}


@pytest.fixture(scope="module")
def captioner() -> ModelCaptioner:
    return load_tiny_captioner("tiny", **SIZED, seed=0)


@pytest.fixture(scope="module")
def images() -> list[Image.Image]:
    shades = Image.radial_gradient("L").convert("RGB")
    return [shades.resize(size) for size in SIZES]


@pytest.fixture
def saved(captioner, tmp_path):
    """The tiny model in a folder, as a user would have one from the hub."""
    captioner.pipe.model.save_pretrained(tmp_path / "model")
    captioner.pipe.processor.save_pretrained(tmp_path / "model")
    return tmp_path / "model"


def test_captions_do_not_depend_on_the_batch(captioner, images):
    together = captioner.describe(images)
    assert together == [captioner.describe([image])[0] for image in images]
    assert together == [*captioner.describe(images[:3]), *captioner.describe(images[3:])]
    assert together == captioner.describe(images[::-1])[::-1]
    assert len(set(together)) > 3


def test_a_caption_is_what_greedy_decoding_adds_to_the_prompt(captioner, images):
    model, processor = captioner.pipe.model, captioner.pipe.processor
    inputs = processor(images=[images[0]], text=[captioner.text], return_tensors="pt")
    ids = inputs.pop("input_ids")
    prompt = ids.shape[1]
    for _ in range(captioner.max_new_tokens):
        inputs["attention_mask"] = torch.ones_like(ids)
        with torch.no_grad():
            logits = model(input_ids=ids, **inputs).logits
        ids = torch.cat([ids, logits[:, -1:].argmax(-1)], dim=1)
    expected = processor.tokenizer.decode(ids[0, prompt:], skip_special_tokens=True)
    assert captioner.describe(images[:1]) == [Caption(" ".join(expected.split()))]


def test_the_prompt_is_put_into_the_chat_template(captioner, saved):
    assert captioner.text == "user:<image>Describe the screenshot.<end_of_utterance>\nassistant:"
    (saved / "chat_template.jinja").unlink()
    plain = load_captioner("mine", str(saved), "Describe the screenshot.", 6)
    assert plain.text == "<image>Describe the screenshot."
    assert len(plain.describe([Image.new("RGB", (9, 9)), Image.new("RGB", (64, 64))])) == 2


def test_a_folder_gives_the_same_captions(captioner, images, saved):
    loaded = load_captioner("mine", str(saved), SIZED["prompt"], SIZED["max_new_tokens"])
    assert loaded.describe(images) == captioner.describe(images)
    assert loaded.key == captioner.key


def test_a_tokenizer_without_padding_gets_one(captioner, images):
    processor = tiny_processor()
    processor.tokenizer.pad_token, processor.tokenizer.eos_token = None, "[SEP]"
    other = ModelCaptioner(captioner.pipe.model, processor, SIZED["prompt"], SIZED["max_new_tokens"])
    assert other.pipe.tokenizer.pad_token == "[SEP]"
    assert other.describe(images) == captioner.describe(images)


def test_the_key_tells_weights_prompt_length_and_image_size_apart(captioner):
    def key(seed: int = 0, **changed: object) -> str:
        return load_tiny_captioner("tiny", **(SIZED | changed), seed=seed).key

    torch.manual_seed(5)
    assert key() == captioner.key
    others = {key(seed=1), key(prompt="What is wrong?"), key(max_new_tokens=7)}
    resized = load_tiny_captioner("tiny", **SIZED, seed=0)
    resized.pipe.processor.image_processor.size = {"longest_edge": 32}
    assert len(others | {captioner.key, resized.key}) == 5


@pytest.mark.integration
def test_a_model_that_cannot_be_had_is_told(tmp_path, saved):
    (tmp_path / "empty").mkdir()
    for model, message in [
        (tmp_path / "none", r"captioner=smolvlm: captioner.model=.*none: there is no such folder"),
        (tmp_path / "empty", r"cannot load .*empty: .*captioner.model=<folder>"),
    ]:
        with pytest.raises(ValueError, match=message):
            load_captioner("smolvlm", str(model), "Describe.", 4)
    weights = saved / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:1000])
    with pytest.raises(ValueError, match=r"cannot load .*model: "):
        load_captioner("smolvlm", str(saved), "Describe.", 4)
    (saved / "config.json").write_text('{"model_type": "bert"}')
    with pytest.raises(ValueError, match=r"cannot load .*model: "):
        load_captioner("smolvlm", str(saved), "Describe.", 4)


@pytest.mark.skipif(all(map(find_spec, ("num2words", "torchvision"))), reason="nothing is missing")
def test_a_processor_that_needs_more_packages_says_so(saved):
    video = {"video_processor_type": "SmolVLMVideoProcessor"}
    settings = json.loads((saved / "processor_config.json").read_text())
    settings |= {"processor_class": "SmolVLMProcessor", "video_processor": video}
    (saved / "processor_config.json").write_text(json.dumps(settings))
    (saved / "video_preprocessor_config.json").write_text(json.dumps(video))
    with pytest.raises(ValueError, match=r"needs a package that is missing: .*\. Install it; torchvision must be"):
        load_captioner("smolvlm", str(saved), "Describe.", 4)
