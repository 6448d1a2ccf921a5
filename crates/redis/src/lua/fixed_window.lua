-- Fixed window: at most L in each window of length W, windows counted from the Unix epoch.
--
-- Parameters: max_requests (L), size_us (W).

local function limit(at)
  return {
    cost = ARGV[at] + 0, max_requests = ARGV[at + 1] + 0, size_us = ARGV[at + 2] + 0, key = '',
    until_end_us = 0, count = 0, is_this = false, is_stale = false,
  }, at + 3
end

-- What counts in now's window. A window later than now's is now's; one of another size counts whole
-- while any of it can lie in now's.
local function read(s, key)
  local size_us = s.size_us
  local elapsed_us = now_us % size_us
  s.key, s.until_end_us = key, size_us - elapsed_us
  local found = call('HMGET', key, 'window', 'size', 'count')
  if not found[1] then
    s.count, s.is_this, s.is_stale = 0, false, false
    return
  end
  local start_us = now_us - elapsed_us
  local this, window, stored_us = start_us / size_us, found[1] + 0, found[2] + 0
  s.count = (window + 1) * stored_us > start_us and found[3] + 0 or 0
  s.is_this = window == this and stored_us == size_us
  s.is_stale = window > this or stored_us ~= size_us
end

local function admit(s, cost)
  if cost > s.max_requests then
    return -1, 0
  end
  if s.count + cost <= s.max_requests then
    return 0, 0
  end
  return s.until_end_us, 0
end

-- Counts `cost` units that were found to fit.
local function charge(s, cost)
  s.count = s.count + cost
  if s.count == 0 then
    call('DEL', s.key)
    return
  end
  local count_text = format('%d', s.count)
  if s.is_this then
    -- It lives until the window's end already.
    call('HSET', s.key, 'count', count_text)
  else
    local window_text = format('%d', math.floor(now_us / s.size_us))
    local size_text = format('%d', s.size_us)
    call('HSET', s.key, 'window', window_text, 'size', size_text, 'count', count_text)
    expire(s.key, s.until_end_us, true)
  end
end

-- Units that still fit.
local function remaining(s)
  if s.count > s.max_requests then
    return 0
  end
  return s.max_requests - s.count
end

-- Until the window ends, if anything counts in it.
local function reset_after(s)
  if s.count == 0 then
    return 0
  end
  return s.until_end_us
end

if AMENDS then
  -- Takes units off, if the window that they were charged in is still this one.
  function refund(s, units, charged_at_us)
    local charged_in = math.floor(math.min(charged_at_us or now_us, now_us) / s.size_us)
    if charged_in ~= math.floor(now_us / s.size_us) then
      units = 0
    end
    s.count = math.max(0, s.count - units)
    charge(s, 0)
  end

  -- Counts units whether they fit or not, up to 2·L; returns those forgiven.
  function overcharge(s, units)
    local taken = math.min(units, math.max(0, 2 * s.max_requests - s.count))
    charge(s, taken)
    return units - taken
  end
end
