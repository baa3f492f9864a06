"""Names that are the same to a person: upper and lower case, and the two Unicode forms of an accent, do not differ."""

import unicodedata


def folded(name: str) -> str:
    """Return what is the same for names that differ in capitals or in Unicode form alone.

    >>> folded("Mu\\u0308ller") == folded("M\\u00dcLLER")
    True
    """
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", name).casefold())


def composed(name: str) -> str:
    """Return a name as it is, but for accents, which files and tools write in two ways.

    >>> composed("Zoe\u0308") == "Zoë"
    True
    """
    return unicodedata.normalize("NFC", name)
