"""Stop words: short lists for every language that has a stemmer.

English is Lucene's list of 33. The others were written for facetd and hold articles, pronouns,
prepositions, conjunctions and forms of "to be" and "to have" that have no other meaning. They are
short on purpose: BM25 already gives frequent words little weight, and a word that is left out can
no longer be found. They apply only where a configuration names the language in `stop_words`.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

_LISTS: Final = {
    "arabic": "في من على إلى عن مع هذا هذه ذلك تلك التي الذي الذين أن إن أو و ثم كان كانت يكون"
    " هو هي"
    " هم لا ما لم لن قد كل بعد قبل بين عند حيث كما إذا لكن",
    "armenian": "և ու կամ բայց որ որը որի է են էր էին եմ ես այս այդ այն նա նրա մեր ձեր իր համար հետ"
    " մեջ վրա մի",
    "basque": "eta edo baina da dira zen ziren du dute zuen ez bat batzuk hau hori hura ere zer nor"
    " non ni zu gu",
    "catalan": "el la els les un una uns unes de del dels a al als en i o que per amb no és són era"
    " eren ha han com més però si es se",
    "czech": "a aby ale ani ano by byl byla bylo být co do i jak jako je jeho jen ještě ji jsem"
    " jsou"
    " k která které který na nebo než o od po pod pro při s se si tak to tu už v ve z za že",
    "danish": "og i jeg det at en den til er som på de med han af for ikke der var mig sig men et"
    " har om vi havde hun nu da fra du ud sin dem os op hans hvor eller hvad hendes ham",
    "dutch": "de en van ik te dat die in een hij het niet zijn is was op aan met als voor had er"
    " maar om hem dan zou of wat mijn dit zo door over ze zich bij ook tot je uit der naar heeft"
    " hun werd",
    "dutch_porter": "de en van ik te dat die in een hij het niet zijn is was op aan met als"
    " voor had"
    " er maar om hem dan of wat dit zo door over ze zich bij ook tot je uit der naar",
    "english": "a an and are as at be but by for if in into is it no not of on or such that the"
    " their then there these they this to was will with",
    "esperanto": "la kaj aŭ sed de da en al el por per kun sen ke kiu kio estas estis ne mi vi li"
    " ŝi ĝi ni ili tiu ĉi tio",
    "estonian": "ja või aga et kui ka on oli ei ma sa ta me te nad see need mis kes oma ning siis"
    " kuid",
    "finnish": "ja tai mutta että jos kun niin on oli ovat olivat ei se ne tämä nämä hän he minä"
    " sinä me te joka jotka mikä kuin myös",
    "french": "le la les l un une des de du d au aux et ou en dans par pour sur avec sans que qui"
    " quoi ce cet cette ces se sa son ses il elle ils elles on ne pas est sont était a ont été être"
    " plus mais",
    "german": "der die das den dem des ein eine einer eines einem einen und oder aber in im an am"
    " auf aus bei bis durch für mit nach ohne um unter von vom vor zu zum zur als auch dass es er"
    " sie wir ist sind war waren wird werden wurde wurden hat haben hatte nicht nur noch sich so"
    " wie",
    "greek": "ο η το οι τα του της των τον την τους τις στο στη στον στην στα στις και ή αλλά με"
    " για από σε να θα δεν που πως είναι ήταν ένα ένας μια",
    "hindi": "का के की को में से पर ने है हैं था थे थी और या कि यह वह ये वे इस उस जो तो भी ही एक"
    " लिए साथ तक कर हो गया गई गए",
    "hungarian": "a az egy és vagy de hogy is nem van volt vannak voltak ez az ezt azt ami aki"
    " mint ha csak meg már még",
    "indonesian": "yang dan di ke dari pada untuk dengan ini itu adalah dalam tidak juga atau oleh"
    " sebagai akan telah bahwa mereka ia kami kita",
    "irish": "an na a i le ar ag as do de go is bhí tá agus nó ach sé sí siad mé tú sin seo nach",
    "italian": "il lo la i gli le un uno una di del dello della dei degli delle a al allo alla ai"
    " agli alle da dal dalla in nel nella con su sul sulla per tra fra e o ma che non è sono era"
    " erano ha hanno si come più anche",
    "lithuanian": "ir ar bet kad kaip yra buvo būti ne su iš į už per po prie nuo tai šis tas jis"
    " ji jie kurie kuris",
    "nepali": "र वा छ छन् थियो हो का को की मा ले लाई बाट पनि यो त्यो एक गर्न भएको",
    "norwegian": "og i jeg det at en et den til er som på de med han av ikke der så var meg seg men"
    " ett har om vi min mitt ha hadde hun nå over da ved fra du ut sin dem oss opp",
    "persian": "و در به از که این آن را با است برای بود یک هم تا بر یا می شد شده های ها",
    "polish": "i w z na do się nie to że o jest jak za po od co ale czy dla przez lub był była było"
    " są oraz ten ta tym tego ze",
    "porter": "a an and are as at be but by for if in into is it no not of on or such that the"
    " their then there these they this to was will with",
    "portuguese": "o a os as um uma uns umas de do da dos das em no na nos nas por pelo pela para"
    " com sem e ou mas que não é são era eram foi foram ser se como mais ao aos à às",
    "romanian": "și sau dar în la de pe cu din pentru prin un o unei unui al a ai ale este sunt era"
    " erau care ce că nu se mai fi fost",
    "russian": "и в во не что он на я с со как а то все она так его но да ты к у же вы за бы по"
    " ее мне было вот от меня о из ему или был была были это этот эта для при до их",
    "serbian": "i u na je se da za od sa su ne to kao ali ili koji koja koje iz po do bio bila и у"
    " на је се да за од са су не то као али или који која које из по до",
    "sesotho": "le ka ke ho ba ha e o ya wa tsa la sa bo mo hore",
    "spanish": "el la los las un una unos unas de del a al en por para con sin y o pero que no es"
    " son era eran fue fueron ser se su sus lo le les como más este esta estos estas",
    "swedish": "och det att i en jag hon som han på den med var sig för så till är men ett om hade"
    " de av icke inte mig du henne då sin nu har från",
    "tamil": "ஒரு என்று மற்றும் இந்த இது என்ற கொண்டு என்பது பல ஆகும் அல்லது அவர் நான் உள்ள அந்த இவர் என",
    "turkish": "ve veya ya da ile bir bu şu o için de mi mu ki ne çok daha gibi ama en her olarak"
    " olan",
    "yiddish": "און אָדער אָבער אין אויף פֿון מיט צו פֿאַר איז זענען ער זי עס מיר איר דער די דאָס אַ אַן",
}

_SETS: Final[Mapping[str, frozenset[str]]] = MappingProxyType(
    {language: frozenset(words.split()) for language, words in _LISTS.items()}
)


def stop_words(language: str | None) -> frozenset[str]:
    """Return the built-in stop words of a language (Snowball name), not folded; empty for None."""
    return _SETS.get(language, frozenset()) if language else frozenset()
