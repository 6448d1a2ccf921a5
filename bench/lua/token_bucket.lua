-- A plain token bucket: a hash, the server's time, floating point.
-- KEYS: the bucket. ARGV: capacity, tokens a second, cost. Answers: allowed, remaining, retry in µs.

local capacity = tonumber(ARGV[1])
local rate = tonumber(ARGV[2])
local cost = tonumber(ARGV[3])

local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000000 + tonumber(time[2])

local state = redis.call('HMGET', KEYS[1], 'tokens', 'last')
local tokens = tonumber(state[1]) or capacity
local last = tonumber(state[2]) or now
tokens = math.min(capacity, tokens + math.max(0, now - last) * rate / 1000000)

if tokens < cost then
  return { 0, math.floor(tokens), math.ceil((cost - tokens) / rate * 1000000) }
end
tokens = tokens - cost
redis.call('HSET', KEYS[1], 'tokens', tokens, 'last', now)
redis.call('PEXPIRE', KEYS[1], math.ceil((capacity - tokens) / rate * 1000))
return { 1, math.floor(tokens), 0 }
