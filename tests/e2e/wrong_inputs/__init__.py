"""The tables of wrong inputs (test_wrong_inputs.py): a name for each, and what is given and must be said."""

from tests.e2e.wrong_inputs.commands import COMMANDS
from tests.e2e.wrong_inputs.data import DATA
from tests.e2e.wrong_inputs.models import MODELS
from tests.e2e.wrong_inputs.own_code import OWN_CODE
from tests.e2e.wrong_inputs.row import FOLDER, Content, Wrong
from tests.e2e.wrong_inputs.settings import SETTINGS

__all__ = ["FOLDER", "WRONG", "Content", "Wrong"]

WRONG: dict[str, Wrong] = SETTINGS | MODELS | DATA | OWN_CODE | COMMANDS
