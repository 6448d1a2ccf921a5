-- GCRA: each unit moves a theoretical arrival time, last + D / R, one interval ahead; a request is in
-- time while that stays within the tolerance of B intervals.

function admit(s, ahead, cost)
  local unit = s.unit
  local tolerance, advance = s.capacity * unit, cost * unit
  if advance > tolerance then
    return -1, 0
  end
  if ahead > tolerance - advance then
    return ceil((ahead - (tolerance - advance)) / s.drain), 0
  end
  return 0, 0
end
