-- Leaking bucket: a queue of B units that drains at R per P. Who would wait too long is denied.

algorithms.lb = debt_algorithm('last_leak')

function algorithms.lb.admit(q, s, cost)
  if cost > q.b then
    return false, -1, 0
  end
  local wait = math.ceil(s.at / q.r)
  local retry = algorithms.lb.until_fits(q, s, cost)
  -- A look waits for nothing.
  if q.max_delay >= 0 and cost > 0 then
    retry = math.max(retry, wait - q.max_delay)
  end
  if retry > 0 then
    return false, retry, 0
  end
  if q.shape and cost > 0 then
    return true, 0, wait
  end
  return true, 0, 0
end
