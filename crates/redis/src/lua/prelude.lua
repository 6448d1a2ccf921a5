-- What every script begins with: the time, and the life of keys.
--
-- Lua's numbers are doubles, exact below 2^53. Text of them is made with %.0f, never with `..`; text
-- becomes a number by arithmetic, which costs half of tonumber.

-- A virtual time is passed as text; without one it is the server's own, read once. The server tells
-- seconds, and microseconds without leading zeros.
local now_text = ARGV[1]
if now_text == '' then
  local time = redis.call('TIME')
  now_text = time[1] .. string.sub('00000' .. time[2], -6)
end
local now_us = now_text + 0

-- Lets a key live until `us` from now, rounded up to the server's milliseconds. The moment is given
-- and not the distance: the server would count that from a time that it has rounded down.
local function expire(key, us, is_new)
  if ARGV[1] ~= '' then
    -- Virtual time does not pass for the server: what it keeps must outlive the run.
    redis.call('PEXPIRE', key, string.format('%.0f', math.max(math.ceil(us / 1000), 86400000)))
    return
  end
  if not is_new then
    -- A busy key is given half as much again, and then left alone while that is enough and not twice
    -- too much. A millisecond is what the server may have rounded off.
    local left_us = 1000 * redis.call('PTTL', key)
    if left_us >= us + 1000 and left_us <= us * 2 then
      return
    end
    us = us * 1.5
  end
  redis.call('PEXPIREAT', key, string.format('%.0f', math.ceil((now_us + us) / 1000)))
end
