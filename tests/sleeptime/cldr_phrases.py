"""Makes `circadia/memory/date_phrases.json` from Unicode's CLDR: `python -m tests.sleeptime.cldr_phrases FOLDER`.

The folder is `package/main` of the npm package cldr-dates-full.
"""

import json
import re
import sys
from collections import Counter
from pathlib import Path
from typing import Any

LANGUAGES = """
ar ca cs da de el en eo es et eu fa fi fr ga hi hu hy id it ja ko lt ne nl no pl pt ro ru sr sv ta tr zh
"""
"""Those that `memory.languages` or their letters tell."""
PERIODS = ("week", "month", "year")
WEEKDAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
DAYS = (-2, -1, 1, 2)
"""Not today, which is the day of the message."""
FOLDER = Path(__file__).parents[2] / "src/circadia/memory"


def phrases(fields: dict[str, Any], parts_of_day: set[str]) -> list[list[str | int]]:
    """Return unit, number and wording of what a language has one wording for; the number is 0 where it is counted.

    A wording that is the name of a part of the day, too, such as Spanish `mañana`, is left out.
    """
    found: list[list[str | int]] = [["day", each, fields["day"].get(f"relative-type-{each}", "")] for each in DAYS]
    for unit in PERIODS:
        found += [[unit, each, fields[unit].get(f"relative-type-{each}", "")] for each in (-1, 0, 1)]
    found += [[day, -1, fields[day].get("relative-type--1", "")] for day in WEEKDAYS]
    for unit in ("day", *PERIODS):
        counted = dict.fromkeys(fields[unit].get("relativeTime-type-past", {}).values())
        found += [[unit, 0, each] for each in counted if "{0}" in each and re.search(r"\w", each.replace("{0}", ""))]
    said = Counter(str(wording).lower() for *_, wording in found)
    once = (each for each in found if each[2] and said[str(each[2]).lower()] == 1)
    return [each for each in once if not str(each[2]).startswith("-") and str(each[2]).lower() not in parts_of_day]


def day_parts(calendar: dict[str, Any]) -> set[str]:
    """Return the words in the names that a language has for parts of the day, such as the morning."""
    names = (name for forms in calendar["dayPeriods"].values() for form in forms.values() for name in form.values())
    return {word.lower() for name in names for word in re.findall(r"\w+", name)}


if __name__ == "__main__":
    main = Path(sys.argv[1])
    made: dict[str, Any] = {"source": "Unicode CLDR 48.2, dateFields; its licence stands beside this file"}
    for language in LANGUAGES.split():
        read = json.loads((main / language / "dateFields.json").read_text())["main"][language]
        calendar = json.loads((main / language / "ca-gregorian.json").read_text())["main"][language]
        parts = day_parts(calendar["dates"]["calendars"]["gregorian"])
        made[language] = phrases(read["dates"]["fields"], parts)
    lines = [f" {json.dumps(key)}: {json.dumps(value, ensure_ascii=False)}" for key, value in made.items()]
    (FOLDER / "date_phrases.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")
