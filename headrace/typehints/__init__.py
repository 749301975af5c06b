"""Exports, under the module name of Beam, the types that a program declares for elements."""

from headrace.absent_names.absent_modules import add_absent_names, export_from_modules
from headrace.typehints import decorators as decorators
from headrace.typehints import row_type as row_type
from headrace.typehints import typehints as typehints
from headrace.typehints.decorators import *
from headrace.typehints.typehints import *

add_absent_names(__name__)
export_from_modules(__name__)
