-- The arithmetic that the three buckets share: a debt in units of token·P that drains R a
-- microsecond. `last` names the field of the time.
--
-- Parameters: capacity (B), drain (R), unit (P).

local function limit(at)
  local unit_text = ARGV[at + 3]
  return {
    cost = ARGV[at] + 0, capacity = ARGV[at + 1] + 0, drain = ARGV[at + 2] + 0,
    unit = unit_text + 0, unit_text = unit_text, key = '', debt = 0, is_new = true,
  }, at + 4
end

-- D′: what is left of the debt now. A time before the last one means that none passed.
local function read(s, key)
  s.key = key
  local found = call('HMGET', key, 'debt', 'unit', last)
  local debt = found[1]
  if s.is_stale then
    s.is_stale = false
  end
  if not debt then
    s.debt, s.is_new = 0, true
    return
  end
  debt = debt + 0
  if found[2] == s.unit_text then
    s.is_new = false
  else
    -- Rounded up where the file that wrote it had another.
    local _, rounded_up = mul_div(debt, s.unit, found[2] + 0)
    debt, s.is_new = rounded_up, true
  end
  local elapsed_us = now_us - found[3]
  if elapsed_us < 0 then
    s.is_stale = true
  else
    debt = debt - s.drain * elapsed_us
    if debt < 0 then
      debt = 0
    end
  end
  s.debt = debt
end

-- Until nothing is owed.
local function reset_after(s)
  -- In lowest terms most rates drain one.
  if s.drain == 1 then
    return s.debt
  end
  return math.ceil(s.debt / s.drain)
end

-- Takes `cost` units that were found to fit.
local function charge(s, cost)
  local debt = s.debt + cost * s.unit
  local debt_text = format('%d', debt)
  if s.is_new then
    call('HSET', s.key, 'debt', debt_text, 'unit', s.unit_text, last, now_text)
  else
    call('HSET', s.key, 'debt', debt_text, last, now_text)
  end
  s.debt = debt
  expire(s.key, reset_after(s), s.is_new)
end

-- Whole units available.
local function remaining(s)
  local left = s.capacity * s.unit - s.debt
  if left < 0 then
    return 0
  end
  return (left - left % s.unit) / s.unit
end

if AMENDS then
  -- Gives back what is left of a charge; all of it where its time is not known.
  function refund(s, units, charged_at_us)
    local age_us = math.max(0, now_us - (charged_at_us or now_us))
    local given = math.max(0, units * s.unit - s.drain * age_us)
    s.debt = math.max(0, s.debt - given)
    charge(s, 0)
  end

  -- Takes units whether they fit or not, up to one further capacity; returns those forgiven.
  function overcharge(s, units)
    local room = math.max(0, 2 * s.capacity * s.unit - s.debt)
    local taken = math.min(units * s.unit, room)
    s.debt = s.debt + taken
    charge(s, 0)
    return units - math.floor(taken / s.unit)
  end
end
