-- Leaking bucket: a queue of B units that drains at R per P. What does not fit is denied, and so is
-- who would wait too long.
--
-- Further numbers: max_delay_us or -1, and whether to shape (0 or 1).

local debt_limit = limit

local function limit(at)
  local s, after = debt_limit(at)
  local max_delay_us, shape, its_after = numbers('<dd', ARGV[2], after)
  s.max_delay_us, s.shape = max_delay_us, shape == 1
  return s, its_after
end

function admit(s, queued, cost)
  if cost > s.capacity then
    return -1, 0
  end
  local room = (s.capacity - cost) * s.unit
  local wait_us = ceil(queued / s.drain)
  local retry_after_us = ceil(math.max(0, queued - room) / s.drain)
  -- A look waits for nothing.
  if s.max_delay_us >= 0 and cost > 0 then
    retry_after_us = math.max(retry_after_us, wait_us - s.max_delay_us)
  end
  if retry_after_us == 0 and s.shape and cost > 0 then
    return 0, wait_us
  end
  return retry_after_us, 0
end
