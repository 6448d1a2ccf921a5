-- The arithmetic that the three buckets share: a debt in units of token·P that drains R a
-- microsecond. q.b is the capacity, q.r the drain, q.p the unit. `last` names the field of the time.

local function debt_algorithm(last)
  local A = {}

  function A.quota(at)
    return {
      b = tonumber(ARGV[at]), r = tonumber(ARGV[at + 1]), p = tonumber(ARGV[at + 2]),
      max_delay = tonumber(ARGV[at + 3]), shape = ARGV[at + 4] == '1',
    }
  end

  function A.limit(q)
    return q.b
  end

  function A.read(key, q)
    local found = redis.call('HMGET', key, 'debt', 'unit', last)
    if not found[1] then
      return { debt = 0, last = now, absent = true, at = 0 }
    end
    local s = { debt = tonumber(found[1]), unit = tonumber(found[2]), last = tonumber(found[3]) }
    local debt = s.debt
    if s.unit ~= q.p then
      debt = math.min(mul_div_ceil(debt, q.p, s.unit), MOST)
    end
    local elapsed = now - s.last
    local drained = 0
    if elapsed > 0 then
      drained = elapsed * q.r
    end
    if drained >= debt then
      s.at = 0
    else
      s.at = debt - drained
    end
    return s
  end

  -- Until `cost` fits below the capacity.
  function A.until_fits(q, s, cost)
    local over = s.at - (q.b * q.p - cost * q.p)
    if over <= 0 then
      return 0
    end
    return math.ceil(over / q.r)
  end

  -- Whether it fits, when else, and how long it is to wait.
  function A.admit(q, s, cost)
    if cost > q.b then
      return false, -1, 0
    end
    local retry = A.until_fits(q, s, cost)
    return retry == 0, retry, 0
  end

  function A.write(key, q, s, debt)
    s.at = debt
    redis.call('HSET', key, 'debt', text(debt), 'unit', text(q.p), last, text(now))
    expire(key, A.reset_after(q, s))
  end

  function A.charge(key, q, s, cost)
    A.write(key, q, s, s.at + cost * q.p)
  end

  function A.anchor(key, q, s)
    if not s.absent and s.last > now then
      A.write(key, q, s, s.at)
    end
  end

  function A.remaining(q, s)
    return math.max(0, math.floor((q.b * q.p - s.at) / q.p))
  end

  function A.reset_after(q, s)
    return math.ceil(s.at / q.r)
  end

  function A.refund(key, q, s, units, charged_at)
    local given = units * q.p
    if charged_at and now > charged_at then
      given = given - (now - charged_at) * q.r
    end
    A.write(key, q, s, math.max(0, s.at - math.max(0, given)))
  end

  function A.overcharge(key, q, s, units)
    local taken = math.min(units * q.p, math.max(0, 2 * q.b * q.p - s.at))
    A.write(key, q, s, s.at + taken)
    return units - math.floor(taken / q.p)
  end

  return A
end
