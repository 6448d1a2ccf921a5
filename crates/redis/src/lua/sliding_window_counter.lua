-- Sliding window counter: this window's count plus the one before, weighted by how much of it still
-- overlaps the last W.
--
-- Numbers: cost, max_requests (L), size_us (W).
-- State: window, its size, its count, the count of the one before.

local function limit(at)
  local cost, max_requests, size_us, after = numbers('<ddd', ARGV[2], at)
  return {
    cost = cost, max_requests = max_requests, size_us = size_us, key = '', current = 0, previous = 0,
    is_this = false, is_stale = false,
  }, after
end

-- The counts in the terms of now's window. A window later than now's is now's; windows of another
-- size count whole, as late as any of them can lie, until both are as new, and absent.
local function look(s, key, place)
  local size_us, current, previous, is_this, is_stale = s.size_us, 0, 0, false, false
  local elapsed_us = now_us % size_us
  local found = stored(key, place, 32)
  if found then
    local window, stored_us, later, earlier = numbers('<dddd', found)
    if not (stored_us >= 1 and stored_us < 9007199254740992) then
      call('LLEN', key)
    end
    local start_us = now_us - elapsed_us
    local this = start_us / size_us
    if window == this and stored_us == size_us then
      current, previous, is_this = later, earlier, later > 0
    elseif now_us < (later > 0 and window + 2 or window + 1) * stored_us then
      local edge_us = math.min(window, math.floor(now_us / stored_us)) * stored_us
      if edge_us + stored_us > start_us then
        current = later
      elseif edge_us + stored_us + size_us > start_us then
        previous = later
      end
      if edge_us > start_us then
        current = current + earlier
      elseif edge_us + size_us > start_us then
        previous = previous + earlier
      end
      is_stale = window > this or stored_us ~= size_us
    end
  end
  s.key, s.current, s.previous, s.is_this, s.is_stale = key, current, previous, is_this, is_stale
  local cost, max_requests = s.cost, s.max_requests
  if cost > max_requests then
    return -1, 0
  end
  -- floor(previous · (W − elapsed) / W) + current.
  local used = current
  if previous > 0 then
    used = used + mul_div(previous, size_us - elapsed_us, size_us)
  end
  if used + cost <= max_requests then
    return 0, 0
  end
  -- How far into a window a previous count weighs less than `bound`; W where that is not before the
  -- window's end.
  local function first_below(count, bound)
    if count < bound then
      return 0
    end
    local _, left_us = mul_div(bound, size_us, count)
    return size_us - (left_us - 1)
  end
  -- If what is current leaves room, in this window or at its end, since nothing else weighs then; if
  -- not, in the next one, where what is current weighs as previous, or at its end.
  local free = max_requests - cost
  if free >= current then
    return first_below(previous, free - current + 1) - elapsed_us, 0
  end
  return size_us - elapsed_us + first_below(current, free + 1), 0
end

local function take(s, units)
  local size_us, current, previous, reset_us = s.size_us, s.current, s.previous, 0
  local elapsed_us = now_us % size_us
  if units then
    current = current + units
  end
  -- Until neither window weighs anything.
  if current > 0 then
    reset_us = 2 * size_us - elapsed_us
  elseif previous > 0 then
    reset_us = size_us - elapsed_us
  end
  if units and reset_us == 0 then
    call('DEL', s.key)
  elseif units then
    local state = packed('<dddd', (now_us - elapsed_us) / size_us, size_us, current, previous)
    -- One that has counted in this window lives until the end of the next already.
    keep(s.key, state, not s.is_this and reset_us or nil)
  end
  local left = s.max_requests - current
  if previous > 0 then
    left = left - mul_div(previous, size_us - elapsed_us, size_us)
  end
  return left > 0 and left or 0, reset_us
end

if AMENDS then
  -- Windows of another size may be too old for this one, and yet not as new.
  function is_present(s)
    return s.current > 0 or s.previous > 0 or s.is_stale
  end

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
    take(s, 0)
  end

  -- Counts units whether they fit or not, up to 2·L; returns those forgiven.
  function overcharge(s, units)
    local taken = math.min(units, math.max(0, 2 * s.max_requests - s.current))
    s.current = s.current + taken
    take(s, 0)
    return units - taken
  end
end
