"""Cost of the demo's tokens at a named model's list price."""

from dataclasses import dataclass
from decimal import Decimal

from genai_prices import Usage, calc_price

from circadia.errors import InvalidRequest


@dataclass(frozen=True, kw_only=True)
class ModelListPrice:
    """The list price of one model; `title` is its full name if `known`, otherwise `model`."""

    model: str
    title: str
    known: bool

    def usd(self, input_tokens: int, output_tokens: int) -> Decimal | None:
        if not self.known:
            return None
        return calc_price(Usage(input_tokens=input_tokens, output_tokens=output_tokens), self.model).total_price


def price_list(model: str, *, required: bool) -> ModelListPrice:
    """Look up a model's price. Raises InvalidRequest if it is unknown and `required` is set."""
    try:
        price = calc_price(Usage(input_tokens=1, output_tokens=1), model)
    except LookupError:
        if required:
            raise InvalidRequest(
                f"genai-prices knows no price for {model!r}; name another model with --price-as."
            ) from None
        return ModelListPrice(model=model, title=model, known=False)
    return ModelListPrice(model=model, title=price.model.name or price.model.id, known=True)
