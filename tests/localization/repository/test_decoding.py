import pytest

from gedbd.localization.repository.git_command import cut_line, decode, decode_message, encoded_paths, unquote


def test_text_is_utf_8_or_else_windows_1252_or_else_latin_1():
    assert decode("é“".encode()) == ("é“", True)
    assert decode(b"\x93\xe9\x94") == ("“é”", False)
    assert decode(b"\x81\xe9") == ("\x81é", False)


@pytest.mark.parametrize("encoding", ["idna", "punycode", "zlib", "undefined", "unicode_escape", "no such", "a\0b"])
def test_what_is_no_encoding_of_messages_is_not_used(encoding):
    assert decode_message(b"caf\xe9 \\u0041", encoding) == ("café \\u0041", False)


def test_messages_hold_no_halves_of_surrogate_pairs():
    text, _ = decode_message(b"+2D0-", "utf-7")
    assert text.encode()


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("plain name", "plain name"),
        (r'"a\tb\\\"\303\274é"', 'a\tb\\"üé'),
        (r'"\351"', "é"),
        ('"', '"'),
        ('"open', '"open'),
    ],
)
def test_paths_in_quotes(path, expected):
    assert unquote(path) == expected


def test_a_cut_line_ends_with_a_whole_character():
    line = "aé€😀".encode()
    cut = [cut_line(line[:end]).decode() for end in range(1, len(line))]
    # Characters of 1, 2, 3 and 4 bytes. A last one outside of ASCII is dropped even if all of its bytes are there.
    assert cut == ["a", "a", "a", "aé", "aé", "aé", "aé€", "aé€", "aé€"]


def test_the_spellings_of_a_path():
    assert encoded_paths("a") == [b"a"]
    assert encoded_paths("é") == [b"\xc3\xa9", b"\xe9"]
    assert encoded_paths("ж") == ["ж".encode()]
