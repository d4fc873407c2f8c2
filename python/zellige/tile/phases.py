"""T.sync_grid: a launch whose blocks wait for each other is several launches, one after the other.

Memory of a block and its variables are gone with a launch, so what is declared before such a point moves to where it is used,
and may be used on one side only. Named expressions are repeated where they are used.
"""

import re

from .errors import TileError, describe


def text_of(statement):
    return statement.text() if callable(statement.text) else statement.text


def mentions(statements, name):
    word = re.compile(rf"\b{re.escape(name)}\b")
    return any(word.search(text_of(s)) or s.body and mentions(s.body, name) for s in statements)


def split(body, cuts):
    """The bodies of the launches that a body with cuts is."""
    ends = [*cuts, len(body)]
    parts = [list(body[begin:end]) for begin, end in zip([0, *cuts], ends)]
    for at in reversed(range(len(parts))):
        for statement in reversed([s for s in parts[at] if s.declares]):
            move(parts, at, statement)
    return parts


def move(parts, at, statement):
    name = statement.declares()
    users = [j for j, part in enumerate(parts) if mentions([s for s in part if s is not statement], name)]
    if users in ([], [at]):
        return
    if len(users) > 1 and not statement.is_repeated:
        file, line = statement.place
        raise TileError(describe(file, line, None, f"'{name}' is used before and after T.sync_grid, which ends all memory of a "
                                                   "block: keep it in a global array"))
    parts[at].remove(statement)
    for j in users:
        parts[j].insert(0, statement)
