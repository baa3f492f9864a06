"""Components in MONAI's form: a class by its name, ``_target_``, and its arguments, from an allow-list.

Settings are checked by processes that load no PyTorch. :mod:`.component` checks what can be seen without importing a
class: the form, the allowed packages, no expressions. :mod:`.building` imports the class, checks that it is what its
role wants and that the arguments fit its signature, and builds it.
"""
