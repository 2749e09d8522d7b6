"""All topics of the demo log in one tuple; their order is part of the seed's meaning, so new ones go to the end."""

from __future__ import annotations

from core.demo.topics_culture import CULTURE
from core.demo.topics_family import FAMILY
from core.demo.topics_health import HEALTH
from core.demo.topics_home import HOME
from core.demo.topics_kitchen import KITCHEN
from core.demo.topics_leisure import LEISURE
from core.demo.topics_model import Topic
from core.demo.topics_outdoors import OUTDOORS
from core.demo.topics_repairs import REPAIRS
from core.demo.topics_services import SERVICES
from core.demo.topics_travel import TRAVEL
from core.demo.topics_work import WORK

TOPICS: tuple[Topic, ...] = (
    *OUTDOORS,
    *KITCHEN,
    *HOME,
    *REPAIRS,
    *WORK,
    *HEALTH,
    *TRAVEL,
    *SERVICES,
    *LEISURE,
    *CULTURE,
    *FAMILY,
)
