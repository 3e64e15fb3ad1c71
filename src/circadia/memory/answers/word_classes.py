"""Closed classes of English words: the few that hold a question together, and change what it asks for."""

from collections.abc import Mapping
from typing import Final


def by_class(lines: str) -> Mapping[str, str]:
    """Return the class of each word; the first word of a line names its class."""
    return {word: line.split()[0] for line in lines.strip().splitlines() for word in line.split()}


def word_set(words: str) -> frozenset[str]:
    """Return the words of a text, each once."""
    return frozenset(words.split())


ARTICLES: Final = word_set("a an the 's some")
"""Words that may come and go."""
CERTAIN: Final = word_set("the my your his her their our its this these")
"""Before a noun these say that a certain one is meant."""
NEGATIONS: Final = word_set(
    "not no never none nobody nothing nowhere neither nor without except unless instead rather non"
)
FAILING: Final = by_class("""
fail fails failed failing refuse refuses refused refusing decline declines declined neglect forget forgets forgot
forgetting unable unwilling reluctant cease
""")
"""Before `to` these say no."""
DENYING: Final = word_set("""
avoid avoids avoided avoiding deny denies denied denying lack lacks lacked lacking pretend pretends pretended pretending
prevent prevents prevented preventing stop stops stopped stopping quit quits quitting refuse refuses refused refusing
fail fails failed failing forget forgets forgot forgetting skip skips skipped miss misses missed reject resist oppose
""")
"""What one question may not say besides all that the other says, in however many words."""
NEARLY: Final = by_class("""
almost nearly practically virtually
barely hardly scarcely
partly partially half
""")
"""Less than what they stand before, each in its own way."""
QUANTIFIERS: Final = by_class("""
all every each everyone everybody everything always whole entire
both
either
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
CLASHING: Final = frozenset(
    frozenset(pair.split())
    for pair in (
        "all some", "all few", "all most", "all half", "all least", "most few", "most least", "many few", "first last",
        "only also", "both half", "all only", "both only",
        "both either", "all either",
    )
)  # fmt: skip
"""Of which a question may not say the one where another says the other, in whatever words."""
LOOSE_QUANTIFIERS: Final = word_set("some any many other few most least same just either")
"""What one question may say and the other leave out; against another quantifier it counts."""
OPPOSITES: Final = tuple(
    (word_set(left), word_set(right))
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
male man men boy husband father dad son brother|female woman women girl wife mother mom mum daughter sister
uncle nephew king|aunt niece queen
mr|mrs ms miss
true right correct|false wrong incorrect
sender|recipient receiver
employer|employee
teacher|student
lender|borrower
love like|hate dislike
encode encrypt|decode decrypt
accept allow include|reject forbid exclude
add|remove delete subtract
horizontal horizontally|vertical vertically
internal inner|external outer
input|output
front|back rear behind
top|bottom
credit|debit
profit|loss deficit
supply|demand
odd|even
wet|dry
heavy|light
strong|weak
thick|thin
plaintiff|defendant
host|guest
client|server
major senior|minor junior
ancient|modern
quiet quieter quietest|loud louder loudest noisy
remember|forget
latitude|longitude
vegan|vegetarian
alive living|dead
full|empty
asleep|awake
innocent|guilty
temporary|permanent
mandatory|voluntary
deep|shallow
bright|dim
sweet|sour
smooth|rough
sunrise|sunset
prefix|suffix
header|footer
numerator|denominator
origin source|destination target
ascending|descending
freeze|thaw
tighten|loosen
promote|demote
grant|revoke
pause|resume
expand|collapse
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
OPPOSED_PREFIXES: Final = (
    ("up", "down"), ("over", "under"), ("in", "out"), ("in", "ex"), ("im", "ex"), ("im", "e"), ("in", "de"),
    ("en", "de"), ("en", "dis"), ("inter", "intra"), ("pre", "post"), ("pro", "anti"), ("mini", "maxi"),
    ("hyper", "hypo"), ("macro", "micro"), ("mono", "poly"),
)  # fmt: skip
OPPOSED_SUFFIXES: Final = (("ful", "less"), ("er", "ee"), ("or", "ee"))
"""Two words that differ by one of a pair only are opposites: `upstream` and `downstream`, `payer` and `payee`."""
OPPOSING_PREFIXES: Final = ("un", "in", "im", "il", "ir", "non", "dis", "mis", "anti", "a")
"""What makes a word its opposite."""

PLACED: Final = by_class("""
from
to towards toward into
by
for
than
of
with
without
in inside within
at
on onto upon
off
after
before
over above
under below beneath
about regarding concerning
between among
during while
through via
against
since
until till
behind
beyond
across
around
near
despite
except
as
""")
"""Prepositions, which say what part the next word plays."""
TOLD_APART: Final = word_set(
    "from to by than after before over under without against off since until behind beyond except as"
)
"""Those that a question cannot change for another without asking something else."""
CONJUNCTIONS: Final = word_set("if when while because so that although though unless once")
"""What joins two clauses; one in the place of another joins them otherwise."""
COORDINATING: Final = word_set("and or vs versus & between")
"""What stands on the two sides of one of these may change places."""

AUXILIARIES: Final = word_set(
    "is are am was were be been being do does did has have had can could will would shall should may might must"
)
PAST: Final = word_set("was were did had")
FUTURE: Final = word_set("will shall")
MODALS: Final = by_class("""
must shall
should ought
can could able may might allowed permitted
would
""")
"""What has to be, what ought to be, what may be, and what would be."""
LIGHT: Final = by_class("""
get gets got getting obtain
make makes made making
use uses used using
need needs needed needing require requires required
want wants wanted wanting
like likes liked liking
know knows knew knowing
think thinks thought thinking
mean means meant meaning
have has had having
""")
"""Verbs that tell little by themselves; one in the place of another tells more."""

FIRST: Final = word_set("i me my mine myself we us our ours ourselves")
SECOND: Final = word_set("you your yours yourself yourselves")
ANYONE: Final = word_set("one someone somebody anyone anybody people person everyone")
MALE: Final = word_set("he him his himself")
FEMALE: Final = word_set("she her hers herself")
PLURAL: Final = word_set("they them their theirs themselves")
THING: Final = word_set("it its itself")
THIRD: Final = MALE | FEMALE | PLURAL | THING
SUBJECTS: Final = word_set("i we you")
"""Pronouns that may stand for anybody who does something."""
POSSESSIVES: Final = word_set("my your his her their our its")

MEASURED: Final = word_set(
    "many much long old far often big tall high fast deep large heavy wide hot cold soon late young"
)
"""After `how` these ask for an amount."""
ASKING: Final = by_class("""
what which
who whom whose
when
where
why
how
""")
PREPARING: Final = word_set(
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

PRICED: Final = word_set("cost costs price prices")
"""What has one of these asks how much."""

DAYS_AND_TIMES: Final = by_class("""
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
EMPTY: Final = word_set("""
a an the 's of to in on at for with about as and or but so than then there that which be is are am was were been being
do does did has have had will would can could should may might must i me my you your yours we us our one ones it its he
she they them their his her if how what who whom whose where when why this these those some any actually really
exactly ever just very too also please get got like mean know think use make want need kind type sort thing things
way ways good best from by into going
""")
"""Words that tell little of what is asked for; the others are compared one by one."""
FILLERS: Final = word_set("""
also already actual actually basically basic certain commonly common currently current definitely different easily easy
effective effectively ever exact exactly explain exist existing generally good great just kind kinds literally main
manually normally particular personally possible possibly precisely properly proper quickly quick real really right
several simply simple sort specific specifically still successfully such sure thing things top type types typical
typically usual usually various very well whole best better fast way ways method methods step steps someone somebody
people person everyone anyone anybody one do does did done doing happen happens go going tell list describe suggest
recommend name called famous tips tip idea ideas example examples make makes made having become becomes available
similar truly known meant myself own entire even written choice choices word words
""")
"""Words that one question may have more than another that asks for the same."""
LETTERED: Final = word_set("""
plan option type team group class grade vitamin test part section question answer choice version level category
hepatitis blood terminal gate room row block building series stage phase column exhibit appendix schedule form variant
platform zone wing unit hall serie visa item point model line
""")
"""Nouns that a single letter may name."""
ABROAD: Final = word_set(
    "a in an am on me we as had has of is so was do no at over die was man for us i will also all her have under want "
    "one to per about pour come most any till over by"
)
"""English words that are words of other languages too."""
ENGLISH: Final = (
    EMPTY | AUXILIARIES | NEGATIONS | ARTICLES | frozenset(PLACED) | frozenset(QUANTIFIERS) | frozenset(MODALS)
    | frozenset(ASKING) | frozenset(LIGHT) | MEASURED | PREPARING | FIRST | SECOND | THIRD | frozenset(REALLY)
)  # fmt: skip
"""Words by which a question shows that it is English."""


def tells(word: str) -> bool:
    """Return whether a word tells what is spoken of."""
    return bool(word) and not (word in EMPTY or word in QUANTIFIERS or word in PLACED or word == "not")
