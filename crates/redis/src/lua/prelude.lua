-- What every script begins with: the time, and the life of keys.
--
-- Lua's numbers are doubles, exact below 2^53. Text of them is made with %d, never with `..`: it goes
-- by C's long, which has 64 bits on every server that is let in. Text becomes a number by arithmetic,
-- which costs half of tonumber.
--
-- The file of an algorithm follows, and gives these functions. `s` is a limit: its cost and quota, and
-- the key that was read last, with its state as it stands now.
--   limit(at)           s, and where in ARGV the next limit is; the cost is at `at`, then parameters
--   read(s, key)        the state of a key
--   admit(s, cost)      when to retry (0 is now, -1 is never), and how long to wait first
--   charge(s, cost)     takes the units and writes; a cost of 0 only ties what is stored to now
--   remaining(s)        the units that are left
--   reset_after(s)      the time until the state is as new
-- and to amend: refund(s, units, charged_at_us) and overcharge(s, units), or release(s) and renew(s).

-- Looked up once: each look costs as much as a few steps.
local call, format = redis.call, string.format

-- A virtual time is passed as text; without one it is the server's own, read once. The server tells
-- seconds, and microseconds without leading zeros.
local now_text = ARGV[1]
if now_text == '' then
  local time = call('TIME')
  local seconds, us = time[1], time[2]
  if #us < 6 then
    us = string.sub('00000' .. us, -6)
  end
  now_text = seconds .. us
end
local now_us = now_text + 0

-- Lets a key live until `us` from now, rounded up to the server's milliseconds. The moment is given
-- and not the distance: the server would count that from a time that it has rounded down.
local function expire(key, us, is_new)
  if ARGV[1] ~= '' then
    -- Virtual time does not pass for the server: what it keeps must outlive the run.
    call('PEXPIRE', key, format('%d', math.max(math.ceil(us / 1000), 86400000)))
    return
  end
  if not is_new then
    -- A busy key is given half as much again, and then left alone while that is enough and not twice
    -- too much. A millisecond is what the server may have rounded off.
    local left_us = 1000 * call('PTTL', key)
    if left_us >= us + 1000 and left_us <= us * 2 then
      return
    end
    us = us * 1.5
  end
  call('PEXPIREAT', key, format('%d', math.ceil((now_us + us) / 1000)))
end
