"""Reading a made-up Stack Exchange dump of the size of Ask Ubuntu's: questions a second, and the memory it takes."""

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
from measure import Row, peak_mb, seconds

QUESTIONS, ANSWERS, LINKED_EVERY = 366_000, 450_000, 25
WORDS, TAGS, PARAGRAPHS = 50_000, 3_000, 4_000
SECTION = "Stack Exchange"
MINUTES_BETWEEN_POSTS = 6
HEAD = '\ufeff<?xml version="1.0" encoding="utf-8"?>\n'


def main() -> list[Row]:
    """Writes the dump, and reads it in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        spent = seconds(lambda: write_dump(Path(folder)))
        size_mb = (Path(folder) / "Posts.xml").stat().st_size / 1e6
        code = "from stackexchange import measured; measured()"
        command = [sys.executable, "-c", code, folder]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parent)
    found = json.loads(done.stdout.strip().splitlines()[-1])
    rate = QUESTIONS / found["cpu_seconds"]
    note = f"{size_mb:,.0f} MB of Posts.xml, {ANSWERS:,} answers among them; written in {spent:.0f} s"
    return [
        Row(SECTION, f"reading {QUESTIONS:,} questions", found["seconds"], "s", note=note),
        Row(SECTION, "processor time of it", found["cpu_seconds"], "s", note=f"{rate:,.0f} questions/s"),
        Row(SECTION, "peak memory", found["peak_mb"], "MB", note=f"{found['links']:,} links"),
    ]


def measured() -> None:
    """Reads the dump in the folder that the command line names, and prints what that took."""
    from gedbd.corpora.corpus import Corpus
    from gedbd.questions.stackexchange.reader import read_stackexchange

    found: list[Corpus] = []
    before = time.process_time()
    spent = seconds(lambda: found.append(read_stackexchange("made up", sys.argv[1])))
    cpu_seconds = time.process_time() - before
    (corpus,) = found
    assert len(corpus) == QUESTIONS
    assert corpus.links is not None
    print(json.dumps({"seconds": spent, "cpu_seconds": cpu_seconds, "peak_mb": peak_mb(), "links": len(corpus.links)}))


def write_dump(folder: Path, questions: int = QUESTIONS, answers: int = ANSWERS, seed: int = 0) -> None:
    """Posts.xml, PostLinks.xml and Tags.xml of so many posts, in the order of their dates as in a published dump."""
    rng = np.random.default_rng(seed)
    tags = [f"tag-{number}" for number in range(TAGS)]
    _write(folder / "Tags.xml", "tags", (f'Id="{row}" TagName="{tag}" Count="9"' for row, tag in enumerate(tags)))
    is_question = np.zeros(questions + answers, dtype=bool)
    is_question[0] = True
    is_question[1 + rng.permutation(questions + answers - 1)[: questions - 1]] = True
    ids = np.flatnonzero(is_question) + 1
    _write(folder / "Posts.xml", "posts", _posts(is_question, ids, tags, rng))
    later = rng.choice(np.arange(1, questions), size=questions // LINKED_EVERY, replace=False)
    links = (
        f'Id="{number}" CreationDate="{_date(int(ids[row]) + 240)}" PostId="{ids[row]}" '
        f'RelatedPostId="{ids[rng.integers(row)]}" LinkTypeId="{3 if number % 4 == 0 else 1}"'
        for number, row in enumerate(np.repeat(np.sort(later), 4))
    )
    _write(folder / "PostLinks.xml", "postlinks", links)


def _posts(is_question: np.ndarray, ids: np.ndarray, tags: list[str], rng: np.random.Generator) -> Iterator[str]:
    """The attributes of each post. Bodies are one to six paragraphs of a pool; the lengths are those of Ask Ubuntu."""
    paragraphs = _paragraphs(rng)
    lengths = 1 + np.minimum(rng.geometric(0.4, size=len(is_question)), 6)
    chosen = rng.integers(len(paragraphs), size=(len(is_question), 7))
    ranks = np.minimum(rng.zipf(1.3, size=(len(is_question), 3)), TAGS) - 1
    asked = np.cumsum(is_question)
    for row, question in enumerate(is_question.tolist()):
        body = "&#xA;&#xA;".join(paragraphs[number] for number in chosen[row, : lengths[row]])
        common = f'CreationDate="{_date(row)}" Score="3" Body="{body}" OwnerUserId="{row % 1000}"'
        if not question:
            parent = ids[int(chosen[row, 6] * asked[row] / len(paragraphs))]
            yield f'Id="{row + 1}" PostTypeId="2" ParentId="{parent}" {common} CommentCount="0"'
            continue
        named = "".join(f"&lt;{tags[rank]}&gt;" for rank in dict.fromkeys(ranks[row].tolist()))
        title = paragraphs[chosen[row, 0]][9:70].replace("&", "")
        yield f'Id="{row + 1}" PostTypeId="1" {common} Title="{title}" Tags="{named}" AnswerCount="1" ViewCount="99"'


def _paragraphs(rng: np.random.Generator) -> list[str]:
    """Escaped paragraphs, one in eight a block of code and one in ten with letters outside of ASCII."""
    made = []
    for number in range(PARAGRAPHS):
        drawn = np.minimum(rng.zipf(1.2, size=rng.integers(20, 90)), WORDS)
        text = " ".join(f"word{rank}" for rank in drawn)
        text = text.replace("word7 ", "&lt;code&gt;apt-get&lt;/code&gt; ").replace("word9 ", "it&#39;s &amp;amp; ")
        text = text + " caf\u00e9 \u2026" if number % 10 == 0 else text
        tags = ("pre&gt;&lt;code", "code&gt;&lt;/pre") if number % 8 == 0 else ("p", "p")
        made.append(f"&lt;{tags[0]}&gt;{text}&lt;/{tags[1]}&gt;")
    return made


def _date(row: int) -> str:
    moment = np.datetime64("2010-07-28T19:04:21.300") + np.timedelta64(row * MINUTES_BETWEEN_POSTS, "m")
    return str(moment)


def _write(path: Path, root: str, rows: Iterable[str]) -> None:
    with path.open("w", encoding="utf-8") as out:
        out.write(f"{HEAD}<{root}>\n")
        out.writelines(f"  <row {attributes} />\n" for attributes in rows)
        out.write(f"</{root}>\n")
