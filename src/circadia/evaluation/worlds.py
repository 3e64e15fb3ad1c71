"""The four worlds of the generator: a shop, a timetable, a family and a project."""

from collections.abc import Callable, Mapping
from typing import Final

from circadia.evaluation.world import (
    Derivation,
    QuestionKind,
    SentencePattern,
    SentenceTemplate,
    Values,
    World,
    compute_age,
    compute_arrival,
    compute_delayed_days,
    compute_earliest_day,
    compute_minutes_later,
    compute_price,
    compute_remaining,
    compute_workload,
    compute_worth,
    count_children,
    extreme_program,
    find_grandmother,
    lookup_program,
    surplus_program,
)


def _question(
    name: str, frequency: float, gaps: Mapping[str, str], program: Callable[[Derivation, Values], str], answer: str,
    *wordings: str,
) -> QuestionKind:  # fmt: skip
    """Return a kind of question; `answer` states its answer ahead, and the most common wording is first."""
    return QuestionKind(
        name=name,
        frequency=frequency,
        wordings=tuple(map(SentenceTemplate, wordings)),
        gaps=gaps,
        answer_template=SentenceTemplate(answer),
        program=program,
    )


SHOP: Final = World(
    name="shop",
    opening="These are the notes of a small shop.",
    fact_sentences=(
        SentencePattern(
            form=SentenceTemplate("The shop keeps {count} {goods}, which sell for {price} dollars each."), thing="goods"
        ),
    ),
    focus=SentenceTemplate("Most people who call ask about the {focus}."),
    kinds=(
        _question(
            "count", 5, {"goods": "count"}, lookup_program("count", "goods"),
            "The number of {goods} is {answer_number}.",
            "How many {goods} does the shop keep?", "How many {goods} are in the shop?",
            "What is the number of {goods} that the shop keeps?", "What stock of {goods} is there?",
            "How large is the shop's supply of {goods}?",
        ),
        _question(
            "price", 6, {"goods": "price"}, lookup_program("price", "goods"),
            "The price of one of the {goods} is {answer_number} dollars.",
            "What is the price of the {goods}?", "For how many dollars do the {goods} sell?",
            "How many dollars is one of the {goods}?", "What does one of the {goods} cost?",
            "How much money does the shop want for one of the {goods}?",
        ),
        _question(
            "worth", 4, {"goods": "count"}, compute_worth,
            "All the {goods} together are worth {answer_number} dollars.",
            "What are all the {goods} worth together?", "How many dollars are all the {goods} worth?",
            "What is the total value of the {goods}?", "What would all the {goods} bring if they were sold?",
            "How many dollars do all the {goods} come to?",
        ),
        _question(
            "more", 3, {"goods": "count", "other": "count"}, surplus_program("count", "goods"),
            "There are {answer_number} more {goods} than {other}.",
            "How many more {goods} than {other} does the shop keep?",
            "By how many do the {goods} outnumber the {other}?",
            "How many fewer {other} than {goods} are there in the shop?",
            "What is the difference between the number of {goods} and the smaller one of {other}?",
            "By how many does the stock of {other} fall short of that of {goods}?",
        ),
        _question(
            "dearest", 1.5, {}, extreme_program("price", max),
            "The goods with the highest price are the {answer}.",
            "Which goods have the highest price?", "What are the dearest goods of the shop?",
            "Which goods does the shop sell for the most?", "What in the shop costs the most?",
            "Which goods are the most expensive?",
        ),
        _question(
            "cost", 2, {"goods": "price", "amount": ""}, compute_price,
            "The cost of {amount} {goods} is {answer_number} dollars.",
            "How much do {amount} {goods} cost?", "What is the price of {amount} {goods}?",
            "How many dollars must be paid for {amount} {goods}?", "What must a customer pay for {amount} {goods}?",
            "If somebody buys {amount} {goods}, what is the bill in dollars?",
        ),
        _question(
            "left", 1, {"goods": "count", "amount": ""}, compute_remaining,
            "When {amount} {goods} are sold, {answer_number} are left.",
            "How many {goods} are left when {amount} of them are sold?",
            "After a sale of {amount} {goods}, how many of them remain?",
            "If {amount} {goods} are sold, how many does the shop still keep?",
            "What is the stock of {goods} after {amount} of them have been sold?",
            "How many {goods} has the shop got once {amount} are gone?",
        ),
    ),
    remarks=(
        "The door sticks when it rains.", "The owner likes to hum while he sorts the shelves.",
        "A cat sleeps in the window most afternoons.", "The radio is tuned to the same station every day.",
        "A neighbour brings the paper in the morning.", "The lamp above the till was mended last month.",
    ),
)  # fmt: skip

TIMETABLE: Final = World(
    name="timetable",
    opening="This is the timetable of a station.",
    fact_sentences=(
        SentencePattern(
            form=SentenceTemplate(
                "The train to {town} leaves at {time} from platform {platform} and takes {minutes} minutes."
            ),
            thing="town",
        ),
    ),
    focus=SentenceTemplate("Most passengers ask about the train to {focus}."),
    kinds=(
        _question(
            "time", 6, {"town": "time"}, lookup_program("time", "town"),
            "The departure to {town} is at {answer_time}.",
            "When does the train to {town} leave?", "At what time does the train to {town} depart?",
            "What is the departure time of the {town} train?", "When does the {town} train set off?",
            "What time is the train to {town}?",
        ),
        _question(
            "platform", 4, {"town": "platform"}, lookup_program("platform", "town"),
            "The platform for {town} is number {answer_number}.",
            "From which platform does the train to {town} leave?", "Which platform is the train to {town} on?",
            "What is the platform of the {town} train?", "At which platform do passengers for {town} get on?",
            "Where does one board the train to {town}?",
        ),
        _question(
            "arrival", 5, {"town": "time"}, compute_arrival,
            "The arrival in {town} is at {answer_time}.",
            "When does the train to {town} arrive?", "At what time does the train to {town} get there?",
            "What is the arrival time in {town}?", "When will a passenger be in {town}?",
            "At what time does one reach {town} by train?",
        ),
        _question(
            "longer", 2, {"town": "minutes", "other": "minutes"}, surplus_program("minutes", "town"),
            "The ride to {town} is {answer_number} minutes longer than that to {other}.",
            "How many minutes longer does the train to {town} take than the train to {other}?",
            "By how many minutes is the ride to {town} longer than the ride to {other}?",
            "How many minutes shorter is the ride to {other} than the ride to {town}?",
            "What is the difference in minutes between the ride to {town} and the shorter one to {other}?",
            "How many more minutes does one sit in the train to {town} than in that to {other}?",
        ),
        _question(
            "later", 2, {"town": "time", "other": "time"}, compute_minutes_later,
            "The train to {town} leaves {answer_number} minutes after that to {other}.",
            "How many minutes after the train to {other} does the train to {town} leave?",
            "How many minutes before the train to {town} does the train to {other} leave?",
            "By how many minutes does the train to {town} depart later than the train to {other}?",
            "How many minutes lie between the departure to {other} and the later one to {town}?",
            "Who has missed the train to {other} waits how many minutes for the one to {town}?",
        ),
        _question(
            "first", 2, {}, extreme_program("time", min),
            "The first train goes to {answer}.",
            "To which town does the first train leave?", "Where does the earliest train go to?",
            "Which town has the earliest departure?", "Where does one get with the first train of the day?",
            "Which destination comes first in the timetable?",
        ),
        _question(
            "late", 1.5, {"town": "time", "late": ""}, compute_arrival,
            "With {late} minutes of delay the arrival in {town} is at {answer_time}.",
            "When does the train to {town} arrive if it is {late} minutes late?",
            "With a delay of {late} minutes, when does the train to {town} arrive?",
            "What is the arrival time in {town} with {late} minutes of delay?",
            "If the train to {town} runs {late} minutes late, when is it there?",
            "When does one reach {town} if the train is held up for {late} minutes?",
        ),
    ),
    remarks=(
        "The benches were painted green in spring.", "Pigeons gather under the roof of the hall.",
        "The coffee stand closes early on Sundays.", "An old poster of the sea hangs beside the stairs.",
        "The clock in the hall is checked every week.", "Bicycles stand in rows behind the building.",
    ),
)  # fmt: skip

FAMILY: Final = World(
    name="family",
    opening="This is what is known of a family.",
    fact_sentences=(
        SentencePattern(form=SentenceTemplate("{child} is a child of {mother}."), thing="child"),
        SentencePattern(form=SentenceTemplate("{person} is {age} years old and lives in {town}."), thing="person"),
    ),
    focus=SentenceTemplate("Most of the letters are about {focus}."),
    kinds=(
        _question(
            "age", 6, {"person": "age"}, lookup_program("age", "person"),
            "The age of {person} is {answer_number} years.",
            "How old is {person}?", "What is the age of {person}?", "How many years old is {person} now?",
            "What age has {person} reached?", "How many years has {person} lived?",
        ),
        _question(
            "town", 5, {"person": "town"}, lookup_program("town", "person"),
            "The home of {person} is {answer}.",
            "Where does {person} live?", "In which town does {person} live?", "Where is {person} at home?",
            "What is the home town of {person}?", "Which town does {person} call home?",
        ),
        _question(
            "mother", 4, {"child": "mother"}, lookup_program("mother", "child"),
            "The mother of {child} is {answer}.",
            "Who is the mother of {child}?", "What is the name of {child}'s mother?", "Whose child is {child}?",
            "Which woman is the mother of {child}?", "Who gave birth to {child}?",
        ),
        _question(
            "grandmother", 3, {"child": "mother"}, find_grandmother,
            "The grandmother of {child} is {answer}.",
            "Who is the grandmother of {child}?", "What is the name of {child}'s grandmother?",
            "Whose grandchild is {child}?", "Who is the mother of {child}'s mother?",
            "What is {child}'s grandmother called?",
        ),
        _question(
            "older", 3, {"person": "age", "other": "age"}, surplus_program("age", "person"),
            "{person} is {answer_number} years older than {other}.",
            "How many years older is {person} than {other}?", "By how many years is {other} younger than {person}?",
            "What was the age of {person} when {other} was born?",
            "What is the difference in age between {person} and the younger {other}?",
            "How many years before {other} was {person} born?",
        ),
        _question(
            "children", 2, {"mother": "mother of"}, count_children,
            "The number of children of {mother} is {answer_number}.",
            "How many children does {mother} have?", "What is the number of {mother}'s children?",
            "Of how many children is {mother} the mother?", "How many daughters and sons has {mother} got?",
            "To how many children did {mother} give birth?",
        ),
        _question(
            "oldest", 2, {}, extreme_program("age", max),
            "The oldest of the family is {answer}.",
            "Who is the oldest of the family?", "Who has lived the longest?", "Which person is the oldest?",
            "Who in the family has the highest age?", "Whose age is the greatest?",
        ),
        _question(
            "in years", 1.5, {"person": "age", "amount": ""}, compute_age,
            "In {amount} years {person} will be {answer_number} years old.",
            "How old will {person} be in {amount} years?", "What will the age of {person} be in {amount} years?",
            "In {amount} years, how many years old will {person} be?",
            "What age will {person} have reached {amount} years from now?",
            "How old is {person} going to be after another {amount} years?",
        ),
    ),
    remarks=(
        "They meet once a year by the lake.", "Nobody remembers who planted the big walnut tree.",
        "The old photographs lie in a tin box.", "On holidays there is always too much cake.",
        "The piano has not been tuned for a long time.", "Everybody tells the story of the lost key.",
    ),
)  # fmt: skip

PROJECT: Final = World(
    name="project",
    opening="This is the plan for building a house.",
    fact_sentences=(
        SentencePattern(
            form=SentenceTemplate("The task {task} takes {days} days and is done by {worker}."), thing="task"
        ),
        SentencePattern(
            form=SentenceTemplate("The task {task} can begin once the task {before} is done."), thing="task"
        ),
    ),
    focus=SentenceTemplate("Most questions at the site are about the task {focus}."),
    kinds=(
        _question(
            "days", 6, {"task": "days"}, lookup_program("days", "task"),
            "The length of the task {task} is {answer_number} days.",
            "How many days does the task {task} take?", "How long does the task {task} last in days?",
            "What is the length of the task {task} in days?", "How many days must be planned for the task {task}?",
            "For how many days does the work on the task {task} go on?",
        ),
        _question(
            "worker", 5, {"task": "worker"}, lookup_program("worker", "task"),
            "The worker for the task {task} is {answer}.",
            "Who does the task {task}?", "Who is in charge of the task {task}?", "Whose task is {task}?",
            "Who has been given the task {task}?", "Which worker does the task {task}?",
        ),
        _question(
            "before", 4, {"task": "before"}, lookup_program("before", "task"),
            "The task {task} waits for {answer}.",
            "Which task must be done before the task {task} can begin?", "What does the task {task} wait for?",
            "After which task can the task {task} begin?",
            "What has to be done first so that the task {task} can start?",
            "On which task does the task {task} depend?",
        ),
        _question(
            "earliest", 4, {"task": "days"}, compute_earliest_day,
            "The task {task} is finished after {answer_number} days at the earliest.",
            "After how many days can the task {task} be finished at the earliest?",
            "What is the least number of days until the task {task} is finished?",
            "How many days from the start will it take until the task {task} is done?",
            "How soon can the task {task} be done, in days from the start?",
            "What is the shortest time in days until the end of the task {task}?",
        ),
        _question(
            "longer", 2, {"task": "days", "other": "days"}, surplus_program("days", "task"),
            "The task {task} is {answer_number} days longer than {other}.",
            "How many days longer does the task {task} take than the task {other}?",
            "By how many days is the task {task} longer than the task {other}?",
            "How many days shorter is the task {other} than the task {task}?",
            "What is the difference in days between the task {task} and the shorter task {other}?",
            "How many more days go into the task {task} than into the task {other}?",
        ),
        _question(
            "workload", 3, {"worker": "worker of"}, compute_workload,
            "The days of {worker} in all are {answer_number}.",
            "How many days does {worker} work in all?", "What is the total of {worker}'s days of work?",
            "For how many days is {worker} needed altogether?", "How many days of work has {worker} got in total?",
            "What do the days of all tasks of {worker} add up to?",
        ),
        _question(
            "longest", 2, {}, extreme_program("days", max),
            "The longest task is {answer}.",
            "Which task takes the longest?", "What is the longest task?", "Which task has the most days?",
            "On which task do the workers spend the most days?", "What takes more days than any other task?",
        ),
        _question(
            "delayed", 1.5, {"task": "days", "amount": ""}, compute_delayed_days,
            "With {amount} days more, the task {task} takes {answer_number} days.",
            "How many days does the task {task} take if it lasts {amount} days longer?",
            "With {amount} days of rain, how many days does the task {task} take?",
            "What is the length of the task {task} in days with a delay of {amount} days?",
            "If the task {task} is held up for {amount} days, how many days does it take?",
            "How long in days is the task {task} when {amount} days are lost?",
        ),
    ),
    remarks=(
        "The neighbours have asked for quiet at noon.", "A crane stands at the corner of the road.",
        "The site office has a new kettle.", "The drawings hang beside the door of the hut.",
        "Somebody has lost a yellow glove.", "The dog of the foreman likes the sand heap.",
    ),
)  # fmt: skip

WORLDS: Final = (SHOP, TIMETABLE, FAMILY, PROJECT)
