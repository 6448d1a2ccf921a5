-- Token bucket: a bucket of B tokens, refilled at R per P. A request takes as many as it costs.

function admit(s, debt, cost)
  local capacity = s.capacity
  if cost > capacity then
    return -1, 0
  end
  -- tokens ≥ cost, where tokens·P = B·P − D′.
  local room = (capacity - cost) * s.unit
  if debt <= room then
    return 0, 0
  end
  return ceil((debt - room) / s.drain), 0
end
