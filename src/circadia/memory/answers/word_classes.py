"""Closed classes of English words: the few that hold a question together, and change what it asks for."""

from collections.abc import Mapping
from typing import Final


def _classes(lines: str) -> Mapping[str, str]:
    """Return the class of each word; the first word of a line names its class."""
    return {word: line.split()[0] for line in lines.strip().splitlines() for word in line.split()}


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


ARTICLES: Final = _set("a an the 's some")
"""Words that may come and go."""
NEGATIONS: Final = _set(
    "not no never none nobody nothing nowhere neither nor without hardly barely unable except unless instead rather non"
)
QUANTIFIERS: Final = _classes("""
all every each everyone everybody everything always whole entire
both
only just solely exclusively sole alone merely
any anyone anybody anything
some someone somebody something several sometimes
few rarely seldom
many much lots
most mostly usually majority
half
least
last final latest
first initial
other another else others
same
""")
"""How much of what is meant."""
LOOSE_QUANTIFIERS: Final = _set("some any many other few most least same just")
"""What one question may say and the other leave out; against another quantifier it counts."""
OPPOSITES: Final = tuple(
    (_set(left), _set(right))
    for left, _, right in (
        line.partition("|")
        for line in """
more greater larger bigger higher|less fewer smaller lower
most maximum max highest largest biggest greatest longest|least minimum min lowest smallest fewest shortest
best better good great|worst worse bad poor
pro pros advantage benefit advantages positive|con cons disadvantage drawback disadvantages negative risk
before prior until earlier previous past ago previously|after since later next following upcoming afterwards
over above|under below beneath
increase raise grow rise gain improve boost|decrease reduce lower fall drop lose worsen cut
up upper|down lower
in inside into within|out outside off
on|off
start begin open enable activate|stop end close disable deactivate finish quit
install login connect lock enter arrive|uninstall logout disconnect unlock exit leave depart
buy purchase buyer receive get borrow|sell sale seller send give lend
import download|export upload
win victory winner succeed success pass|lose loss loser fail failure
fast faster fastest quick quickly|slow slower slowest slowly
early earlier earliest|late later latest
new newer newest young younger youngest|old older oldest
cheap cheaper cheapest|expensive costly
easy easier easiest simple|hard harder hardest difficult
left|right
west|east
north|south
rich|poor
hot warm|cold cool
long tall wide|short narrow
male man men boy husband father son|female woman women girl wife mother daughter
true right correct|false wrong incorrect
sender|recipient receiver
employer|employee
teacher|student
lender|borrower
love like|hate dislike
encode encrypt|decode decrypt
accept allow include|reject forbid exclude
add|remove delete subtract
""".strip().splitlines()
    )
)
"""Words of one side and of the other: who asks with one does not ask with the other."""
_SIDES: Final = (*OPPOSITES, *((right, left) for left, right in OPPOSITES))
OPPOSED: Final[Mapping[str, frozenset[str]]] = {
    word: frozenset(each for mine, theirs in _SIDES if word in mine for each in theirs)
    for left, _ in _SIDES
    for word in left
}
"""For each such word all of those on the other side."""
OPPOSING_PREFIXES: Final = ("un", "in", "im", "il", "ir", "non", "dis", "mis", "anti", "a")
"""What makes a word its opposite."""

PLACED: Final = _classes("""
from
to towards into
by
for
than
of
with
without
in inside within
at
on onto
after
before
over above
under below
about regarding
between
during
through via
against
""")
"""Prepositions, which say what part the next word plays."""
TOLD_APART: Final = _set("from to by than after before over under without against")
"""Those that a question cannot change for another without asking something else."""
COORDINATING: Final = _set("and or vs versus & between")
"""What stands on the two sides of one of these may change places."""

AUXILIARIES: Final = _set(
    "is are am was were be been being do does did has have had can could will would shall should may might must"
)
PAST: Final = _set("was were did had")
FUTURE: Final = _set("will shall")
DUTY: Final = _set("should must shall ought need")
ABILITY: Final = _set("can could may might able")

FIRST: Final = _set("i me my mine myself we us our ours ourselves")
SECOND: Final = _set("you your yours yourself yourselves")
ANYONE: Final = _set("one someone somebody anyone anybody people person everyone")
THIRD: Final = _set("he him his himself she her hers herself it its itself they them their theirs themselves")
MALE: Final = _set("he him his himself")
FEMALE: Final = _set("she her hers herself")
POINTING: Final = _set("this that these those former latter above aforementioned")

MEASURED: Final = _set("many much long old far often big tall high fast deep large heavy wide hot cold soon late young")
"""After `how` these ask for an amount."""
ASKING: Final = _classes("""
what which
who whom whose
when
where
why
how
""")
PREPARING: Final = _set(
    "the a an some any best good easiest fastest most effective different possible main common real quickest right "
    "better is are was were easy fast biggest top quick great only there"
)
"""What may stand between `what` and the noun that tells what is really asked for."""
REALLY: Final = {
    "way": "how", "ways": "how", "method": "how", "methods": "how", "procedure": "how", "process": "how",
    "steps": "how",
    "reason": "why", "reasons": "why", "cause": "why", "causes": "why",
    "time": "when", "date": "when", "day": "when", "year": "when",
    "place": "where", "location": "where", "number": "how many", "amount": "how many",
}  # fmt: skip
"""What `what is the … of` asks for by its noun."""

DAYS_AND_TIMES: Final = _classes("""
january jan
february feb
march
april apr
june jun
july jul
august aug
september sept sep
october oct
november nov
december dec
monday mon mondays
tuesday tue tues tuesdays
wednesday wed wednesdays
thursday thu thurs thursdays
friday fri fridays
saturday saturdays
sunday sundays
today todays
yesterday
tomorrow
tonight
morning mornings
noon midday
afternoon afternoons
evening evenings
night nights
midnight
weekend weekends
spring
summer
autumn
winter
ago
daily
weekly
monthly
annual annually yearly
hourly
next
previous
am
pm
""")
"""When; `last` is a quantifier."""
UNITS: Final = _classes("""
usd $ dollar dollars buck bucks
eur € euro euros
gbp £ pound pounds quid
inr ₹ rs rupee rupees
jpy ¥ yen
btc bitcoin
% percent percentage
km kilometer kilometers kilometre kilometres kms
mile miles mi
meter meters metre metres
cm centimeter centimeters centimetre centimetres
mm millimeter millimeters
inch inches
foot feet ft
yard yards
kg kilo kilos kilogram kilograms kgs
gram grams
mg milligram milligrams
ounce ounces oz
lb lbs
ton tons tonne tonnes
liter liters litre litres
ml milliliter milliliters
gallon gallons
second seconds sec secs
minute minutes mins
hour hours hr hrs
day days
week weeks
month months
year years yr yrs
decade decades
century centuries
celsius
fahrenheit
kelvin
kb kilobyte kilobytes
mb megabyte megabytes
gb gigabyte gigabytes
tb terabyte terabytes
mhz
ghz
watt watts
kw kilowatt kilowatts
kwh
volt volts
mph
kmh
acre acres
hectare hectares
calorie calories
""")
MULTIPLES: Final = {
    "k": 10**3, "hundred": 10**2, "thousand": 10**3, "lakh": 10**5, "lakhs": 10**5, "lac": 10**5, "million": 10**6,
    "crore": 10**7, "crores": 10**7, "billion": 10**9, "bn": 10**9, "trillion": 10**12, "dozen": 12,
}  # fmt: skip
_SMALL: Final = (
    "two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen "
    "nineteen"
)
_TENS: Final = "twenty thirty forty fifty sixty seventy eighty ninety"
_ORDINALS: Final = "third fourth fifth sixth seventh eighth ninth tenth"
NUMBER_WORDS: Final = {
    **{word: at for at, word in enumerate(_SMALL.split(), 2)},
    **{word: 10 * at for at, word in enumerate(_TENS.split(), 2)},
    **{word: at for at, word in enumerate(_ORDINALS.split(), 3)},
    "zero": 0, "twice": 2, "double": 2, "triple": 3, "couple": 2, "pair": 2,
}  # fmt: skip

EMPTY: Final = _set("""
a an the 's of to in on at for with about as and or but so than then there that which be is are am was were been being
do does did has have had will would can could should may might must i me my you your yours we us our one ones it its he
she they them their his her if how what who whom whose where when why this these those some any actually really
exactly ever just very too also please get got like mean know think use make want need kind type sort thing things
way ways good best from by into going
""")
"""Words that tell little of what is asked for; the others are compared one by one."""
