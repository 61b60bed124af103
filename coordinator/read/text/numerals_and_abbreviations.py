"""Notations of a word: other numerals, number words, abbreviations, "and" for "&" (pure).

    rocky 2          ──▶  rocky ii              numerals
    godfather 2      ──▶  godfather part ii
    part two         ──▶  part 2, part ii       number words
    saint louis      ──▶  st louis              abbreviations
    salt and pepper  ──▶  salt pepper           a "&", "+" or "/" between words separates them

A notation counts only next to a word that was typed beside it, as one text with both: 2 alone does
not find II, and `rocky 2` finds no item with a stray II. So an index decides by what it has which
notations a query gets, as for `word_spacings`. The lists are short on purpose: a pair of words is
looked up for each.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, TypeAlias

from common.analysis.analyzer import Analyzer, is_run
from coordinator.read.text.word_spacings import Spacing, TypedWord

Words: TypeAlias = tuple[str, ...]
Notations: TypeAlias = Mapping[str, tuple[Words, ...]]
"""Folded words with their other notations: one word, two, or none."""

LANGUAGE_DEFAULT: Final = "english"
"""Of indexes without a language: its function words and notations are most often typed."""
LANGUAGES_REMEMBERED_MAX: Final = 64
"""Sets of languages whose words are cached: thousands of indexes have the same."""
_ROMAN: Final = "ii iii iv v vi vii viii ix x xi xii xiii xiv xv xvi xvii xviii xix xx"
"""Numerals from 2 on. (1 would be "I", which is a pronoun.)"""
_NUMBERS: Final = (*range(2, 13), *range(20, 100, 10), 100, 1000)
_NUMBER_WORDS: Final = {
    "danish": "to tre fire fem seks syv otte ni ti elleve tolv"
    " tyve tredive fyrre halvtreds tres halvfjerds firs halvfems hundrede tusind",
    "dutch": "twee drie vier vijf zes zeven acht negen tien elf twaalf"
    " twintig dertig veertig vijftig zestig zeventig tachtig negentig honderd duizend",
    "english": "two three four five six seven eight nine ten eleven twelve"
    " twenty thirty forty fifty sixty seventy eighty ninety hundred thousand",
    "french": "deux trois quatre cinq six sept huit neuf dix onze douze"
    " vingt trente quarante cinquante soixante septante huitante nonante cent mille",
    "german": "zwei drei vier fünf sechs sieben acht neun zehn elf zwölf"
    " zwanzig dreißig vierzig fünfzig sechzig siebzig achtzig neunzig hundert tausend",
    "italian": "due tre quattro cinque sei sette otto nove dieci undici dodici"
    " venti trenta quaranta cinquanta sessanta settanta ottanta novanta cento mille",
    "norwegian": "to tre fire fem seks sju åtte ni ti elleve tolv"
    " tjue tretti førti femti seksti sytti åtti nitti hundre tusen",
    "portuguese": "dois três quatro cinco seis sete oito nove dez onze doze"
    " vinte trinta quarenta cinquenta sessenta setenta oitenta noventa cem mil",
    "spanish": "dos tres cuatro cinco seis siete ocho nueve diez once doce"
    " veinte treinta cuarenta cincuenta sesenta setenta ochenta noventa cien mil",
    "swedish": "två tre fyra fem sex sju åtta nio tio elva tolv"
    " tjugo trettio fyrtio femtio sextio sjuttio åttio nittio hundra tusen",
}
"""Of `_NUMBERS`."""
_ONES: Final = {"english": "one"}
"""Where 1 is no article, as it is in German (ein) and French (un)."""
_PARTS: Final = {"english": "part", "french": "partie", "german": "teil", "spanish": "parte"}
"""What titles put before a numeral: The Godfather Part II."""
_ABBREVIATIONS: Final = {
    "english": "st:saint dr:doctor mr:mister mt:mount ft:fort vol:volume vs:versus bros:brothers"
    " jr:junior pt:part",
    "french": "st:saint ste:sainte dr:docteur mme:madame bd:boulevard av:avenue vol:volume",
    "german": "st:sankt dr:doktor str:straße bd:band nr:nummer prof:professor",
    "spanish": "sta:santa sto:santo dr:doctor dra:doctora sr:señor sra:señora av:avenida"
    " vol:volumen",
}
_CONJUNCTIONS: Final = {
    "catalan": "i",
    "czech": "a",
    "danish": "og",
    "dutch": "en",
    "english": "and",
    "finnish": "ja",
    "french": "et",
    "german": "und",
    "greek": "και",
    "hungarian": "és",
    "italian": "e",
    "norwegian": "og",
    "polish": "i",
    "portuguese": "e",
    "romanian": "și",
    "russian": "и",
    "spanish": "y",
    "swedish": "och",
    "turkish": "ve",
}
"""Words that "&" is read as."""


@functools.lru_cache(LANGUAGES_REMEMBERED_MAX)
def notations(languages: Words, analyzer: Analyzer) -> Notations:
    """Return the notations of the words of some languages.

    Args:
        languages: Snowball names.
        analyzer: folds words.
    """
    found: dict[str, dict[Words, None]] = {}

    def add(*equal: str) -> None:
        folded = [part for word in equal for part in analyzer.words(word)]
        for word in folded:
            found.setdefault(word, {}).update({(other,): None for other in folded if other != word})

    roman = dict(enumerate(_ROMAN.split(), 2))
    for number, numeral in roman.items():
        add(str(number), numeral)
    for language in languages:
        add("1", _ONES.get(language, ""))
        words = _NUMBER_WORDS.get(language, "").split()
        for number, word in zip(_NUMBERS, words, strict=False):
            add(word, str(number), roman.get(number, ""))
        for number, numeral in roman.items():
            if language in _PARTS:
                found[str(number)][_PARTS[language], numeral] = None
        for pair in _ABBREVIATIONS.get(language, "").split():
            add(*pair.split(":"))
        for word in analyzer.words(_CONJUNCTIONS.get(language, "")):
            found.setdefault(word, {})[()] = None
    return {word: tuple(others) for word, others in found.items()}


def notations_of(row: Sequence[TypedWord], known: Notations) -> Iterator[Spacing]:
    """Yield the other notations of the words of a query, next to their neighbours.

    Args:
        row: unquoted words in their order.
        known: as `notations` returns them.
    """
    for place, word in enumerate(row):
        others = known.get(word.token.text)
        if others is None:
            continue
        left, right = _neighbour(row, place, -1), _neighbour(row, place, 1)
        for other in others:
            sides = ((left, ()), ((), right)) if other else ((left, right),)
            for before, after in sides:
                words = (*before, *other, *after)
                if len(words) == max(2, len(other) + 1):
                    yield Spacing((word.token.text,), words, is_notation=True)


def _neighbour(row: Sequence[TypedWord], place: int, step: int) -> Words:
    """Return the word next to one of a row; none if there is none."""
    if not 0 <= place + step < len(row):
        return ()
    word = row[place + step]
    is_next = word.ordinal == row[place].ordinal + step
    return (word.token.text,) if is_next and not is_run(word.token.text) else ()
