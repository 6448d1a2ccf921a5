-- Sliding window log: the time of every unit admitted in the last W, in a list, oldest first. A
-- moment with more than one unit is followed by minus their number. The list ends with the number
-- of units in it, those that have left the window included, so that nobody has to count them.

do local A = {}
algorithms.swl = A

-- Elements that are read at a time.
local CHUNK = 64

function A.quota(at)
  return { l = tonumber(ARGV[at]), w = tonumber(ARGV[at + 1]) }
end

function A.limit(q)
  return q.l
end

-- Calls visit(time, units) for each moment, oldest first, until it returns true.
local function each(key, elements, visit)
  local time
  for from = 0, elements - 1, CHUNK do
    local upto = math.min(from + CHUNK, elements) - 1
    local chunk = redis.call('LRANGE', key, from, upto)
    for at = 1, #chunk do
      local number = tonumber(chunk[at])
      if number < 0 then
        if visit(time, -number) then return end
        time = nil
      else
        if time and visit(time, 1) then return end
        time = number
      end
    end
  end
  if time then
    visit(time, 1)
  end
end

function A.read(key, q)
  local length = redis.call('LLEN', key)
  local s = { elements = 0, units = 0, gone = 0, gone_elements = 0, newest = nil, key = key }
  if length == 0 then
    s.absent = true
    return s
  end
  s.elements = length - 1
  s.units = tonumber(redis.call('LINDEX', key, -1))
  each(key, s.elements, function(time, units)
    if time + q.w > now then
      return true
    end
    s.gone = s.gone + units
    s.gone_elements = s.gone_elements + (units > 1 and 2 or 1)
  end)
  local last = tonumber(redis.call('LINDEX', key, -2))
  if last < 0 then
    last = tonumber(redis.call('LINDEX', key, -3))
  end
  s.newest = last
  return s
end

function A.held(s)
  return s.units - s.gone
end

local function until_out(q, time)
  return math.min(time, now) + q.w - now
end

function A.admit(q, s, cost)
  if cost > q.l then
    return false, -1, 0
  end
  local excess = A.held(s) + cost - q.l
  if excess <= 0 then
    return true, 0, 0
  end
  local retry = 0
  local seen = -s.gone
  each(s.key, s.elements, function(time, units)
    seen = seen + units
    if seen >= excess then
      retry = until_out(q, time)
      return true
    end
  end)
  return false, retry, 0
end

-- Takes away what has left the window, and ties what is later than now to now.
function A.settle(key, q, s)
  if s.absent then
    return
  end
  redis.call('RPOP', key)
  if s.gone_elements > 0 then
    redis.call('LTRIM', key, s.gone_elements, -1)
    s.units = s.units - s.gone
    s.elements = s.elements - s.gone_elements
    s.gone, s.gone_elements = 0, 0
  end
  local later = 0
  while s.elements > 0 do
    local last, units = tonumber(redis.call('LINDEX', key, -1)), 1
    local elements = 1
    if last < 0 then
      units = -last
      last = tonumber(redis.call('LINDEX', key, -2))
      elements = 2
    end
    if last <= now then
      break
    end
    later = later + units
    for _ = 1, elements do
      redis.call('RPOP', key)
    end
    s.elements = s.elements - elements
  end
  if later > 0 then
    A.push(key, s, later)
  end
end

-- Adds units at now; to the last moment if that is now.
function A.push(key, s, units)
  if s.elements > 0 then
    local last, before, elements = tonumber(redis.call('LINDEX', key, -1)), 1, 1
    if last < 0 then
      before = -last
      last = tonumber(redis.call('LINDEX', key, -2))
      elements = 2
    end
    if last == now then
      units = units + before
      for _ = 1, elements do
        redis.call('RPOP', key)
      end
      s.elements = s.elements - elements
    end
  end
  redis.call('RPUSH', key, text(now))
  s.elements = s.elements + 1
  if units > 1 then
    redis.call('RPUSH', key, text(-units))
    s.elements = s.elements + 1
  end
  s.newest = now
end

-- Ends the list with the number of its units, or deletes it.
function A.close(key, q, s)
  if s.elements == 0 then
    redis.call('DEL', key)
    s.newest = nil
    return
  end
  local last = tonumber(redis.call('LINDEX', key, -1))
  if last < 0 then
    last = tonumber(redis.call('LINDEX', key, -2))
  end
  s.newest = last
  redis.call('RPUSH', key, text(s.units))
  expire(key, A.reset_after(q, s))
end

function A.charge(key, q, s, cost)
  A.settle(key, q, s)
  s.units = s.units + cost
  A.push(key, s, cost)
  A.close(key, q, s)
end

function A.anchor(key, q, s)
  if not s.absent and s.newest > now then
    -- Only what is later changes: what has left the window stays until something is written.
    s.gone_elements = 0
    A.settle(key, q, s)
    A.close(key, q, s)
  end
end

function A.remaining(q, s)
  return math.max(0, q.l - A.held(s))
end

function A.reset_after(q, s)
  if not s.newest or s.newest + q.w <= now then
    return 0
  end
  return until_out(q, s.newest)
end

function A.refund(key, q, s, units, charged_at)
  A.settle(key, q, s)
  if charged_at then
    charged_at = math.min(charged_at, now)
  end
  -- The list is rewritten: refunds are rare, and it holds at most 2·L units.
  local kept = {}
  each(key, s.elements, function(time, count)
    kept[#kept + 1] = { time, count }
  end)
  for at = #kept, 1, -1 do
    if units == 0 then
      break
    end
    if not charged_at or kept[at][1] == charged_at then
      local taken = math.min(units, kept[at][2])
      kept[at][2] = kept[at][2] - taken
      units = units - taken
      s.units = s.units - taken
    end
  end
  redis.call('DEL', key)
  s.elements = 0
  for at = 1, #kept do
    if kept[at][2] > 0 then
      redis.call('RPUSH', key, text(kept[at][1]))
      s.elements = s.elements + 1
      if kept[at][2] > 1 then
        redis.call('RPUSH', key, text(-kept[at][2]))
        s.elements = s.elements + 1
      end
    end
  end
  A.close(key, q, s)
end

function A.overcharge(key, q, s, units)
  local taken = math.min(units, math.max(0, 2 * q.l - A.held(s)))
  if taken > 0 then
    A.charge(key, q, s, taken)
  else
    A.settle(key, q, s)
    A.close(key, q, s)
  end
  return units - taken
end
end
