"""Decode the bytes of a repository: content, messages and paths, which may be in any encoding."""

import codecs
import re

# Decoders that take quadratic time or read escapes; none is an encoding of messages.
REFUSED = {"idna", "punycode", "raw_unicode_escape", "undefined", "unicode_escape"}
ESCAPE = re.compile(r'\\([0-7]{3}|[abtnvfr"\\])')
LETTERS = {"a": 7, "b": 8, "t": 9, "n": 10, "v": 11, "f": 12, "r": 13, '"': 34, "\\": 92}


def decode(content: bytes) -> tuple[str, bool]:
    """A text and whether it is valid UTF-8; otherwise it is read as Windows-1252, or Latin-1 if that is not valid."""
    try:
        return content.decode("utf-8"), True
    except UnicodeDecodeError:
        pass
    try:
        return content.decode("cp1252"), False
    except UnicodeDecodeError:
        return content.decode("latin-1"), False


def decode_message(content: bytes, encoding: str) -> tuple[str, bool]:
    """A message and whether it is valid in its encoding; otherwise it is decoded like content.

    Args:
        content: The bytes of the message.
        encoding: The commit's encoding header; empty for UTF-8.
    """
    try:
        name = codecs.lookup(encoding or "utf-8").name
        if name.replace("-", "_") not in REFUSED:
            text = content.decode(name)
            # UTF-7 can encode halves of surrogate pairs, which no other text of the project may contain.
            return text.encode("utf-8", "replace").decode("utf-8"), True
    except (LookupError, ValueError):
        pass  # unknown, or no encoding of texts; a UnicodeError is a ValueError
    return decode(content)[0], False


def encoded_paths(path: str) -> list[bytes]:
    """The bytes that may have been decoded to this path, most likely first."""
    names = [path.encode("utf-8")]
    for encoding in ("cp1252", "latin-1"):
        try:
            names.append(path.encode(encoding))
        except UnicodeEncodeError:
            continue
    return list(dict.fromkeys(names))


def cut_line(line: bytes) -> bytes:
    """The start of a UTF-8 text that was cut between any two bytes, without a last character that may be incomplete."""
    for length in range(1, min(4, len(line)) + 1):
        byte = line[-length]
        if byte & 0xC0 != 0x80:  # no continuation byte
            return line[:-length] if byte >= 0xC0 else line
    return line


def unquote(path: str) -> str:
    r"""A path as Git shows it, such as ``"a\tb"`` in quotes, or ``a b`` without, as it is."""
    if not (len(path) > 1 and path.startswith('"') and path.endswith('"')):
        return path
    content = bytearray()
    end = 1
    for match in ESCAPE.finditer(path, 1, len(path) - 1):
        content += path[end : match.start()].encode("utf-8", "surrogatepass")
        escaped = match[1]
        content.append(LETTERS[escaped] if escaped in LETTERS else int(escaped, 8) & 0xFF)
        end = match.end()
    content += path[end:-1].encode("utf-8", "surrogatepass")
    return decode(bytes(content))[0]
