"""Each guard objects to what it is for, in either order, and to nothing that only says the same otherwise."""

import pytest

from circadia.memory.answers.guards import Objection, objections
from circadia.memory.answers.meaning import meaning
from circadia.memory.answers.normal import tokens
from circadia.memory.answers.wording import compared
from circadia.memory.embedding.bundled import WordTable

pytestmark = pytest.mark.spec("ANS-02")


def against(one: str, other: str, words: WordTable) -> dict[str, str]:
    a, b = meaning(tokens(one), words), meaning(tokens(other), words)
    found: list[Objection] = list(objections(a.reading, b.reading, compared(a, b)))
    return {each.guard: each.reason for each in found}


DIFFERENT = [
    ("numbers", "What is 15 % of 80?", "What is 15 % of 90?"),
    ("numbers", "Which phone is best under 20000?", "Which phone is best under 15k?"),
    ("numbers", "How do I count from 1 to 10?", "How do I count from 10 to 1?"),
    ("numbers", "Who was the third president?", "Who was the fourth president?"),
    ("units", "How far is 5 km?", "How far is 5 miles?"),
    ("units", "What is the price in dollars?", "What is the price in euros?"),
    ("times", "What is the weather today?", "What is the weather tomorrow?"),
    ("times", "What happened in March?", "What happened in May and June?"),
    ("times", "Who was ill last week?", "Who was ill last month?"),
    ("names", "Is the office in Oslo open?", "Is the office in Lima open?"),
    ("names", "Who is the manager of Ann?", "Who is the manager of Bob?"),
    ("negation", "Why does the pump start?", "Why does the pump not start?"),
    ("negation", "Is the form valid?", "Is the form invalid?"),
    ("negation", "Can I log in with a key?", "Can I log in without a key?"),
    ("opposites", "Which plan is the best?", "Which plan is the worst?"),
    ("opposites", "What happens before the merge?", "What happens after the merge?"),
    ("opposites", "Where can I buy shares?", "Where can I sell shares?"),
    ("opposites", "Where is the downstairs bar?", "Where is the upstairs bar?"),
    ("opposites", "Who trains the interviewer?", "Who trains the interviewee?"),
    ("opposites", "Is the sting painful?", "Is the sting painless?"),
    ("opposites", "Which room has the quietest fan?", "Which room has the loudest fan?"),
    ("codes", "What does find_row do?", "What does find_rows do?"),
    ("codes", "Who edits notes.md?", "Who edits notes.mdx?"),
    ("codes", "What does --color do?", "What does --no-color do?"),
    ("codes", "What does sendMail do?", "What does sendMails do?"),
    ("joining", "Do we play if it snows?", "Do we play even if it snows?"),
    ("quantifiers", "Do both lifts work?", "Does either lift work?"),
    ("order", "Who taught Olaf?", "Who did Olaf teach?"),
    ("order", "Who drove Petra?", "Who did Petra drive?"),
    ("times", "Is it free up to March?", "Is it free from March?"),
    ("direction", "Are there trains from Rome?", "Are there trains to Rome?"),
    ("direction", "Send 100 from Ann to Bob", "Send 100 from Bob to Ann"),
    ("quantifiers", "Do all users see it?", "Do some users see it?"),
    ("quantifiers", "Can admins delete files?", "Can only admins delete files?"),
    ("order", "Did the dog bite the man?", "Did the man bite the dog?"),
    ("order", "Is Python faster than Ruby?", "Is Ruby faster than Python?"),
    ("asks", "When did the server crash?", "Why did the server crash?"),
    ("asks", "Who wrote the report?", "When was the report written?"),
    ("asks", "How many tickets are open?", "Why are tickets open?"),
    ("tense", "Who was the owner?", "Who will be the owner?"),
    ("tense", "Which firm owns the mill?", "Which firm owned the mill?"),
    ("tense", "Who leads the choir?", "Who led the choir?"),
    ("tense", "Who is the mayor of Acme?", "Who has been the mayor of Acme?"),
    ("tense", "Does Ann write the minutes?", "Has Ann written the minutes?"),
    ("tense", "Is it true that Ann rents the barn?", "Is it true that Ann rented the barn?"),
    ("tense", "Who used to sell boats in Rome?", "Who sells boats in Rome?"),
    ("modality", "Which forms are sent?", "Which forms are to be sent?"),
    ("modality", "How much do we have to save?", "How much do we save?"),
    ("modality", "Is the order changed?", "Can the order be changed?"),
    ("modality", "Who checked the pump?", "Who should have checked the pump?"),
    ("modality", "Are you to wait for Ann?", "Do you wait for Ann?"),
    ("joining", "Does it ring if the door opens?", "Does it ring when the door opens?"),
    ("how many", "Where is the invoice?", "Where are the invoices?"),
    ("direction", "Who sings with Ann?", "Who sings for Ann?"),
    ("direction", "Does Bob vote for Carla?", "Does Bob vote Carla?"),
    ("direction", "Who argues for the board?", "Who argues with the board?"),
    ("times", "Is the fair in May?", "Is the fair in June?"),
    ("times", "Who is on duty in may?", "Who is on duty?"),
    ("numbers", "Does the train leave at one?", "Does the train leave at two?"),
    ("numbers", "Is lunch from one to three?", "Is lunch from two to three?"),
    ("extra", "When did Ann start to sing?", "When did Ann sing?"),
    ("persons", "What is my name?", "What is your name?"),
    ("persons", "Why did I get a fine?", "Why did you get a fine?"),
    ("persons", "How was I found?", "How were you found?"),
    ("persons", "Where does he live?", "Where does she live?"),
    ("substitution", "How do I paint a boat?", "How do I sink a boat?"),
]


@pytest.mark.parametrize(("guard", "one", "other"), DIFFERENT)
def test_a_guard_objects_in_either_order(guard: str, one: str, other: str, words: WordTable) -> None:
    there, back = against(one, other, words), against(other, one, words)
    assert guard in there, there
    assert there.keys() == back.keys()
    assert all(there.values())


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("What is the difference between tea and coffee?", "What is the difference between coffee and tea?"),
        ("Which phone is best under 20000?", "Which phone is the best under 20k?"),
        ("How do I fix a bike?", "How can I repair a bike?"),
        ("How can I lose weight?", "How can you lose weight?"),
        ("In India, which phone is best?", "Which phone is best in India?"),
        ("What is the way to open it?", "How do I open it?"),
        ("Why is the sky blue?", "What is the reason the sky is blue?"),
        ("What will it cost, five dollars?", "What will it cost, $5?"),
        ("What are some good books?", "What are good books?"),
        ("Which book changed your life?", "What is one book that changed your life?"),
        ("Who will win the cup and why?", "Who will win the cup?"),
        ("How do I fix a broken pump?", "How do I repair a broken pump?"),
        ("Is it possible to pay by card?", "Can I pay by card?"),
        ("Is the rent paid?", "Has the rent been paid?"),
        ("Does Ann work with Bob and Carla?", "Does Ann work with Carla and Bob?"),
        ("Who is Ann's boss?", "Who is the boss of Ann?"),
        ("Is the shop open at one o'clock?", "Is the shop open at 1 o'clock?"),
        ("What may I bring in May?", "In May, what may I bring?"),
        ("Has Ann signed the lease?", "Has Ann signed a lease?"),
        ("How would you paint a boat?", "How would I paint a boat?"),
        ("What is the difference between tea and coffee?", "What are the differences between tea and coffee?"),
    ],
)
def test_no_guard_objects_to_the_same_said_otherwise(one: str, other: str, words: WordTable) -> None:
    assert not against(one, other, words)
    assert not against(other, one, words)


def test_a_question_has_nothing_against_itself(words: WordTable) -> None:
    for _, one, other in DIFFERENT:
        assert not against(one, one, words)
        assert not against(other, other, words)


OTHER = [
    ("Do Diet Coke and Coke Light have sugar?", "Do Diet Light and Coke Coke have sugar?"),
    ("Is the input of the meter broken?", "Is the output of the meter broken?"),
    (
        "Which documents do I need to open a bank account in Spain?",
        "Which documents do I need for a business bank account in Spain?",
    ),
    (
        "How long does a bank transfer take within Europe?",
        "How long does an instant bank transfer take within Europe?",
    ),
    ("What does the Pro plan of Acme cost?", "What does the plan of Acme cost?"),
    ("How do I renew a passport?", "How do I renew a child passport?"),
    ("When is the monthly report due?", "When is the report due?"),
    ("What is the limit of the savings account?", "What is the limit of the joint savings account?"),
    ("How do I paint the door?", "How do I paint the wooden door?"),
    ("Do I need a visa for Japan?", "Do I need a transit visa for Japan?"),
    ("more than 18 points to win?", "Are 18 points enough to win?"),
    ("Do I need more than 18 points to win?", "Do I need 18 points to win?"),
    ("Can I invite up to 5 guests?", "Can I invite 5 guests?"),
    ("Did it cost over 100 dollars in Rome?", "Did it cost exactly 100 dollars in Rome?"),
    ("Can I pay at least 5 dollars?", "Can I pay 5 dollars?"),
    ("Who was elected after 2019 in Rome?", "Who was elected in 2019 in Rome?"),
    ("Who has worked at Acme since 2019?", "Who has worked at Acme in 2019?"),
    ("Must I arrive by 9 at the gate?", "Must I arrive at 9 at the gate?"),
    ("Which phones under 20000 are good?", "Which 20000 phones are good?"),
    ("Will the parcel arrive within 3 days?", "Will the parcel arrive after 3 days?"),
    ("Is no more than 2 bags allowed on board?", "Are 2 bags allowed on board?"),
    ("Can I cancel less than 24 hours before the flight?", "Can I cancel 24 hours before the flight?"),
    ("Are nearly 50 people invited to the party?", "Are 50 people invited to the party?"),
    ("Is the shop open before Friday?", "Is the shop open on Friday?"),
    ("Can I send it by Monday to Ann?", "Can I send it on Monday to Ann?"),
    ("Are 10 or more licences cheaper?", "Are 10 licences cheaper?"),
    ("Why does the pump fail to start?", "Why does the pump start?"),
    ("Did Bob refuse to sign the contract?", "Did Bob sign the contract?"),
    ("Did Bob forget to sign the contract?", "Did Bob sign the contract?"),
    ("Did Ann pretend to sleep at work?", "Did Ann sleep at work?"),
    ("Did Bob deny the theft?", "Did Bob commit the theft?"),
    ("Should I avoid milk with this medicine?", "Should I drink milk with this medicine?"),
    ("Do neither Ann nor Bob sing?", "Do Ann and Bob sing?"),
    ("Is there no way not to pay the fee?", "Is there a way to pay the fee?"),
    ("Do I need to not eat before the test?", "Do I not need to eat before the test?"),
    ("Why cannt I log in?", "Why can I log in?"),
    ("Is the tank almost empty?", "Is the tank empty?"),
    ("Is the tank barely full?", "Is the tank full?"),
    ("Is the work partly done?", "Is the work done?"),
    ("Why wouldnt the door open?", "Why would the door open?"),
    ("Is Ann unable to swim?", "Is Ann able to swim?"),
    ("Do I need a visa?", "Do I have a visa?"),
    ("Do I want the report?", "Do I have the report?"),
    ("Do I need a visa for Japan?", "Do I get a visa for Japan?"),
    ("How does Acme make money?", "How does Acme use money?"),
    ("Does Ann like Bob?", "Does Ann know Bob?"),
    ("Do I have to pay the fee?", "Can I pay the fee?"),
    ("Must I pay the fee?", "Can I pay the fee?"),
    ("Can I smoke on board?", "Should I smoke on board?"),
    ("Do I need a visa and a passport?", "Do I need a visa or a passport?"),
    ("May guests use the pool?", "Must guests use the pool?"),
    ("How do I close my account?", "How do I close your account?"),
    ("How do I close my account?", "How do I close their account?"),
    ("How do I read his mail?", "How do I read her mail?"),
    ("Do I owe you money?", "Do you owe me money?"),
    ("Did you call me?", "Did I call you?"),
    ("Why do you hate me?", "Why do I hate you?"),
    ("How do I send you an invoice?", "How do you send me an invoice?"),
    ("Why did he leave her?", "Why did she leave him?"),
    ("What is my limit?", "What is your limit?"),
    ("我可以取消订单吗", "我不可以取消订单吗"),
    ("Wie kann ich die Karte sperren?", "Wie kann ich die Karte entsperren?"),
    ("Hur kommer jag till Oslo?", "Hur kommer jag till Rom?"),
    ("How strong is Ann, and can she lift it?", "How strong is Ann, and does she lift it?"),
    ("I fell on the ice. Is that common?", "I fell on the ice. Was that common?"),
    ("Ist der Laden noch offen?", "Ist der Laden nicht mehr offen?"),
    ("Est-ce que je peux payer ici?", "Est-ce que je ne peux pas payer ici?"),
    ("Cosa significa 👍 in chat?", "Cosa significa 👎 in chat?"),
    ("What does 👍 mean?", "What does 👎 mean?"),
    ("Who was George Bush?", "Who was George W. Bush?"),
    ("Where was John Smith born?", "Where was John Paul Smith born?"),
    ("Can all users see the invoices of Acme?", "Is it true that some users can see the invoices of Acme?"),
    ("Who was the owner of Acme in Rome?", "Who will be the new owner of the Acme firm in Rome?"),
    ("Do most of the staff have a key?", "Is it so that few of the staff have a key for it?"),
    ("Is 5 Mbps enough?", "Is 5 MBps enough?"),
    ("Is 5 GB enough?", "Is 5 Gb enough?"),
    ("Is 5 mW enough?", "Is 5 MW enough?"),
    ("Is a dose of 5 mg safe?", "Is a dose of 5 mcg safe?"),
    ("Is a delay of 5 ms normal?", "Is a delay of 5 s normal?"),
    ("Is a file of 20 bits large?", "Is a file of 20 bytes large?"),
    ("Is 3 furlongs far?", "Is 3 fathoms far?"),
    ("Can I book 3 rooms?", "Can I book 3 tables?"),
    ("Is blood type A rare?", "Is a blood type rare?"),
    ("What is in option a of question 3?", "What is in option b of question 3?"),
    ("Is plan A better for Rome?", "Is plan B better for Rome?"),
    ("Who plays for team A in Rome?", "Who plays for a team in Rome?"),
    ("Is test A hard?", "Is a test hard?"),
    ("Does vitamin C help?", "Does vitamin D help?"),
    ("Who is for the law?", "Who is against the law?"),
    ("Can I pay by card?", "Can I pay for a card?"),
    ("Did Ann jump off the bridge?", "Did Ann jump onto the bridge?"),
    ("Can I eat while the exam runs?", "Can I eat after the exam runs?"),
    ("Who pays Ann?", "Who is paid by Ann?"),
    ("Who chose Bob?", "Who was chosen by Bob?"),
    ("Did Rome beat Milan?", "Was Rome beaten by Milan?"),
    ("Who taught Ann?", "Who was taught by Ann?"),
    ("Is Rome as big as Milan?", "Is Rome bigger than Milan?"),
    ("Is the letter from Ann?", "Is the letter for Ann?"),
    ("Is the cat under the table?", "Is the cat on the table?"),
    ("Is x < y?", "Is x > y?"),
    ("What is 10 * 4 - 3?", "What is 10 - 4 * 3?"),
    ("Is a == b true?", "Is a != b true?"),
    ("What is (2 + 3) / 4?", "What is 2 + (3 / 4)?"),
    ("What is 5 - 3?", "What is 5 + 3?"),
    ("Is version 1.10 out?", "Is version 1.1 out?"),
    ("How do I enable logging?", "How do I disable logging?"),
    ("When does the shop open?", "When does the shop close?"),
    ("Is the cheapest plan in Rome?", "Is the largest plan in Rome?"),
    ("Can I bring my dog on the train?", "Can I bring my cat on the train?"),
    ("Who is the director of sales?", "Who is the director of finance?"),
    ("What is the weather today in Rome?", "What is the weather in Rome?"),
    ("What happened last week at Acme?", "What happened this week at Acme?"),
    ("Was Ann born on 3 May 1990?", "Was Ann born on 5 March 1990?"),
    ("Does the train stop at each station?", "Does the train stop at any station?"),
    ("Do only admins see it in Acme?", "Do admins see it in Acme?"),
    ("Is the first chapter free?", "Is the last chapter free?"),
    ("Are both doors locked?", "Is either door locked?"),
    ("How many users left?", "How many users joined?"),
    ("Is tea better than coffee?", "Is coffee better than tea?"),
    ("Did the teacher praise the student?", "Did the student praise the teacher?"),
    ("How far is it from Rome to Milan?", "How far is it from Milan to Rome?"),
    ("Can Ann lend Bob money?", "Can Bob lend Ann money?"),
    ("Convert dollars to euros", "Convert euros to dollars"),
    ("How do I move files from the server to the laptop?", "How do I move files from the laptop to the server?"),
    ("Are you allowed to sell me alcohol?", "Am I allowed to sell you alcohol?"),
    ("Which bank has the lowest fee?", "Which bank has the highest fee?"),
    ("Is it safe to take it with food?", "Is it safe to take it without food?"),
    ("Is everyone invited to the party?", "Is nobody invited to the party?"),
    ("Does he always pay for lunch?", "Does he never pay for lunch?"),
    ("Where do I report a stolen card?", "Where do I report a lost card?"),
    ("Who won the men's final?", "Who won the women's final?"),
    ("Is the museum open at noon?", "Is the museum open at midnight?"),
    ("Should I take the pill every 4 hours?", "Should I take the pill every 8 hours?"),
    ("Why is the app slow on Android?", "Why is the app slow on iOS?"),
]
"""Questions that differ in one small thing, of all kinds."""
SAME = [
    ("What is in notes.md?", "What's in notes.md?"),
    ("What is find_row?", "What does find_row mean?"),
    ("Who was taught by Olaf?", "Who did Olaf teach?"),
    ("What is between the red fox and the grey fox?", "What is between the grey fox and the red fox?"),
    ("How do I reset the password of my account?", "How can I reset my account's password?"),
    ("What is the price of the large plan?", "How much does the large plan cost?"),
    ("How can I lose weight?", "How do you lose weight?"),
    ("Which phone is best under 20000?", "Which phone is the best below 20k?"),
    ("Who wrote the report?", "By whom was the report written?"),
    ("How do I get a refund?", "How can I get my money back?"),
    ("What documents do I need for a visa?", "Which documents are required for a visa?"),
    ("Is there any way to cancel an order?", "How can I cancel an order?"),
    ("What is the best way to learn French?", "How can I learn French quickly?"),
    ("What are some good books about Rome?", "What are the best books about Rome?"),
    ("Did Rome beat Milan?", "Was Milan beaten by Rome?"),
    ("What is the difference between tea and coffee?", "What is the difference between coffee and tea?"),
    ("Do I have to pay customs?", "Do I need to pay customs?"),
    ("Can I change my address?", "Is it possible to change my address?"),
    ("Why can't I log in?", "Why am I not able to log in?"),
    ("What does the app cost per month?", "How much is the app per month?"),
    ("How many people work at Acme?", "What is the number of people working at Acme?"),
    ("How to delete an account?", "How do I delete my account?"),
    ("Which is the best phone below $500?", "Which is the best phone under 500 dollars?"),
    ("How do I turn off notifications?", "How can I disable notifications?"),
]


@pytest.mark.spec("ANS-09")
@pytest.mark.parametrize(("one", "other"), OTHER)
def test_one_small_thing_that_changes_the_answer_is_objected_to(one: str, other: str, words: WordTable) -> None:
    there, back = against(one, other, words), against(other, one, words)
    assert there
    assert there.keys() == back.keys()


@pytest.mark.parametrize(("one", "other"), SAME)
def test_another_wording_is_not_objected_to(one: str, other: str, words: WordTable) -> None:
    assert not against(one, other, words)
