-- Changes one state after the decision.
--
-- ARGV: now or '', the algorithm, five parameters, then what to do and with what:
-- refund units charged_at-or-'' | settle actual | release permit | renew permit
-- KEYS: the state; for settle also the reservation's record.
-- Answers: 1 done, 0 unknown, 2 repeated; and the units forgiven.

local A = algorithms[ARGV[2]]
local key = KEYS[1]
local q = A.quota(3)
local verb = ARGV[8]
local s = A.read(key, q)

if verb == 'release' or verb == 'renew' then
  if A[verb] and A[verb](key, q, s, ARGV[9]) then
    return { 1, 0 }
  end
  return { 0, 0 }
end

-- As new is as good as absent.
local absent = s.absent or A.reset_after(q, s) == 0

if verb == 'refund' then
  local units = tonumber(ARGV[9])
  if units == 0 or absent or not A.refund then
    return { 0, 0 }
  end
  A.refund(key, q, s, units, tonumber(ARGV[10]))
  return { 1, 0 }
end

local record = KEYS[2]
local found = redis.call('HMGET', record, 'units', 'charged_at', 'expires', 'settled')
if not found[1] or tonumber(found[3]) <= now then
  return { 0, 0 }
end
if found[4] then
  return { 2, 0 }
end
redis.call('HSET', record, 'settled', '1')
local units, actual = tonumber(found[1]), tonumber(ARGV[9])
if actual > units then
  return { 1, A.overcharge(key, q, s, actual - units) }
end
if not absent then
  A.refund(key, q, s, units - actual, tonumber(found[2]))
end
return { 1, 0 }
