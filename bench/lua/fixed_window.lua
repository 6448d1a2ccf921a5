-- A plain fixed window in a hash.
-- KEYS: the limit. ARGV: count, µs of a window, cost. Answers: allowed, remaining, retry in µs.

local max = tonumber(ARGV[1])
local size = tonumber(ARGV[2])
local cost = tonumber(ARGV[3])

local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000000 + tonumber(time[2])
local window = math.floor(now / size)
local left = size - now % size

local state = redis.call('HMGET', KEYS[1], 'window', 'count')
local count = 0
if tonumber(state[1]) == window then
  count = tonumber(state[2])
end

if count + cost > max then
  return { 0, max - count, left }
end
redis.call('HSET', KEYS[1], 'window', window, 'count', count + cost)
redis.call('PEXPIRE', KEYS[1], math.ceil(left / 1000))
return { 1, max - count - cost, 0 }
