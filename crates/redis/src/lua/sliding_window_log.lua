-- Sliding window log: the time of every unit admitted in the last W, in a list, oldest first. A
-- moment with more than one unit is followed by minus their number. The list ends with the number
-- of units in it, those that have left the window included, so that nobody has to count them.
--
-- No step leaves the list empty before the last: a node that gives its slot away would not let the
-- script make it anew.
--
-- Numbers: cost, max_requests (L), size_us (W).

local now_text = format('%d', now_us)

-- The moment that ends at element `at` of a part of the list: its time, units and elements.
local function moment(part, at)
  local last = part[at] + 0
  if last < 0 then
    return part[at - 1] + 0, -last, 2
  end
  return last, 1, 1
end

-- Goes through the moments from element `from` on, oldest first, while they are not later than
-- `until_us` and have fewer than `most` units in all. Returns the units and the elements that it
-- went through, and the time of the last.
local function walk(key, from, until_us, most)
  local units, elements, last_us = 0, 0, 0
  local first, last, length = '0', '2', 3
  local time_us
  repeat
    if from > 0 then
      first, last = format('%d', from), format('%d', from + length - 1)
    end
    local part = call('LRANGE', key, first, last)
    for at = 1, #part do
      -- A moment's units are known with the element that follows; so the list's end is none.
      local number = part[at] + 0
      if time_us then
        if time_us > until_us or units >= most then
          return units, elements, last_us
        end
        units, elements, last_us = units + 1, elements + 1, time_us
        if number < 0 then
          units, elements = units - number - 1, elements + 1
        end
      end
      time_us = number >= 0 and number or nil
    end
    from, length = from + #part, math.min(4 * length, 1024)
  until #part == 0
  return units, elements, last_us
end

local function limit(at)
  local cost, max_requests, size_us, after = numbers('<ddd', ARGV[2], at)
  return {
    cost = cost, max_requests = max_requests, size_us = size_us, key = '', held = 0, gone_elements = 0,
    newest_us = 0, is_stale = false,
  }, after
end

local function look(s, key)
  local units, gone, gone_elements, newest_us = 0, 0, 0, nil
  local tail = call('LRANGE', key, '-3', '-1')
  local last = #tail
  if last > 0 then
    -- What is no number fails here, for less than what tonumber costs, before anything is written. The
    -- error names the variable, by which it is told that this is somebody else's.
    local not_ours = tail[last]
    units = not_ours + 0
    not_ours = tail[last - 1]
    newest_us = not_ours + 0
    if newest_us < 0 then
      not_ours = tail[last - 2]
      newest_us = not_ours + 0
    end
    if not (units >= 1 and newest_us >= 0) then
      -- So is this. It fails, and says that it is of the wrong type.
      call('GET', key)
    end
    if newest_us + s.size_us <= now_us then
      gone = units
    elseif call('LINDEX', key, '0') + 0 <= now_us - s.size_us then
      gone, gone_elements = walk(key, 0, now_us - s.size_us, units)
    end
  end
  local held = units - gone
  s.key, s.held, s.gone_elements, s.newest_us = key, held, gone_elements, newest_us
  s.is_stale = newest_us and newest_us > now_us
  if s.cost > s.max_requests then
    return -1, 0
  end
  local excess = held + s.cost - s.max_requests
  if excess <= 0 then
    return 0, 0
  end
  -- Until the oldest that are too many leave the window; what is later than now counts as now.
  local _, _, last_us = walk(key, gone_elements, math.huge, excess)
  return math.min(last_us, now_us) + s.size_us - now_us, 0
end

local function take(s, cost)
  local held, newest_us = s.held, s.newest_us
  local is_new = held == 0
  if cost then
    -- From the end of the list: the number of its units, then what is not before now, which happened
    -- now.
    local ending, at_now = 1, cost
    local time_us, units, elements = newest_us, 0, 0
    while time_us and time_us >= now_us do
      ending, at_now, time_us = ending + elements, at_now + units, nil
      local part = call('LRANGE', s.key, format('%d', -2 - ending), format('%d', -1 - ending))
      if part[1] then
        time_us, units, elements = moment(part, #part)
      end
    end
    held = held + cost
    local first, units_text = s.gone_elements, nil
    -- Whether a moment before now stays.
    local stays = time_us
    if cost == 0 and s.is_stale then
      -- What has left the window stays until there is something to add.
      first, units_text = 0, call('LINDEX', s.key, '-1')
    else
      units_text = format('%d', held)
      stays = time_us and time_us > now_us - s.size_us
    end
    if stays then
      if ending > 1 or first > 0 then
        call('LTRIM', s.key, format('%d', first), format('%d', -1 - ending))
      else
        call('RPOP', s.key)
      end
    end
    if at_now == 1 then
      call('RPUSH', s.key, now_text, units_text)
    elseif at_now > 1 then
      call('RPUSH', s.key, now_text, format('%d', -at_now), units_text)
    else
      call('RPUSH', s.key, units_text)
    end
    if newest_us and not stays then
      call('LTRIM', s.key, at_now == 1 and '-2' or '-3', '-1')
    end
    if at_now > 0 then
      newest_us = now_us
    end
    s.held, s.newest_us = held, newest_us
  end
  -- Until the newest entry leaves the window.
  local reset_us = 0
  if held > 0 then
    reset_us = s.size_us - math.max(0, now_us - newest_us)
  end
  if cost then
    expire(s.key, reset_us, is_new)
  end
  local left = s.max_requests - held
  return left > 0 and left or 0, reset_us
end

if AMENDS then
  -- Drops up to `units` of those admitted at a time; the newest where it is not known.
  function refund(s, units, charged_at_us)
    if units == 0 and not s.is_stale then
      -- Only what has left the window goes.
      if s.gone_elements > 0 then
        take(s, 0)
      end
      return
    end
    -- The list is written anew: refunds are rare, and it holds at most 2·L units.
    local list = call('LRANGE', s.key, format('%d', s.gone_elements), '-2')
    local kept, at = {}, #list
    while at > 0 do
      local time_us, count, elements = moment(list, at)
      at = at - elements
      time_us = math.min(time_us, now_us)
      if not charged_at_us or time_us == math.min(charged_at_us, now_us) then
        local taken = math.min(units, count)
        units, count, s.held = units - taken, count - taken, s.held - taken
      end
      if count > 0 then
        kept[#kept + 1] = { time_us, count }
      end
    end
    if not kept[1] then
      call('DEL', s.key)
      return
    end
    local texts = {}
    for nth = #kept, 1, -1 do
      texts[#texts + 1] = format('%d', kept[nth][1])
      if kept[nth][2] > 1 then
        texts[#texts + 1] = format('%d', -kept[nth][2])
      end
    end
    texts[#texts + 1] = format('%d', s.held)
    -- So many arguments at a time as Lua's stack takes by far.
    for from = 1, #texts, 1000 do
      call('RPUSH', s.key, unpack(texts, from, math.min(from + 999, #texts)))
    end
    call('LTRIM', s.key, format('%d', -#texts), '-1')
    s.newest_us = kept[1][1]
    expire(s.key, s.newest_us + s.size_us - now_us, true)
  end

  -- Remembers units whether they fit or not, up to 2·L in all; returns those forgiven.
  function overcharge(s, units)
    local taken = math.min(units, math.max(0, 2 * s.max_requests - s.held))
    -- None only tie what is later than now to now.
    if taken > 0 or s.is_stale then
      take(s, taken)
    end
    return units - taken
  end
end
