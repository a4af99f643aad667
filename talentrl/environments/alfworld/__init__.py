"""ALFWorld, household tasks as a text game (Shridhar et al. 2021, https://alfworld.github.io), on two engines.

`official` plays through the packages `textworld` and `alfworld`, `game` is our own: the same texts, commands and
wins, without a planner and some thousand times as fast.
"""
