"""What the studio and its browser side tell each other: the inputs, the choices, and the blocks of numbers."""

from collections.abc import Mapping
from typing import Any

import traitlets

from pllab.schedule import Held, Kind
from pllab.show.export import FILE_TYPES
from pllab.show.studio_costs import MOST_RANKS
from pllab.show.studio_families import FAMILIES, Family, family_of
from pllab.show.studio_setting import MOST_MICROBATCHES, check_size
from pllab.show.widget import Widget
from pllab.simulate import Costs

_INPUT = {"sync": True, "echo_update": False}  # the browser knows what it sent; one message less to wait for
INPUTS = (
    "family",
    "compare",
    "num_ranks",
    "num_microbatches",
    "forward",
    "backward_input",
    "backward_weight",
    "p2p",
    "stage_costs",
    "stages_per_rank",
    "memory_limit",
    "critical",
)


class StudioTraits(Widget):
    """The traits of the studio; what is chosen is refused here when it does not exist."""

    _families: Mapping[str, Family] = FAMILIES

    family = traitlets.Unicode("1F1B").tag(**_INPUT)
    compare = traitlets.Unicode("", help="a second family, or nothing").tag(**_INPUT)
    num_ranks = traitlets.Int(4).tag(**_INPUT)
    num_microbatches = traitlets.Int(8).tag(**_INPUT)
    forward = traitlets.Float(1.0, min=0.0).tag(**_INPUT)
    backward_input = traitlets.Float(1.0, min=0.0).tag(**_INPUT)
    backward_weight = traitlets.Float(1.0, min=0.0).tag(**_INPUT)
    p2p = traitlets.Float(0.0, min=0.0, help="seconds a message travels").tag(**_INPUT)
    stage_costs = traitlets.Dict(help="stage number -> forward, input, weight; None as all others").tag(**_INPUT)
    stages_per_rank = traitlets.Float(1.0, help="of the stages that stage_costs names; follows the family").tag(
        **_INPUT
    )
    memory_limit = traitlets.Float(None, allow_none=True).tag(**_INPUT)
    critical = traitlets.Bool(False, help="whether the critical path is marked").tag(**_INPUT)
    memory = traitlets.Bool(True, help="whether the staircases are shown").tag(sync=True)
    selected = traitlets.Unicode("", help="the action chosen, such as 2F3").tag(**_INPUT)
    running = traitlets.Bool(False, help="whether a run is under way").tag(sync=True)
    options = traitlets.Dict(help="families, ends of sliders, what can be exported").tag(sync=True)
    stamp = traitlets.Float(0.0, help="when the browser was last touched, by its own clock").tag(**_INPUT)
    view = traitlets.Dict(help="numbers and words").tag(sync=True)
    actions = traitlets.Bytes(help="columns, see canvas.py: pack").tag(sync=True)
    compared = traitlets.Bytes().tag(sync=True)
    measured = traitlets.Bytes().tag(sync=True)
    path = traitlets.Bytes(help="int32 places of the critical path").tag(sync=True)
    order = traitlets.Dict(help="a button pressed: what, number").tag(**_INPUT)
    delivery = traitlets.Dict(help="name and type of the file asked for").tag(sync=True)
    file = traitlets.Bytes().tag(sync=True)

    @traitlets.validate("family", "compare", "num_ranks", "num_microbatches")
    def _exists(self, proposal: Any) -> Any:
        name, value = proposal["trait"].name, proposal["value"]
        try:
            if name == "num_ranks":
                check_size(name, value, MOST_RANKS)
            elif name == "num_microbatches":
                check_size(name, value, MOST_MICROBATCHES)
            elif value or name == "family":
                family_of(value, self._families)
        except ValueError as error:
            raise traitlets.TraitError(str(error)) from None
        return value


def options_of(costs: Costs, can_run: bool, families: Mapping[str, Family]) -> dict[str, Any]:
    """What the controls offer; a slider of costs ends at four times the largest."""
    return {
        "inputs": list(INPUTS),
        "families": list(families),
        "most_ranks": MOST_RANKS,
        "most_microbatches": MOST_MICROBATCHES,
        "most_cost": 4 * max(costs.duration(0, kind) for kind in (Kind.F, Kind.I, Kind.W)) or 1.0,
        "can_run": can_run,
        "share": Held().input_share,
        "exports": list(FILE_TYPES),
        "still": False,
    }
