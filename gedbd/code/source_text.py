"""The text of a source file, whatever its encoding."""

FALLBACK_ENCODING = "cp1252"


def decode_source(content: bytes) -> tuple[str, bool]:
    """The text of a file in UTF-8, and whether it was another encoding and read as cp1252."""
    try:
        return content.decode("utf-8-sig"), False
    except UnicodeDecodeError:
        return content.decode(FALLBACK_ENCODING, errors="replace"), True
