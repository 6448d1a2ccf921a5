-- A plain GCRA in a string.
-- KEYS: the limit. ARGV: burst, µs for a request, cost. Answers: allowed, remaining, retry in µs.

local burst = tonumber(ARGV[1])
local interval = tonumber(ARGV[2])
local cost = tonumber(ARGV[3])

local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000000 + tonumber(time[2])

local tat = math.max(tonumber(redis.call('GET', KEYS[1])) or now, now)
local next = tat + cost * interval
local early = next - burst * interval - now
if early > 0 then
  return { 0, math.floor((now + burst * interval - tat) / interval), early }
end
redis.call('SET', KEYS[1], next, 'PX', math.ceil((next - now) / 1000))
return { 1, math.floor(-early / interval), 0 }
