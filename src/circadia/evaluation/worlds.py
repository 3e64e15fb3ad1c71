"""The four worlds of the generator: a shop, a timetable, a family and a project."""

from typing import Final

from circadia.evaluation.forms import Form
from circadia.evaluation.world import (
    Kind,
    Told,
    World,
    age_in_years,
    arrival,
    children,
    delayed,
    earliest,
    extreme,
    forms,
    grandmother,
    later,
    price_of_some,
    remaining,
    surplus,
    told_value,
    workload,
    worth,
)

SHOP: Final = World(
    name="shop",
    opening="These are the notes of a small shop.",
    told=(
        Told(form=Form("The shop keeps {count} {goods}, which sell for {price} dollars each."), thing="goods"),
    ),
    focus=Form("Most people who call ask about the {focus}."),
    kinds=(
        Kind(
            name="count", often=5, gaps={"goods": "count"}, program=told_value("count", "goods"),
            wordings=forms(
                "How many {goods} does the shop keep?", "How many {goods} are in the shop?",
                "What is the number of {goods} that the shop keeps?", "What stock of {goods} is there?",
                "How large is the shop's supply of {goods}?",
            ),
            learned=Form("The number of {goods} is {answer_number}."),
        ),
        Kind(
            name="price", often=6, gaps={"goods": "price"}, program=told_value("price", "goods"),
            wordings=forms(
                "What is the price of the {goods}?", "For how many dollars do the {goods} sell?",
                "How many dollars is one of the {goods}?", "What does one of the {goods} cost?",
                "How much money does the shop want for one of the {goods}?",
            ),
            learned=Form("The price of one of the {goods} is {answer_number} dollars."),
        ),
        Kind(
            name="worth", often=4, gaps={"goods": "count"}, program=worth,
            wordings=forms(
                "What are all the {goods} worth together?", "How many dollars are all the {goods} worth?",
                "What is the total value of the {goods}?", "What would all the {goods} bring if they were sold?",
                "How many dollars do all the {goods} come to?",
            ),
            learned=Form("All the {goods} together are worth {answer_number} dollars."),
        ),
        Kind(
            name="more", often=3, gaps={"goods": "count", "other": "count"}, program=surplus("count", "goods"),
            wordings=forms(
                "How many more {goods} than {other} does the shop keep?",
                "By how many do the {goods} outnumber the {other}?",
                "How many fewer {other} than {goods} are there in the shop?",
                "What is the difference between the number of {goods} and the smaller one of {other}?",
                "By how many does the stock of {other} fall short of that of {goods}?",
            ),
            learned=Form("There are {answer_number} more {goods} than {other}."),
        ),
        Kind(
            name="dearest", often=1.5, gaps={}, program=extreme("price", max),
            wordings=forms(
                "Which goods have the highest price?", "What are the dearest goods of the shop?",
                "Which goods does the shop sell for the most?", "What in the shop costs the most?",
                "Which goods are the most expensive?",
            ),
            learned=Form("The goods with the highest price are the {answer}."),
        ),
        Kind(
            name="cost", often=2, gaps={"goods": "price", "amount": ""}, program=price_of_some,
            wordings=forms(
                "How much do {amount} {goods} cost?", "What is the price of {amount} {goods}?",
                "How many dollars must be paid for {amount} {goods}?", "What must a customer pay for {amount} {goods}?",
                "If somebody buys {amount} {goods}, what is the bill in dollars?",
            ),
            learned=Form("The cost of {amount} {goods} is {answer_number} dollars."),
        ),
        Kind(
            name="left", often=1, gaps={"goods": "count", "amount": ""}, program=remaining,
            wordings=forms(
                "How many {goods} are left when {amount} of them are sold?",
                "After a sale of {amount} {goods}, how many of them remain?",
                "If {amount} {goods} are sold, how many does the shop still keep?",
                "What is the stock of {goods} after {amount} of them have been sold?",
                "How many {goods} has the shop got once {amount} are gone?",
            ),
            learned=Form("When {amount} {goods} are sold, {answer_number} are left."),
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
    told=(
        Told(
            form=Form(
                "The train to {town} leaves at {time} from platform {platform} and takes {minutes} minutes."
            ),
            thing="town",
        ),
    ),
    focus=Form("Most passengers ask about the train to {focus}."),
    kinds=(
        Kind(
            name="time", often=6, gaps={"town": "time"}, program=told_value("time", "town"),
            wordings=forms(
                "When does the train to {town} leave?", "At what time does the train to {town} depart?",
                "What is the departure time of the {town} train?", "When does the {town} train set off?",
                "What time is the train to {town}?",
            ),
            learned=Form("The departure to {town} is at {answer_time}."),
        ),
        Kind(
            name="platform", often=4, gaps={"town": "platform"}, program=told_value("platform", "town"),
            wordings=forms(
                "From which platform does the train to {town} leave?", "Which platform is the train to {town} on?",
                "What is the platform of the {town} train?", "At which platform do passengers for {town} get on?",
                "Where does one board the train to {town}?",
            ),
            learned=Form("The platform for {town} is number {answer_number}."),
        ),
        Kind(
            name="arrival", often=5, gaps={"town": "time"}, program=arrival,
            wordings=forms(
                "When does the train to {town} arrive?", "At what time does the train to {town} get there?",
                "What is the arrival time in {town}?", "When will a passenger be in {town}?",
                "At what time does one reach {town} by train?",
            ),
            learned=Form("The arrival in {town} is at {answer_time}."),
        ),
        Kind(
            name="longer", often=2, gaps={"town": "minutes", "other": "minutes"}, program=surplus("minutes", "town"),
            wordings=forms(
                "How many minutes longer does the train to {town} take than the train to {other}?",
                "By how many minutes is the ride to {town} longer than the ride to {other}?",
                "How many minutes shorter is the ride to {other} than the ride to {town}?",
                "What is the difference in minutes between the ride to {town} and the shorter one to {other}?",
                "How many more minutes does one sit in the train to {town} than in that to {other}?",
            ),
            learned=Form("The ride to {town} is {answer_number} minutes longer than that to {other}."),
        ),
        Kind(
            name="later", often=2, gaps={"town": "time", "other": "time"}, program=later,
            wordings=forms(
                "How many minutes after the train to {other} does the train to {town} leave?",
                "How many minutes before the train to {town} does the train to {other} leave?",
                "By how many minutes does the train to {town} depart later than the train to {other}?",
                "How many minutes lie between the departure to {other} and the later one to {town}?",
                "Who has missed the train to {other} waits how many minutes for the one to {town}?",
            ),
            learned=Form("The train to {town} leaves {answer_number} minutes after that to {other}."),
        ),
        Kind(
            name="first", often=2, gaps={}, program=extreme("time", min),
            wordings=forms(
                "To which town does the first train leave?", "Where does the earliest train go to?",
                "Which town has the earliest departure?", "Where does one get with the first train of the day?",
                "Which destination comes first in the timetable?",
            ),
            learned=Form("The first train goes to {answer}."),
        ),
        Kind(
            name="late", often=1.5, gaps={"town": "time", "late": ""}, program=arrival,
            wordings=forms(
                "When does the train to {town} arrive if it is {late} minutes late?",
                "With a delay of {late} minutes, when does the train to {town} arrive?",
                "What is the arrival time in {town} with {late} minutes of delay?",
                "If the train to {town} runs {late} minutes late, when is it there?",
                "When does one reach {town} if the train is held up for {late} minutes?",
            ),
            learned=Form("With {late} minutes of delay the arrival in {town} is at {answer_time}."),
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
    told=(
        Told(form=Form("{child} is a child of {mother}."), thing="child"),
        Told(form=Form("{person} is {age} years old and lives in {town}."), thing="person"),
    ),
    focus=Form("Most of the letters are about {focus}."),
    kinds=(
        Kind(
            name="age", often=6, gaps={"person": "age"}, program=told_value("age", "person"),
            wordings=forms(
                "How old is {person}?", "What is the age of {person}?", "How many years old is {person} now?",
                "What age has {person} reached?", "How many years has {person} lived?",
            ),
            learned=Form("The age of {person} is {answer_number} years."),
        ),
        Kind(
            name="town", often=5, gaps={"person": "town"}, program=told_value("town", "person"),
            wordings=forms(
                "Where does {person} live?", "In which town does {person} live?", "Where is {person} at home?",
                "What is the home town of {person}?", "Which town does {person} call home?",
            ),
            learned=Form("The home of {person} is {answer}."),
        ),
        Kind(
            name="mother", often=4, gaps={"child": "mother"}, program=told_value("mother", "child"),
            wordings=forms(
                "Who is the mother of {child}?", "What is the name of {child}'s mother?", "Whose child is {child}?",
                "Which woman is the mother of {child}?", "Who gave birth to {child}?",
            ),
            learned=Form("The mother of {child} is {answer}."),
        ),
        Kind(
            name="grandmother", often=3, gaps={"child": "mother"}, program=grandmother,
            wordings=forms(
                "Who is the grandmother of {child}?", "What is the name of {child}'s grandmother?",
                "Whose grandchild is {child}?", "Who is the mother of {child}'s mother?",
                "What is {child}'s grandmother called?",
            ),
            learned=Form("The grandmother of {child} is {answer}."),
        ),
        Kind(
            name="older", often=3, gaps={"person": "age", "other": "age"}, program=surplus("age", "person"),
            wordings=forms(
                "How many years older is {person} than {other}?", "By how many years is {other} younger than {person}?",
                "What was the age of {person} when {other} was born?",
                "What is the difference in age between {person} and the younger {other}?",
                "How many years before {other} was {person} born?",
            ),
            learned=Form("{person} is {answer_number} years older than {other}."),
        ),
        Kind(
            name="children", often=2, gaps={"mother": "mother of"}, program=children,
            wordings=forms(
                "How many children does {mother} have?", "What is the number of {mother}'s children?",
                "Of how many children is {mother} the mother?", "How many daughters and sons has {mother} got?",
                "To how many children did {mother} give birth?",
            ),
            learned=Form("The number of children of {mother} is {answer_number}."),
        ),
        Kind(
            name="oldest", often=2, gaps={}, program=extreme("age", max),
            wordings=forms(
                "Who is the oldest of the family?", "Who has lived the longest?", "Which person is the oldest?",
                "Who in the family has the highest age?", "Whose age is the greatest?",
            ),
            learned=Form("The oldest of the family is {answer}."),
        ),
        Kind(
            name="in years", often=1.5, gaps={"person": "age", "amount": ""}, program=age_in_years,
            wordings=forms(
                "How old will {person} be in {amount} years?", "What will the age of {person} be in {amount} years?",
                "In {amount} years, how many years old will {person} be?",
                "What age will {person} have reached {amount} years from now?",
                "How old is {person} going to be after another {amount} years?",
            ),
            learned=Form("In {amount} years {person} will be {answer_number} years old."),
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
    told=(
        Told(form=Form("The task {task} takes {days} days and is done by {worker}."), thing="task"),
        Told(form=Form("The task {task} can begin once the task {before} is done."), thing="task"),
    ),
    focus=Form("Most questions at the site are about the task {focus}."),
    kinds=(
        Kind(
            name="days", often=6, gaps={"task": "days"}, program=told_value("days", "task"),
            wordings=forms(
                "How many days does the task {task} take?", "How long does the task {task} last in days?",
                "What is the length of the task {task} in days?", "How many days must be planned for the task {task}?",
                "For how many days does the work on the task {task} go on?",
            ),
            learned=Form("The length of the task {task} is {answer_number} days."),
        ),
        Kind(
            name="worker", often=5, gaps={"task": "worker"}, program=told_value("worker", "task"),
            wordings=forms(
                "Who does the task {task}?", "Who is in charge of the task {task}?", "Whose task is {task}?",
                "Who has been given the task {task}?", "Which worker does the task {task}?",
            ),
            learned=Form("The worker for the task {task} is {answer}."),
        ),
        Kind(
            name="before", often=4, gaps={"task": "before"}, program=told_value("before", "task"),
            wordings=forms(
                "Which task must be done before the task {task} can begin?", "What does the task {task} wait for?",
                "After which task can the task {task} begin?",
                "What has to be done first so that the task {task} can start?",
                "On which task does the task {task} depend?",
            ),
            learned=Form("The task {task} waits for {answer}."),
        ),
        Kind(
            name="earliest", often=4, gaps={"task": "days"}, program=earliest,
            wordings=forms(
                "After how many days can the task {task} be finished at the earliest?",
                "What is the least number of days until the task {task} is finished?",
                "How many days from the start will it take until the task {task} is done?",
                "How soon can the task {task} be done, in days from the start?",
                "What is the shortest time in days until the end of the task {task}?",
            ),
            learned=Form("The task {task} is finished after {answer_number} days at the earliest."),
        ),
        Kind(
            name="longer", often=2, gaps={"task": "days", "other": "days"}, program=surplus("days", "task"),
            wordings=forms(
                "How many days longer does the task {task} take than the task {other}?",
                "By how many days is the task {task} longer than the task {other}?",
                "How many days shorter is the task {other} than the task {task}?",
                "What is the difference in days between the task {task} and the shorter task {other}?",
                "How many more days go into the task {task} than into the task {other}?",
            ),
            learned=Form("The task {task} is {answer_number} days longer than {other}."),
        ),
        Kind(
            name="workload", often=3, gaps={"worker": "worker of"}, program=workload,
            wordings=forms(
                "How many days does {worker} work in all?", "What is the total of {worker}'s days of work?",
                "For how many days is {worker} needed altogether?", "How many days of work has {worker} got in total?",
                "What do the days of all tasks of {worker} add up to?",
            ),
            learned=Form("The days of {worker} in all are {answer_number}."),
        ),
        Kind(
            name="longest", often=2, gaps={}, program=extreme("days", max),
            wordings=forms(
                "Which task takes the longest?", "What is the longest task?", "Which task has the most days?",
                "On which task do the workers spend the most days?", "What takes more days than any other task?",
            ),
            learned=Form("The longest task is {answer}."),
        ),
        Kind(
            name="delayed", often=1.5, gaps={"task": "days", "amount": ""}, program=delayed,
            wordings=forms(
                "How many days does the task {task} take if it lasts {amount} days longer?",
                "With {amount} days of rain, how many days does the task {task} take?",
                "What is the length of the task {task} in days with a delay of {amount} days?",
                "If the task {task} is held up for {amount} days, how many days does it take?",
                "How long in days is the task {task} when {amount} days are lost?",
            ),
            learned=Form("With {amount} days more, the task {task} takes {answer_number} days."),
        ),
    ),
    remarks=(
        "The neighbours have asked for quiet at noon.", "A crane stands at the corner of the road.",
        "The site office has a new kettle.", "The drawings hang beside the door of the hut.",
        "Somebody has lost a yellow glove.", "The dog of the foreman likes the sand heap.",
    ),
)  # fmt: skip

WORLDS: Final = (SHOP, TIMETABLE, FAMILY, PROJECT)
