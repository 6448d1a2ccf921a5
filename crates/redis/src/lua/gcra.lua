-- GCRA: each unit moves a theoretical arrival time, last + D / R, one interval ahead; a request is in
-- time while that stays within the tolerance of B intervals.

local function admit(s, cost)
  local tolerance, advance = s.capacity * s.unit, cost * s.unit
  if advance > tolerance then
    return -1, 0
  end
  local ahead = s.debt
  if ahead > tolerance - advance then
    return math.ceil((ahead - (tolerance - advance)) / s.drain), 0
  end
  return 0, 0
end
