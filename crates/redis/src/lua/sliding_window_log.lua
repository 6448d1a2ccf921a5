-- Sliding window log: the time of every unit admitted in the last W, in a list, oldest first. A
-- moment with more than one unit is followed by minus their number.
--
-- The list ends with five packed numbers, so that nobody has to count, to look at the other end, or to
-- ask for the key's life: the units in it, those that have left the window included; the W of who
-- wrote it; the newest time; the oldest; and the time until which the key lives.
--
-- No step leaves the list empty before the last: a node that gives its slot away would not let the
-- script make it anew.
--
-- Numbers: cost, max_requests (L), size_us (W).

local now_text = format('%d', now_us)

-- The bytes of the numbers at the end of a list. Another element is shorter.
local TAIL = 40

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
-- went through, the time of the last, and that of the one that follows.
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
      -- A moment's units are known with the element that follows, if only by the list's end.
      local number = #part[at] < TAIL and part[at] + 0 or 0
      if time_us then
        if time_us > until_us or units >= most then
          return units, elements, last_us, time_us
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
  return units, elements, last_us, time_us
end

local function limit(at)
  local cost, max_requests, size_us, after = numbers('<ddd', ARGV[2], at)
  return {
    cost = cost, max_requests = max_requests, size_us = size_us, key = '', held = 0, gone_elements = 0,
    stored_us = 0, newest_us = 0, oldest_us = 0, ends_us = 0, is_stale = false,
  }, after
end

-- What is as new counts as absent, though the key lives on, and though this window would remember it
-- for longer.
local function look(s, key)
  local held, gone_elements, size_us = 0, 0, s.size_us
  local stored_us, newest_us, oldest_us, ends_us = 0, 0, 0, 0
  local tail = call('LINDEX', key, '-1')
  if tail then
    local units
    if #tail == TAIL then
      units, stored_us, newest_us, oldest_us, ends_us = numbers('<ddddd', tail)
    end
    if not (stored_us >= 1 and stored_us < 9007199254740992) then
      -- It is somebody else's. This fails, and says that it is of the wrong type.
      call('GET', key)
    end
    if now_us < newest_us + stored_us and now_us < newest_us + size_us then
      held = units
      if oldest_us + size_us <= now_us then
        local gone, _
        gone, gone_elements, _, oldest_us = walk(key, 0, now_us - size_us, units)
        held = units - gone
      end
    end
  end
  s.key, s.held, s.gone_elements, s.is_stale = key, held, gone_elements, newest_us > now_us
  s.stored_us, s.newest_us, s.oldest_us, s.ends_us = stored_us, newest_us, oldest_us, ends_us
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
  local held, newest_us, size_us = s.held, s.newest_us, s.size_us
  if cost then
    -- From the end of the list: its numbers, then what is not before now, which happened now.
    local ending, at_now = 1, cost
    if held > 0 and newest_us >= now_us then
      local time_us, units, elements = newest_us, 0, 0
      while time_us and time_us >= now_us do
        ending, at_now, time_us = ending + elements, at_now + units, nil
        local part = call('LRANGE', s.key, format('%d', -2 - ending), format('%d', -1 - ending))
        if part[1] then
          time_us, units, elements = moment(part, #part)
        end
      end
    end
    held = held + cost
    -- Whether a moment before now stays.
    local oldest_us, stays = s.oldest_us, held > at_now
    if not stays then
      oldest_us = now_us
    end
    if at_now > 0 then
      newest_us = now_us
    end
    -- A busy key is given half as much again, and then left alone while that is enough and not twice
    -- too much.
    local needed_us, ends_us, life_us = newest_us + size_us - now_us, s.ends_us, nil
    local left_us = ends_us - now_us
    if left_us < needed_us or left_us > needed_us * 2 then
      life_us = s.held > 0 and ceil(needed_us * 1.5) or needed_us
      ends_us = now_us + life_us
    end
    local tail = packed('<ddddd', held, size_us, newest_us, oldest_us, ends_us)
    if stays then
      if ending > 1 or s.gone_elements > 0 then
        call('LTRIM', s.key, format('%d', s.gone_elements), format('%d', -1 - ending))
      else
        call('RPOP', s.key)
      end
    end
    if at_now == 1 then
      call('RPUSH', s.key, now_text, tail)
    elseif at_now > 1 then
      call('RPUSH', s.key, now_text, format('%d', -at_now), tail)
    else
      call('RPUSH', s.key, tail)
    end
    if s.stored_us > 0 and not stays then
      call('LTRIM', s.key, at_now == 1 and '-2' or '-3', '-1')
    end
    if life_us then
      call(life_command, s.key, format('%d', ceil((life_from_us + life_us) / 1000)))
    end
    s.held, s.newest_us = held, newest_us
  end
  -- Until the newest entry leaves the window.
  local reset_us = 0
  if held > 0 then
    reset_us = size_us - math.max(0, now_us - newest_us)
  end
  local left = s.max_requests - held
  return left > 0 and left or 0, reset_us
end

if AMENDS then
  -- By the window that wrote it; this one may remember nothing of it.
  function is_present(s)
    return now_us < s.newest_us + s.stored_us
  end

  -- Whether there is a list, and not as it would be written now.
  local function is_dated(s)
    return s.held > 0 and (s.is_stale or s.gone_elements > 0 or s.stored_us ~= s.size_us)
  end

  -- Drops up to `units` of those admitted at a time; the newest where it is not known.
  function refund(s, units, charged_at_us)
    if s.held == 0 then
      call('DEL', s.key)
      return
    end
    if units == 0 then
      if is_dated(s) then
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
    s.newest_us = kept[1][1]
    local reset_us = s.newest_us + s.size_us - now_us
    local ends_us, oldest_us = now_us + reset_us, kept[#kept][1]
    texts[#texts + 1] = packed('<ddddd', s.held, s.size_us, s.newest_us, oldest_us, ends_us)
    -- So many arguments at a time as Lua's stack takes by far.
    for from = 1, #texts, 1000 do
      call('RPUSH', s.key, unpack(texts, from, math.min(from + 999, #texts)))
    end
    call('LTRIM', s.key, format('%d', -#texts), '-1')
    call(life_command, s.key, format('%d', ceil((life_from_us + reset_us) / 1000)))
  end

  -- Remembers units whether they fit or not, up to 2·L in all; returns those forgiven.
  function overcharge(s, units)
    local taken = math.min(units, math.max(0, 2 * s.max_requests - s.held))
    -- None only tie what is stored to now, and to this window.
    if taken > 0 or is_dated(s) then
      take(s, taken)
    end
    return units - taken
  end
end
