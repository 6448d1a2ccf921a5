-- What every script begins with: the time, and how it works.
--
-- Lua's numbers are doubles, exact below 2^53. Text of them is made with %d, never with `..`: it goes
-- by C's long, which has 64 bits on every server that is let in. Text becomes a number by arithmetic,
-- which costs half of tonumber.
--
-- The file of an algorithm follows, and gives these functions. `s` is a limit: its cost and quota, and
-- the key that was looked at last, with its state as it stands now.
--   limit(at)              s, whose numbers begin at byte `at` of ARGV[2], and where they end
--   look(s, key, place)    reads the state of a key, the one at `place`; when to retry the cost of `s`
--                          (0 is now, -1 is never), and how long to wait first
--   take(s, units)         takes the units and writes; none only tie what is stored to now; without a
--                          number nothing is written. Then the units that are left, and the time
--                          until the state is as new
-- and to amend: refund(s, units, charged_at_us), overcharge(s, units) and is_present(s), or release(s)
-- and renew(s).
--
-- A state is present until it is as new by the limit that wrote it, whatever the limit of now makes of
-- it: nothing may be left of it that the next limit would still count. From then on it counts as absent,
-- though the key lives on.
--
-- In every script ARGV[1] is now or '', ARGV[2] the numbers of the limits, ARGV[4] the permit.

-- Looked up once: each look costs as much as a few steps.
local call, format, ceil = redis.call, string.format, math.ceil
local packed, numbers = struct.pack, struct.unpack

-- A virtual time is passed as text; without one it is the server's own, read once. The server tells
-- seconds, and microseconds.
--
-- A life is counted from `life_from_us`, rounded up to the server's milliseconds, and given by these
-- words. It is a moment and not a distance: the server would count that from a time that it has
-- rounded down. Virtual time does not pass for the server: there it is a distance of a day more, so
-- that what is kept outlives the run.
local now_us = ARGV[1]
local is_virtual = now_us ~= ''
local life_from_us, life_option, life_command
if is_virtual then
  now_us = now_us + 0
  life_from_us, life_option, life_command = 86400000000, 'PX', 'PEXPIRE'
else
  local time = call('TIME')
  now_us = time[1] * 1000000 + time[2]
  life_from_us, life_option, life_command = now_us, 'PXAT', 'PEXPIREAT'
end
