"""How `atlas` asks: four seen and two held-out phrasings a family (a relation, where the words depend on it).

The first `SEEN` phrasings of a list are used in every split, the others in the test split alone.
Slots: {x} is the thing asked about; {a}, {b} and {c} are names; {fact} is a noun; {more} and {most}
are measures; {claim} is a statement.
Words overlap between families on purpose ("How many people live in Peru?" is a look-up).
"""

SEEN = 4

LOOKUP: dict[str, tuple[str, ...]] = {
    "capital": (
        "What is the capital of {x}?",
        "Which city is the capital of {x}?",
        "Tell me the capital of the country of {x}.",
        "{x} has which city as its capital?",
        "From which city is {x} governed?",
        "For {x}, name the capital.",
    ),
    "population": (
        "How many people live in {x}?",
        "What is the population of {x}?",
        "Tell me the number of people in {x}.",
        "How big is the population of {x}?",
        "Count of the people of {x}, please?",
        "{x} is home to how many people?",
    ),
    "area": (
        "What is the area of {x}?",
        "How large is the area of {x}?",
        "How many square kilometres does {x} cover?",
        "Tell me the area of the country of {x}.",
        "{x} spans how many square kilometres?",
        "Give the land size of {x}.",
    ),
    "currency": (
        "What is the currency of {x}?",
        "Which currency is used in {x}?",
        "Tell me the currency of the country of {x}.",
        "What currency do people in {x} pay with?",
        "What money would you need in {x}?",
        "Name the currency found in a purse in {x}.",
    ),
    "language": (
        "What is the main language of {x}?",
        "Which language do most people in {x} use?",
        "Tell me the main language of {x}.",
        "What language is used in the country of {x}?",
        "Which tongue is most common in {x}?",
        "{x}: name its main language.",
    ),
    "demonym": (
        "What is the demonym for people from {x}?",
        "Which demonym do people of {x} have?",
        "Tell me the demonym for {x}.",
        "What are people from {x} called?",
        "Someone born in {x} is called what?",
        "By what name do the people of {x} go?",
    ),
    "calling_code": (
        "What is the calling code of {x}?",
        "Which calling code does {x} have?",
        "Tell me the calling code of {x}.",
        "What code do you dial to call {x}?",
        "To phone somebody in {x}, which number comes first?",
        "{x} is reached with which calling code?",
    ),
    "country": (
        "In which country is the city of {x}?",
        "Which country is {x} in?",
        "What country does {x} lie in?",
        "Tell me the country of the city {x}.",
        "{x} belongs to which country?",
        "Name the country that a trip to {x} leads to.",
    ),
}

# By what the question says instead of the country's name.
BRIDGE: dict[str, tuple[str, ...]] = {
    "capital": (
        "What is the {fact} of the country whose capital is {x}?",
        "{x} is a capital city. What is the {fact} of its country?",
        "Which {fact} does the country with the capital {x} have?",
        "Tell me the {fact} of the country that has {x} as its capital.",
        "What {fact} belongs to the land that is governed from {x}?",
        "A country has {x} as seat of government: name its {fact}.",
    ),
    "country": (
        "What is the {fact} of the country where {x} lies?",
        "{x} is a city. What is the {fact} of its country?",
        "Which {fact} does the country that {x} is in have?",
        "Tell me the {fact} of the country that the city of {x} belongs to.",
        "Around {x} lies a country; what is its {fact}?",
        "For the land that includes {x}, name the {fact}.",
    ),
    "largest_city": (
        "What is the {fact} of the country whose largest city is {x}?",
        "{x} is the largest city of a country. What is the {fact} there?",
        "Which {fact} does the country with the largest city {x} have?",
        "Tell me the {fact} of the country that has {x} as its largest city.",
        "No city of a certain land is bigger than {x}; what {fact} does it have?",
        "Name the {fact} of the place where {x} is the biggest city.",
    ),
}
FACT_NOUNS = {
    "capital": "capital",
    "population": "population",
    "currency": "currency",
    "language": "main language",
    "demonym": "demonym",
    "calling_code": "calling code",
}

COMPARE = (
    "Which has {more}, {a} or {b}?",
    "Does {a} or {b} have {more}?",
    "Which of {a} and {b} has {more}?",
    "Between {a} and {b}, which one has {more}?",
    "Take {a} and {b}: name the one with {more}.",
    "Would you find {more} in {a} or in {b}?",
)
MORE = {
    ("population", "max"): "more people",
    ("population", "min"): "fewer people",
    ("area", "max"): "a larger area",
    ("area", "min"): "a smaller area",
}

SUPERLATIVE = (
    "Which has {most}: {a}, {b} or {c}?",
    "Of {a}, {b} and {c}, which one has {most}?",
    "Among {a}, {b} and {c}, which has {most}?",
    "Does {a}, {b} or {c} have {most}?",
    "Take {a}, {b} and {c}: name the one with {most}.",
    "Rank {a}, {b} and {c}; who has {most}?",
)
MOST = {
    ("population", "max"): "the most people",
    ("population", "min"): "the fewest people",
    ("area", "max"): "the largest area",
    ("area", "min"): "the smallest area",
}

INTERSECT = (
    "Which country borders both {a} and {b}?",
    "What country has borders with {a} and with {b}?",
    "Tell me the country that borders {a} as well as {b}.",
    "Which country is a neighbour of both {a} and {b}?",
    "{a} and {b} have one neighbour in common; name it.",
    "Between {a} and {b}, which country touches the two of them?",
)

COUNT = (
    "How many countries border {x}?",
    "How many neighbours does {x} have?",
    "What is the number of countries that border {x}?",
    "Tell me how many countries touch {x}.",
    "Count the neighbours of {x}.",
    "With which number of countries does {x} have borders?",
)

VERIFY = (
    "Is it true that {claim}?",
    "Is it right to say that {claim}?",
    "Yes or no: {claim}?",
    "Tell me whether {claim}, yes or no.",
    "Someone told me that {claim}. Are they right?",
    "I read that {claim}. Does that hold?",
)
CLAIMS = {
    "capital": "{v} is the capital of {x}",
    "currency": "the currency of {x} is the {v}",
    "continent": "{x} is in {v}",
    "borders": "{x} borders {v}",
    "language": "the main language of {x} is {v}",
    "country": "{x} is a city in {v}",
}
