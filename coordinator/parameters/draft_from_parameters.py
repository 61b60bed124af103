"""The parameter reader: raw parameters → the draft of a search; mistakes are collected.

    for each raw parameter: find its row in the table ─▶ its reader ─▶ draft
                            none ─▶ mistake                └─▶ mistake, continue

Rows have stages: a parameter that depends on others (`order` on `sort_field`, `filters` on the
options of `facets`) is read after them. Finally `parameters_from_draft` fills the gaps from the
index's configuration, or all mistakes are raised as one error.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from common.errors import ServiceError
from coordinator.parameters.mistakes import Mistakes
from coordinator.parameters.parameters_from_draft import check_groups, search_parameters
from coordinator.parameters.parameters_of_other_engines import MISPLACED
from coordinator.parameters.request_decoding import QueryText
from coordinator.parameters.search_draft import SearchDraft
from coordinator.parameters.value_parsers import Mistake, json_of_text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from common.index_configuration import IndexConfiguration
    from common.limits import Limits
    from coordinator.parameters.parameter_row import Parameter
    from coordinator.parameters.parsed_parameters import SearchParameters
    from coordinator.parameters.request_decoding import RawParameters


def _stage_of(late: tuple[int, Parameter, Any]) -> int:
    return late[0]


class ParameterReader:
    """Reads the parameters of one request.

    Attributes:
        draft: what they say.
        mistakes: what is wrong with them.
    """

    __slots__ = ("draft", "mistakes")

    def __init__(self, configuration: IndexConfiguration, limits: Limits) -> None:
        self.draft = SearchDraft(configuration, limits)
        self.mistakes = Mistakes(limits.errors_reported_max)

    def read(self, raw: RawParameters, parameters: Mapping[str, Parameter]) -> None:
        """Read the given parameters, those that depend on others last."""
        late: list[tuple[int, Parameter, Any]] = []
        seen: dict[str, str] = {}
        for name, value in raw.items():
            parameter = parameters.get(name)
            if parameter is None:
                if self.mistakes.is_full:
                    break
                self.mistakes.note_unknown(name, parameters)
            elif value is None:
                continue
            elif seen.setdefault(parameter.name, name) is not name:
                self.mistakes.note(name, f"means {parameter.name}, which is given too", None)
            elif parameter.stage:
                late.append((parameter.stage, parameter, value))
            else:
                self._read_one(parameter, value)
        if late:
            late.sort(key=_stage_of)
            for _, parameter, value in late:
                self._read_one(parameter, value)

    def _read_one(self, parameter: Parameter, value: Any) -> None:
        """Read one parameter; record a mistake under its name."""
        try:
            if value.__class__ is list and value and value[0].__class__ is QueryText:
                if not parameter.is_list:
                    raise Mistake("is given more than once")
            elif value.__class__ is QueryText and parameter.is_json:
                value = _json_of(parameter, value)
            parameter.read(self.draft, value)
        except Mistake as mistake:
            self.mistakes.note(
                parameter.name + (mistake.path or ""),
                mistake.message,
                mistake.code or parameter.error_code,
            )
        except ServiceError as error:
            self.mistakes.note_error(parameter.name, error)

    def search_parameters(self) -> SearchParameters:
        """Return the parameters of a search.

        Raises:
            InvalidRequest: any parameter was wrong.
        """
        check_groups(self.draft, self.mistakes)
        self.mistakes.raise_if_any()
        return search_parameters(self.draft)


def _json_of(parameter: Parameter, value: QueryText) -> Any:
    """Decode JSON from a query string; if it is not JSON, say which parameter takes it."""
    try:
        return json_of_text(value)
    except Mistake as mistake:
        if parameter.name not in MISPLACED:
            raise
        raise Mistake(f"{mistake.message}; {MISPLACED[parameter.name]}") from None
