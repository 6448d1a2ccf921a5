-- Fixed window: at most L in each window of length W, windows counted from the Unix epoch.
-- q.l is the count, q.w the size.

do local A = {}
algorithms.fw = A

function A.quota(at)
  return { l = tonumber(ARGV[at]), w = tonumber(ARGV[at + 1]) }
end

function A.limit(q)
  return q.l
end

function A.read(key, q)
  local found = redis.call('HMGET', key, 'window', 'size', 'count')
  if not found[1] then
    return { absent = true, at = 0 }
  end
  local s = { window = tonumber(found[1]), size = tonumber(found[2]), at = 0 }
  -- A window later than now's is now's; one of another size counts while any of it can lie in it.
  if (s.window + 1) * s.size > now - now % q.w then
    s.at = tonumber(found[3])
  end
  return s
end

function A.until_end(q)
  return q.w - now % q.w
end

function A.admit(q, s, cost)
  if cost > q.l then
    return false, -1, 0
  end
  if s.at + cost <= q.l then
    return true, 0, 0
  end
  return false, A.until_end(q), 0
end

function A.write(key, q, s, count)
  s.at = count
  if count == 0 then
    redis.call('DEL', key)
    return
  end
  local window = math.floor(now / q.w)
  redis.call('HSET', key, 'window', text(window), 'size', text(q.w), 'count', text(count))
  expire(key, A.until_end(q))
end

function A.charge(key, q, s, cost)
  A.write(key, q, s, s.at + cost)
end

function A.anchor(key, q, s)
  if not s.absent and (s.size ~= q.w or s.window > math.floor(now / q.w)) then
    A.write(key, q, s, s.at)
  end
end

function A.remaining(q, s)
  return math.max(0, q.l - s.at)
end

function A.reset_after(q, s)
  if s.at == 0 then
    return 0
  end
  return A.until_end(q)
end

function A.refund(key, q, s, units, charged_at)
  if charged_at and math.floor(math.min(charged_at, now) / q.w) ~= math.floor(now / q.w) then
    units = 0
  end
  A.write(key, q, s, math.max(0, s.at - units))
end

function A.overcharge(key, q, s, units)
  local taken = math.min(units, math.max(0, 2 * q.l - s.at))
  A.write(key, q, s, s.at + taken)
  return units - taken
end
end
