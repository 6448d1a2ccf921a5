-- Sliding window counter: this window's count plus the one before, weighted by how much of it still
-- overlaps the last W.

do local A = {}
algorithms.swc = A

function A.quota(at)
  return { l = tonumber(ARGV[at]), w = tonumber(ARGV[at + 1]) }
end

function A.limit(q)
  return q.l
end

function A.read(key, q)
  local found = redis.call('HMGET', key, 'window', 'size', 'current', 'previous')
  local s = { current = 0, previous = 0 }
  if not found[1] then
    s.absent = true
    return s
  end
  s.window = tonumber(found[1])
  s.size = tonumber(found[2])
  local start = now - now % q.w
  -- A window later than now's is now's; windows of another size count as late as any of them can lie.
  local edge = math.min(s.window, math.floor(now / s.size)) * s.size
  local function place(ends, count)
    if ends > start then
      s.current = s.current + count
    elseif ends + q.w > start then
      s.previous = s.previous + count
    end
  end
  place(edge + s.size, tonumber(found[3]))
  place(edge, tonumber(found[4]))
  return s
end

function A.used(q, s)
  local weighted = mul_div(s.previous, q.w - now % q.w, q.w)
  return weighted + s.current
end

-- How far into a window a previous count weighs less than `bound`; W where that is not before the
-- window's end.
function A.first_below(q, count, bound)
  if count < bound then
    return 0
  end
  return q.w - (mul_div_ceil(bound, q.w, count) - 1)
end

-- If what is current leaves room, in this window or at its end, since nothing else weighs then; if
-- not, in the next one, where what is current weighs as previous, or at its end.
function A.retry_after(q, s, cost)
  local elapsed = now % q.w
  local free = q.l - cost
  if free >= s.current then
    return A.first_below(q, s.previous, free - s.current + 1) - elapsed
  end
  return (q.w - elapsed) + A.first_below(q, s.current, free + 1)
end

function A.admit(q, s, cost)
  if cost > q.l then
    return false, -1, 0
  end
  if A.used(q, s) + cost <= q.l then
    return true, 0, 0
  end
  return false, A.retry_after(q, s, cost), 0
end

function A.write(key, q, s, current, previous)
  s.current = current
  s.previous = previous
  if current == 0 and previous == 0 then
    redis.call('DEL', key)
    return
  end
  local window = math.floor(now / q.w)
  redis.call('HSET', key, 'window', text(window), 'size', text(q.w),
    'current', text(current), 'previous', text(previous))
  expire(key, A.reset_after(q, s))
end

function A.charge(key, q, s, cost)
  A.write(key, q, s, s.current + cost, s.previous)
end

function A.anchor(key, q, s)
  if not s.absent and (s.size ~= q.w or s.window > math.floor(now / q.w)) then
    A.write(key, q, s, s.current, s.previous)
  end
end

function A.remaining(q, s)
  return math.max(0, q.l - A.used(q, s))
end

function A.reset_after(q, s)
  local until_end = q.w - now % q.w
  if s.current > 0 then
    return until_end + q.w
  elseif s.previous > 0 then
    return until_end
  end
  return 0
end

function A.refund(key, q, s, units, charged_at)
  local current, previous = s.current, s.previous
  if not charged_at then
    previous = math.max(0, previous - math.max(0, units - current))
    current = math.max(0, current - units)
  else
    local ago = math.floor(now / q.w) - math.floor(math.min(charged_at, now) / q.w)
    if ago == 0 then
      current = math.max(0, current - units)
    elseif ago == 1 then
      previous = math.max(0, previous - units)
    end
  end
  A.write(key, q, s, current, previous)
end

function A.overcharge(key, q, s, units)
  local taken = math.min(units, math.max(0, 2 * q.l - s.current))
  A.write(key, q, s, s.current + taken, s.previous)
  return units - taken
end
end
