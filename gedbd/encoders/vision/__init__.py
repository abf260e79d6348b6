"""Vision-language models that describe screenshots."""
