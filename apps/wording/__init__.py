"""The sentences that people read of results: made here of statuses, codes and numbers, for every kind of page.

Terminal, HTML and Markdown take them from here. Nothing decides by a sentence: another wording changes no number and no
headline.
"""
