-- A plain sliding window log in a list, for a cost of one.
-- KEYS: the limit. ARGV: count, µs of the window. Answers: allowed, remaining, retry in µs.

local max = tonumber(ARGV[1])
local size = tonumber(ARGV[2])

local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000000 + tonumber(time[2])

local oldest = tonumber(redis.call('LINDEX', KEYS[1], 0))
while oldest and oldest <= now - size do
  redis.call('LPOP', KEYS[1])
  oldest = tonumber(redis.call('LINDEX', KEYS[1], 0))
end
local count = redis.call('LLEN', KEYS[1])

if count + 1 > max then
  return { 0, 0, oldest + size - now }
end
redis.call('RPUSH', KEYS[1], string.format('%.0f', now))
redis.call('PEXPIRE', KEYS[1], math.ceil(size / 1000))
return { 1, max - count - 1, 0 }
