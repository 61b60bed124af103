"""What people type: names as they are remembered, misspelt, half right; on the shared sets.

Each query must show the item that is meant among the first three, with `match: auto` as on a search
page. New ways to go wrong belong here; a query that fails alone is no reason to change the ranking.
"""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.cluster.conftest import Services, index_of_set

FIRST = 3
FILMS = """
    12 angry men: 12 angry men | twelve angry men
    12 years a slave: 12 years slave
    a clockwork orange: clockwork orange
    a space odyssey: 2001 space odyssey | 2001 a space oddyssey
    amadeus: amadeous
    apocalypse now: apocalipse now | apocolypse now
    avatar: avatr
    back to the future part ii: back to the future 2
    back to the future part iii: back to the future part three
    batman begins: batmen begins
    beauty and the beast: beauty & the beast
    bonnie and clyde: bonnie & clyde
    breakfast at tiffany's: breakfest at tiffanys | breakfast at tiffany
    butch cassidy: butch cassidy and sundance kid | butch casidy sundance
    casablanca: casablancka | film with humphrey bogart bergman casablanca
    citizen kane: citizen cane | citisen kane
    crouching tiger: crouching tiger hiden dragon
    cuckoo's nest: one flew over cuckoos nest | one flew over the cuckoo nest | cockoos nest
    dalmatians: 101 dalmations | one hundred and one dalmatians
    doctor zhivago: doctor zhivago | dr zhivago
    dog day afternoon: dog day aftrnoon
    dr. strangelove: dr strangelove | doctor strangelove
    empire strikes back: empire strikes back | the empire strike back
    fast & furious: fast & furious
    fellowship of the ring: lord rings fellowship | fellowship of ring | felowship of the ring
    finding nemo: findng nemo
    forrest gump: forest gump
    furious: fast and furious
    gladiator: gladiater
    gone with the wind: gone with wind
    harry potter: harry poter
    inglourious basterds: inglorious bastards
    it's a wonderful life: its a wonderful life | it a wonderful life
    jurassic park: jurasic park | jurrasic park | jurassic parc
    kill bill: kill bill 2 | kill bill vol 2 | kill bill volume two
    la la land: la la lnad
    lady and the tramp: lady & the tramp
    last crusade: indiana jones last crusade | indiana jones and last crusade
    lilo & stitch: lilo and stich | lilo and stitch
    lord of the rings: lord of the ring
    men in black ii: men in black 2
    mr. & mrs. smith: mr and mrs smith
    mr. smith goes: mr smith goes to washington | mister smith goes to washington
    ocean's eleven: ocean's 11 | oceans eleven
    psycho: pyscho | psyco
    pulp fiction: pulp ficton
    raiders of the lost ark: raiders of lost ark | raiders of the lost arc
    rambo iii: rambo 3
    ratatouille: ratatoulle | ratatouile
    rocky ii: rocky 2 | rocky two
    rocky iv: rocky 4
    saving private ryan: saving privat ryan
    schindler's list: schindlers list | shindlers list
    shawshank redemption: shawshank redemtion | shawshank redemption the
    silence of the lambs: silence of lambs | scilence of the lambs
    spider-man: spider man
    spider-man 2: spiderman 2
    star trek ii: star trek 2
    star wars: starwars
    terminator 2: terminator 2
    the godfather: godfathr | the godfater
    the godfather part ii: godfather 2 | godfather part 2 | the godfather part two
    the good, the bad: good bad ugly | the good the bad and ugly
    the great gatsby: the great gatsbi
    the incredibles: incredibels
    the matrix: teh matrix | matirx
    the wizard of oz: wizard of oz | the wizzard of oz
    thelma & louise: thelma & louise | thelma and louise
    titanic: titantic | tittanic
    to kill a mockingbird: to kill a mocking bird | to kill mockingbird
    toy story 2: toy story two
    vertigo: vertgo
    wall-e: walle | wall e
    x-men: xmen | x men
"""
BOOKS = """
    1984: 1984 orwel | nineteen eighty four
    a game of thrones: game of throne | game of thornes
    alice: alice in wonder land
    angels & demons: angels & demons | angels and demons
    anna karenina: anna karenena
    austen: jane austin
    c.s. lewis: cs lewis
    catch-22: catch22 | catch 22
    catcher in the rye: catcher in rye | the cather in the rye
    catching fire: catching fire hunger game
    charlie and the chocolate factory: charlie & the chocolate factory
        | charlie and chocolate factory
    christie: agatha cristie
    crime and punishment: crime & punishment | dostoevsky crime and punishment
    da vinci code: davinci code | da vinchi code
    don quixote: don quijote
    dostoyevsky: dostoyevski
    dragon tattoo: girl with dragon tattoo | the girl with the dragon tatoo
    ender's game: enders game | ender game
    fahrenheit 451: farenheit 451 | fahrenheit451
    fifty shades of grey: fifty shades of gray | 50 shades of grey
    frankenstein: frankenstien
    hamlet: shakespear hamlet
    harry potter: hary poter
    hitchhiker's guide: hitchikers guide | hitch hikers guide galaxy
    hitchhiker's guide to the galaxy: hitchhikers guide to the galaxy
    jekyll: doctor jekyll and mister hyde | dr jeckyll and mr hyde
    leagues under the sea: twenty thousand leagues under the sea
    les mis: les miserable
    lord of the rings: lord of rings
    memoirs of a geisha: memoirs of geisha | memiors of a geisha
    monte cristo: count of monte christo | the count of montecristo
    nietzsche: nietzche
    of mice and men: mice and men | of mice & men
    one hundred years of solitude: garcia marquez hundred years solitude | 100 years of solitude
    pride and prejudice: pride prejudice | pride & prejudice | pride and predjudice
    prisoner of azkaban: harry potter 3 | harry potter prisoner of askaban
    romeo and juliet: romeo & juliet | romeo and juliett
    sense and sensibility: sense & sensibility
    shakespeare: shakspeare
    slaughterhouse-five: slaughter house five | slaughterhouse 5
    sorcerer's stone: harry poter sorcers stone | harry potter sorcerers stone
        | harry potter and philosophers stone
    striped pajamas: the boy in striped pyjamas
    the hobbit: hobit | the hobbitt | j r r tolkien hobbit
    the hunger games: hungergames
    the kite runner: kite runer
    the lion, the witch: the lion the witch and wardrobe | lion witch wardrobe
    the little prince: st exupery little prince | saint exupery little prince
    the shining: stephan king the shining
    to kill a mockingbird: to kill a mokingbird
    tolkien: jrr tolkien
    twilight: twillight
    war and peace: tolstoi war and peace
    wuthering heights: wuthering hights
    zarathustra: nietsche zarathustra
"""
"""By line: part of the text that is meant, and queries for it; further ones may follow on the next
line, which is indented more."""


def queries(table: str) -> list[tuple[str, str]]:
    """Return pairs of a query and what is meant."""
    found = []
    for line in re.sub(r"\n {8}", " ", table).strip().splitlines():
        meant, typed = line.strip().split(": ", 1)
        found += [(query, meant) for query in typed.split(" | ")]
    return found


@pytest.mark.parametrize(
    ("name", "fields", "boost", "table"),
    [
        ("wikipedia-movies", ["title^2", "extract", "cast"], {}, FILMS),
        (
            "goodbooks",
            ["title^2", "original_title", "authors"],
            {"ratings_count": {"log": 0.1}},
            BOOKS,
        ),
    ],
)
def test_what_is_meant_is_among_the_first(
    services: Services, name: str, fields: list[str], boost: dict[str, Any], table: str
) -> None:
    configuration = {"searchable_fields": fields, "language": "english", "boost": boost}
    shown = [field.partition("^")[0] for field in fields if field != "extract"]
    missed = []
    for index in index_of_set(services, name, f"typed-{name}", configuration):
        for query, meant in queries(table):
            answer = index.search(query=query, match="auto", per_page=FIRST, fields=shown)
            texts = [str(item).lower() for item in answer["data"]["items"]]
            if not any(meant in text for text in texts):
                missed.append(query)
    assert missed == []
