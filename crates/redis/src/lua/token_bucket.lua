-- Token bucket: a bucket of B tokens, refilled at R per P. A request takes as many as it costs.

local function admit(s, cost)
  if cost > s.capacity then
    return -1, 0
  end
  -- tokens ≥ cost, where tokens·P = B·P − D′.
  local room = (s.capacity - cost) * s.unit
  if s.debt <= room then
    return 0, 0
  end
  return math.ceil((s.debt - room) / s.drain), 0
end
