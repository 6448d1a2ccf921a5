-- Changes one state after the decision.
--
-- ARGV: now or ''; the numbers of the limit, whose cost is how many units; what to do; the permit or
-- ''; when it was charged or the least to draw or ''; the channel on which it is told what was given
-- back; to lend also the numbers of the loans, as lent.lua says.
-- KEYS: the state; to settle also the reservation's record, to lend also the loans.
-- Answers: 1 done, 0 unknown, 2 repeated; and the units forgiven. Or 3, the units drawn, those left,
-- when the state is as new, and now. Or 4 for a reservation that has ended, the units forgiven, those
-- reserved, and how long ago. Or 5, the numbers of a draw, the turn of what was lent, and its life.

local verb, detail = ARGV[3], tonumber(ARGV[5])
local s = limit(1)
local units = s.cost
s.cost = 0
look(s, KEYS[1], 1)

-- Gives back, and tells all who may remember a denial. Whether we may tell it is not worth failing.
local function give_back(given, charged_at_us)
  refund(s, given, charged_at_us)
  redis.pcall('PUBLISH', ARGV[6], KEYS[1])
end

if verb == 'release' or verb == 'renew' then
  local act = verb == 'release' and release or renew
  return { act and act(s) > 0 and 1 or 0, 0 }
end

-- Permits are released, not given back.
if not refund then
  return { 0, 0 }
end

local left, reset_us = take(s)
local absent = not is_present(s)

if verb == 'refund' then
  if units == 0 or absent then
    return { 0, 0 }
  end
  give_back(units, detail)
  return { 1, 0 }
end

if verb == 'leave_at_most' then
  local beyond = left - units
  return { 1, beyond > 0 and overcharge(s, beyond) or 0 }
end

-- Half of what is left, so that others find some; or as much as is needed, if there is so much.
local function half(of)
  local needed = detail <= of and detail or 0
  return math.min(math.max(math.ceil(of / 2), needed), units)
end

-- What was taken, and how the state is then.
local function taken(units)
  if units > 0 then
    units = units - overcharge(s, units)
  elseif s.is_stale then
    -- Or who asks in vain would wait for a clock that stepped back to catch up.
    take(s, 0)
  end
  left, reset_us = take(s)
  return units, left, reset_us, now_us
end

if verb == 'draw' or verb == 'spend' then
  return { 3, taken(verb == 'draw' and half(left) or units) }
end

if verb == 'lend' then
  if not loans_of then
    return { 0, 0 }
  end
  local loans, room, unspent = loans_of()
  if unspent > 0 and not absent then
    -- Of what is leased nobody remembers a denial, so nobody need be told.
    refund(s, unspent)
    left = take(s)
  end
  units, left, reset_us = taken(half(math.min(left, room)))
  return { 5, units, left, reset_us, now_us, loans[2], keep_loans(loans, units) }
end

local record = KEYS[2]
local found = call('HMGET', record, 'units', 'charged_at', 'expires', 'settled')
if not found[1] or found[3] + 0 <= now_us then
  return { 0, 0 }
end
if found[4] then
  return { 2, 0 }
end
call('HSET', record, 'settled', '1')
local reserved, charged_at_us = found[1] + 0, found[2] + 0
local forgiven = 0
if units > reserved then
  forgiven = overcharge(s, units - reserved)
elseif units < reserved and not absent then
  give_back(reserved - units, charged_at_us)
elseif not absent then
  -- Nothing comes back, and nobody need be told; the state is tied to now all the same.
  refund(s, 0, charged_at_us)
end
return { 4, forgiven, reserved, math.max(0, now_us - charged_at_us) }
