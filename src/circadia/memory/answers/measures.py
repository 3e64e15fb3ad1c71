"""Closed classes of English words for amounts: numbers, units, and what is said of them, as `at least`."""

from typing import Final

from circadia.memory.answers.word_classes import by_class

BOUNDS: Final = {
    words.strip(): line.split("|")[0]
    for line in """
at least|no less than|not less than|minimum|minimum of|min|no fewer than
at most|no more than|not more than|up to|upto|maximum|maximum of|max|no later than
more than|over|above|greater than|larger than|bigger than|higher than|older than|longer than|exceeding|exceed|beyond
less than|under|below|fewer than|smaller than|lower than|younger than|shorter than|cheaper than|beneath
about|around|approximately|roughly|nearly|almost|~|some|circa
before|prior to|earlier than
after|following|later than|past
since|ever since
until|till|til
by
within
for
every
except|but|without
plus|+
minus
against
per
""".strip().splitlines()
    for words in line.split("|")
}
"""What the words before a number or a time make of it."""
BOUNDS_AFTER: Final = {
    "or more": "at least", "and more": "at least", "or above": "at least", "at least": "at least",
    "or over": "at least", "and above": "at least", "or less": "at most", "or fewer": "at most",
    "or under": "at most", "and below": "at most", "at most": "at most", "or below": "at most",
    "or earlier": "before", "or later": "after", "years ago": "ago",
}  # fmt: skip
"""What the words after it make of it."""
UNITS: Final = by_class("""
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
mcg µg μg microgram micrograms ug
ng nanogram nanograms
ounce ounces oz
lb lbs
ton tons tonne tonnes
liter liters litre litres
ml milliliter milliliters
gallon gallons
second seconds sec secs s
ms millisecond milliseconds msec
bit bits
byte bytes
MW megawatt megawatts
mW milliwatt milliwatts
Gb gigabit gigabits
Mb megabit megabits
Kb kilobit kilobits
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
TIME_UNITS: Final = frozenset(["second", "ms", "minute", "hour", "day", "week", "month", "year", "decade", "century"])
MULTIPLES: Final = {
    "M": 10**6, "k": 10**3, "hundred": 10**2, "thousand": 10**3, "lakh": 10**5, "lakhs": 10**5, "lac": 10**5,
    "million": 10**6,
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
    "zero": 0, "twice": 2, "thrice": 3, "double": 2, "triple": 3, "couple": 2, "pair": 2,
}  # fmt: skip
