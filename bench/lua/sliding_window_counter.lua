-- A plain sliding window counter in a hash.
-- KEYS: the limit. ARGV: count, µs of a window, cost. Answers: allowed, remaining, retry in µs.

local max = tonumber(ARGV[1])
local size = tonumber(ARGV[2])
local cost = tonumber(ARGV[3])

local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000000 + tonumber(time[2])
local window = math.floor(now / size)
local elapsed = now % size

local state = redis.call('HMGET', KEYS[1], 'window', 'current', 'previous')
local stored = tonumber(state[1])
local current, previous = 0, 0
if stored == window then
  current, previous = tonumber(state[2]), tonumber(state[3])
elseif stored == window - 1 then
  previous = tonumber(state[2])
end

local used = math.floor(previous * (size - elapsed) / size) + current
if used + cost > max then
  return { 0, math.max(0, max - used), size - elapsed }
end
redis.call('HSET', KEYS[1], 'window', window, 'current', current + cost, 'previous', previous)
redis.call('PEXPIRE', KEYS[1], math.ceil((2 * size - elapsed) / 1000))
return { 1, max - used - cost, 0 }
