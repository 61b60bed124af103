"""The query game: `python -m benchmarks.game`.

queries        drawn with a seed, or read from a file
texts          what all engines index
brute_force    right counts and scores
players        how each engine is built and started
records        what each engine played, and the checks of it
__main__       the rounds and the report
"""
