"""usage.py - help of programs here that have few options, which is what they say at their beginning; and how all of them end."""

import sys


def help_if_asked(doc):
    """Before anything large is imported, or measured."""
    if {"-h", "--help"} & set(sys.argv[1:]):
        print(doc.strip())
        sys.exit()


def run(main):
    """Ends with its exit status; after Ctrl-C with a line."""
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(f"{sys.argv[0]}: interrupted")
