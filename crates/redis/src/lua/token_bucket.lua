-- Token bucket: a bucket of B tokens, refilled at R per P. A request takes as many as it costs.

algorithms.tb = debt_algorithm('last_refill')
