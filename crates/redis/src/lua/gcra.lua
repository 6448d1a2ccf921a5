-- GCRA: the same debt, read as a theoretical arrival time (last + debt / R).

algorithms.gcra = debt_algorithm('last')
