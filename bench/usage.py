"""usage.py - the help of programs here that have few options: what they say at their beginning."""

import sys


def help_if_asked(doc):
    """Before anything large is imported, or measured."""
    if {"-h", "--help"} & set(sys.argv[1:]):
        print(doc.strip())
        sys.exit()
