"""Exports, under the module name of Beam, coders."""

from headrace.absent_names.absent_modules import add_absent_names, export_from_modules
from headrace.coders import coders as coders
from headrace.coders import row_coder as row_coder
from headrace.coders import typecoders as typecoders
from headrace.coders.coders import *
from headrace.coders.typecoders import *

add_absent_names(__name__)
export_from_modules(__name__)
