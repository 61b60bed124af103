"""Words of texts that are split together are those of each text alone."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from shard.read.words_of_texts import WordsOfTexts

texts = st.text(
    st.one_of(
        st.sampled_from("ab c.#+'-(\n\té\u0301\u200d日本ガﾞ한ก๊"), st.characters(codec="utf-8")
    ),
    max_size=12,
)


def described(texts: list[str]) -> list[list[tuple[str, int, int, int]]]:
    """Return, by text, its words: text, position from the first one, beginning and end."""
    words = WordsOfTexts()
    found = words.split([text.encode() for text in texts])
    return [
        [
            (words.texts()[number], position - int(one.positions[0]), start, end)
            for number, position, start, end in zip(
                *(column.tolist() for column in one), strict=True
            )
        ]
        for one in found
    ]


@given(st.lists(texts, max_size=5))
@example(["c+", "+ x", "c#", "d", ".net", "a.", "net"])
@example(["日", "本", "か", "\u3099"])
@example(["e", "\u0301", "", "\u200d", "x"])
@example(["word " * 2_000, "words"])
def test_words_do_not_depend_on_the_texts_before_and_after(texts: list[str]) -> None:
    assert described(texts) == [described([text])[0] for text in texts]
