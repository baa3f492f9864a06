"""The result tables of the four papers: what each needs, its published figures, and how it is made again."""
