"""What a model reads of a schema is what it needs to answer, and no word more."""

from pydantic import BaseModel, Field

from circadia.llm.schemas import answer_schema, answer_schema_json, strip_schema


class Fact(BaseModel):
    """One fact, as the developers call it."""

    title: str = Field(description="What it is called.", max_length=40)
    description: list[str]


class Facts(BaseModel):
    """Several of them."""

    found: list[Fact] = Field(max_length=3)
    why: str | None = None


def test_titles_and_what_classes_say_of_themselves_are_left_out_and_nothing_else() -> None:
    schema = strip_schema(Facts.model_json_schema())
    assert schema == {
        "type": "object",
        "properties": {
            "found": {"type": "array", "items": {"$ref": "#/$defs/Fact"}, "maxItems": 3},
            "why": {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None},
        },
        "required": ["found"],
        "$defs": {
            "Fact": {
                "type": "object",
                "properties": {
                    "title": {"type": "string", "description": "What it is called.", "maxLength": 40},
                    "description": {"type": "array", "items": {"type": "string"}},
                },
                "required": ["title", "description"],
            }
        },
    }


class Place(BaseModel):
    """Named twice."""

    name: str


class Part(BaseModel):
    """Names itself."""

    parts: list["Part"]


class Trip(BaseModel):
    """Names classes once, twice, and one that names itself."""

    start: Place
    end: Place
    fact: Fact = Field(description="What is known of it.")
    part: Part


def test_a_class_stands_where_it_is_named_if_that_is_once() -> None:
    found = answer_schema(Facts)
    assert "$defs" not in found
    assert found["properties"]["found"]["items"] == strip_schema(Facts.model_json_schema())["$defs"]["Fact"]
    trip = answer_schema(Trip)
    assert set(trip["$defs"]) == {"Place", "Part"}
    assert trip["properties"]["start"] == trip["properties"]["end"] == {"$ref": "#/$defs/Place"}
    assert trip["properties"]["fact"]["description"] == "What is known of it."
    assert trip["properties"]["fact"]["properties"]["title"]["maxLength"] == 40
    assert trip["$defs"]["Part"]["properties"]["parts"]["items"] == {"$ref": "#/$defs/Part"}


def test_it_is_written_without_a_space_and_always_the_same() -> None:
    assert answer_schema_json(Facts) == answer_schema_json(Facts)
    assert b" " not in answer_schema_json(Facts).replace(b"What it is called.", b"")
