-- Sliding window counter: this window's count plus the one before, weighted by how much of it still
-- overlaps the last W.
--
-- Parameters: max_requests (L), size_us (W).

local function limit(at)
  return {
    cost = ARGV[at] + 0, max_requests = ARGV[at + 1] + 0, size_us = ARGV[at + 2] + 0, key = '',
    current = 0, previous = 0, is_this = false, is_stale = false,
  }, at + 3
end

-- The counts in the terms of now's window. A window later than now's is now's; windows of another
-- size count whole, as late as any of them can lie.
local function read(s, key)
  local size_us, current, previous = s.size_us, 0, 0
  s.key, s.is_this, s.is_stale = key, false, false
  local found = call('HMGET', key, 'window', 'size', 'current', 'previous')
  if found[1] then
    local start_us = now_us - now_us % size_us
    local this, window, stored_us = start_us / size_us, found[1] + 0, found[2] + 0
    local edge_us = math.min(window, math.floor(now_us / stored_us)) * stored_us
    local end_us = edge_us + stored_us
    for nth = 3, 4 do
      if end_us > start_us then
        current = current + found[nth]
      elseif end_us + size_us > start_us then
        previous = previous + found[nth]
      end
      end_us = edge_us
    end
    s.is_this = window == this and stored_us == size_us and current > 0
    s.is_stale = window > this or stored_us ~= size_us
  end
  s.current, s.previous = current, previous
end

-- floor(previous · (W − elapsed) / W) + current.
local function used(s)
  local weighted = mul_div(s.previous, s.size_us - now_us % s.size_us, s.size_us)
  return weighted + s.current
end

local function admit(s, cost)
  if cost > s.max_requests then
    return -1, 0
  end
  if used(s) + cost <= s.max_requests then
    return 0, 0
  end
  -- How far into a window a previous count weighs less than `bound`; W where that is not before the
  -- window's end.
  local function first_below(count, bound)
    if count < bound then
      return 0
    end
    local _, left_us = mul_div(bound, s.size_us, count)
    return s.size_us - (left_us - 1)
  end
  -- If what is current leaves room, in this window or at its end, since nothing else weighs then; if
  -- not, in the next one, where what is current weighs as previous, or at its end.
  local elapsed_us, free = now_us % s.size_us, s.max_requests - cost
  if free >= s.current then
    return first_below(s.previous, free - s.current + 1) - elapsed_us, 0
  end
  return s.size_us - elapsed_us + first_below(s.current, free + 1), 0
end

-- Until neither window weighs anything.
local function reset_after(s)
  local until_end_us = s.size_us - now_us % s.size_us
  if s.current > 0 then
    return until_end_us + s.size_us
  elseif s.previous > 0 then
    return until_end_us
  end
  return 0
end

-- Counts `cost` units that were found to fit.
local function charge(s, cost)
  s.current = s.current + cost
  if s.current == 0 and s.previous == 0 then
    call('DEL', s.key)
    return
  end
  local current_text = format('%d', s.current)
  if s.is_this then
    -- It lives until the end of the next window already.
    call('HSET', s.key, 'current', current_text)
  else
    local window_text = format('%d', math.floor(now_us / s.size_us))
    local size_text = format('%d', s.size_us)
    local previous_text = format('%d', s.previous)
    call('HSET', s.key, 'window', window_text, 'size', size_text,
      'current', current_text, 'previous', previous_text)
    expire(s.key, reset_after(s), true)
  end
end

-- Units that still fit by the estimate.
local function remaining(s)
  local free = s.max_requests - used(s)
  if free < 0 then
    return 0
  end
  return free
end

if AMENDS then
  -- Takes units off the window that they were charged in, if it still weighs.
  function refund(s, units, charged_at_us)
    s.is_this = false
    if not charged_at_us then
      s.previous = math.max(0, s.previous - math.max(0, units - s.current))
      s.current = math.max(0, s.current - units)
    else
      local charged_in = math.floor(math.min(charged_at_us, now_us) / s.size_us)
      local ago = math.floor(now_us / s.size_us) - charged_in
      if ago == 0 then
        s.current = math.max(0, s.current - units)
      elseif ago == 1 then
        s.previous = math.max(0, s.previous - units)
      end
    end
    charge(s, 0)
  end

  -- Counts units whether they fit or not, up to 2·L; returns those forgiven.
  function overcharge(s, units)
    local taken = math.min(units, math.max(0, 2 * s.max_requests - s.current))
    charge(s, taken)
    return units - taken
  end
end
