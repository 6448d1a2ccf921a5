-- Fixed window: at most L in each window of length W, windows counted from the Unix epoch.
--
-- Numbers: cost, max_requests (L), size_us (W).
-- State: window, its size, count.

local function limit(at)
  local cost, max_requests, size_us, after = numbers('<ddd', ARGV[2], at)
  return {
    cost = cost, max_requests = max_requests, size_us = size_us, key = '', until_end_us = 0, count = 0,
    is_this = false, is_stale = false,
  }, after
end

-- What counts in now's window. A window later than now's is now's; one of another size counts whole
-- until it ends, when it is as new, and absent.
local function look(s, key, place)
  local size_us, count, is_this, is_stale = s.size_us, 0, false, false
  local elapsed_us = now_us % size_us
  local found = stored(key, place, 24)
  if found then
    local window, stored_us, units = numbers('<ddd', found)
    if not (stored_us >= 1 and stored_us < 9007199254740992) then
      call('LLEN', key)
    end
    if now_us < (window + 1) * stored_us then
      count = units
      if stored_us == size_us then
        local this = (now_us - elapsed_us) / size_us
        is_this, is_stale = window == this, window > this
      else
        is_stale = true
      end
    end
  end
  local until_end_us = size_us - elapsed_us
  s.key, s.until_end_us, s.count, s.is_this, s.is_stale = key, until_end_us, count, is_this, is_stale
  local cost, max_requests = s.cost, s.max_requests
  if cost > max_requests then
    return -1, 0
  end
  if count + cost <= max_requests then
    return 0, 0
  end
  return until_end_us, 0
end

local function take(s, units)
  local count, until_end_us = s.count, s.until_end_us
  if units then
    count = count + units
    if count == 0 then
      call('DEL', s.key)
    else
      local size_us = s.size_us
      local state = packed('<ddd', (now_us - now_us % size_us) / size_us, size_us, count)
      -- One of this window lives until its end already.
      keep(s.key, state, not s.is_this and until_end_us or nil)
    end
  end
  -- As new when the window ends, if anything counts in it.
  local left = s.max_requests - count
  return left > 0 and left or 0, count > 0 and until_end_us or 0
end

if AMENDS then
  function is_present(s)
    return s.count > 0
  end

  -- Takes units off, if the window that they were charged in is still this one.
  function refund(s, units, charged_at_us)
    local charged_in = math.floor(math.min(charged_at_us or now_us, now_us) / s.size_us)
    if charged_in ~= math.floor(now_us / s.size_us) then
      units = 0
    end
    s.count = math.max(0, s.count - units)
    take(s, 0)
  end

  -- Counts units whether they fit or not, up to 2·L; returns those forgiven.
  function overcharge(s, units)
    local taken = math.min(units, math.max(0, 2 * s.max_requests - s.count))
    s.count = s.count + taken
    take(s, 0)
    return units - taken
  end
end
