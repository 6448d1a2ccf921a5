-- The arithmetic that the three buckets share: a debt in units of token·P that drains R a
-- microsecond. Whether a cost fits is for the bucket's own file to say.
--
-- Numbers: cost, capacity (B), drain (R), unit (P).
-- State: debt, its unit, the time that it was written, the time from which on it is as new by the rate
-- that wrote it, and the time until which the key lives.

local admit

local function limit(at)
  local cost, capacity, drain, unit, after = numbers('<dddd', ARGV[2], at)
  return {
    cost = cost, capacity = capacity, drain = drain, unit = unit, key = '', debt = 0, ends_us = 0,
    is_stale = false,
  }, after
end

-- D′ is what is left of the debt now. A time before the last one means that none passed. What is as new
-- counts as absent, though the key lives on, and though this rate would drain it later.
local function look(s, key, place)
  local debt, ends_us, is_stale = 0, 0, false
  local found = stored(key, place, 40)
  if found then
    local unit, last_us, fresh_us
    debt, unit, last_us, fresh_us, ends_us = numbers('<ddddd', found)
    if not (unit >= 1 and unit < 9007199254740992) then
      call('LLEN', key)
    end
    if unit ~= s.unit then
      -- Rounded up where the file that wrote it had another.
      local _, rounded_up = mul_div(debt, s.unit, unit)
      debt = rounded_up
    end
    local elapsed_us = now_us - last_us
    if elapsed_us < 0 then
      is_stale = true
    elseif now_us >= fresh_us then
      debt, ends_us = 0, 0
    else
      debt = debt - s.drain * elapsed_us
      if debt < 0 then
        debt = 0
      end
    end
  end
  s.key, s.debt, s.ends_us, s.is_stale = key, debt, ends_us, is_stale
  return admit(s, debt, s.cost)
end

local function take(s, units)
  local debt, unit, reset_us = s.debt, s.unit, nil
  if units then
    debt = debt + units * unit
  end
  -- Until nothing is owed. In lowest terms most rates drain one.
  if s.drain == 1 then
    reset_us = debt
  else
    reset_us = ceil(debt / s.drain)
  end
  if units then
    -- A busy key is given half as much again, and then left alone while that is enough and not twice
    -- too much.
    local ends_us, life_us = s.ends_us, nil
    local left_us = ends_us - now_us
    if left_us < reset_us or left_us > reset_us * 2 then
      life_us = ends_us > 0 and ceil(reset_us * 1.5) or reset_us
      ends_us = now_us + life_us
      s.ends_us = ends_us
    end
    keep(s.key, packed('<ddddd', debt, unit, now_us, now_us + reset_us, ends_us), life_us)
  end
  local left = s.capacity * unit - debt
  if left < 0 then
    return 0, reset_us
  end
  return (left - left % unit) / unit, reset_us
end

if AMENDS then
  function is_present(s)
    return s.ends_us > 0
  end

  -- Gives back what is left of a charge; all of it where its time is not known.
  function refund(s, units, charged_at_us)
    local age_us = math.max(0, now_us - (charged_at_us or now_us))
    local given = math.max(0, units * s.unit - s.drain * age_us)
    s.debt = math.max(0, s.debt - given)
    take(s, 0)
  end

  -- Takes units whether they fit or not, up to one further capacity; returns those forgiven.
  function overcharge(s, units)
    local room = math.max(0, 2 * s.capacity * s.unit - s.debt)
    local taken = math.min(units * s.unit, room)
    s.debt = s.debt + taken
    take(s, 0)
    return units - math.floor(taken / s.unit)
  end
end
