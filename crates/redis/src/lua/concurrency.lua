-- Concurrency: at most L units held at the same time, in a sorted set: permit:units:lease → expiry.
-- The set begins with `units:` and their number, those that have ended included, under minus the
-- time of the last change: while time goes on, nobody has to look at a lease that has not ended.
--
-- No step leaves the set empty before the last: a node that gives its slot away would not let the
-- script make it anew. Nor does one that lets somebody hold more begin with a removal: a full server
-- would take that, and then all that follows.
--
-- Numbers: cost, max_in_flight (L), lease_us.

local now_text = format('%d', now_us)

local function units_of(member)
  return string.match(member, ':(%d+)') + 0
end

-- After a clock that stepped back a lease ends no further away than its lease time, so that nobody is
-- locked out. Keeps the leases, the first to end first, if that moves one.
local function look_at_all(s)
  local found = call('ZRANGE', s.key, '1', '-1', 'WITHSCORES')
  local leases, is_ahead = {}, false
  for at = 1, #found, 2 do
    local member, expires_us = found[at], found[at + 1] + 0
    if expires_us > now_us then
      local lease = { member = member, units = units_of(member), ends_us = expires_us }
      local longest_us = now_us + string.match(member, '%d+$')
      if expires_us > longest_us then
        lease.ends_us, is_ahead = longest_us, true
      end
      leases[#leases + 1] = lease
      s.held, s.last_us = s.held + lease.units, math.max(s.last_us, lease.ends_us)
    end
  end
  if is_ahead then
    table.sort(leases, function(one, other) return one.ends_us < other.ends_us end)
    s.moved, s.is_stale = leases, true
  end
end

local function limit(at)
  local cost, max_in_flight, lease_us, after = numbers('<ddd', ARGV[2], at)
  local permit = ARGV[4]
  return { cost = cost, max_in_flight = max_in_flight, lease_us = lease_us, permit = permit }, after
end

local function read(s, key)
  s.key, s.held, s.last_us, s.is_stale, s.moved = key, 0, now_us, false, nil
  local first = call('ZRANGE', key, '0', '1', 'WITHSCORES')
  if not first[1] then
    return
  end
  local units = string.match(first[1], '^units:(%d+)$')
  if not (units and first[3]) then
    -- It is somebody else's. This fails, and says that it is of the wrong type.
    call('GET', key)
  end
  if -first[2] > now_us then
    look_at_all(s)
    return
  end
  s.held = units + 0
  if first[4] + 0 <= now_us then
    local ended = call('ZRANGEBYSCORE', key, '(0', now_text)
    for nth = 1, #ended do
      s.held = s.held - units_of(ended[nth])
    end
  end
  s.last_us = call('ZRANGE', key, '-1', '-1', 'WITHSCORES')[2] + 0
end

-- When the `nth` unit to end does.
local function nth_end_us(s, nth)
  if s.is_stale then
    -- What is moved is all that is held, and no more is ever waited for.
    local at = 0
    repeat
      at = at + 1
      nth = nth - s.moved[at].units
    until nth <= 0
    return s.moved[at].ends_us
  end
  -- Each lease holds at least one.
  local found = call('ZRANGEBYSCORE', s.key, '(' .. now_text, '+inf', 'WITHSCORES',
    'LIMIT', '0', format('%d', nth))
  for at = 1, #found, 2 do
    nth = nth - units_of(found[at])
    if nth <= 0 then
      return found[at + 1] + 0
    end
  end
  -- Somebody has removed a lease by hand, whose units still count.
  return now_us + 1
end

local function look(s, key)
  read(s, key)
  if s.cost > s.max_in_flight then
    return -1, 0
  end
  local excess = s.held + s.cost - s.max_in_flight
  if excess <= 0 then
    return 0, 0
  end
  return nth_end_us(s, excess) - now_us, 0
end

-- Until the last lease ends.
local function reset_after(s)
  return math.max(0, s.last_us - now_us)
end

-- Drops what has ended, and `gone` if there is one, and counts anew. After a clock that stepped back no
-- lease ends later than one granted now would. At least one is to go on.
local function tidy(s, gone)
  local is_new = call('ZREMRANGEBYSCORE', s.key, '-inf', now_text) == 0
  if s.is_stale then
    for at = 1, #s.moved do
      call('ZADD', s.key, format('%d', s.moved[at].ends_us), s.moved[at].member)
    end
    s.is_stale = false
  end
  if gone then
    call('ZREM', s.key, gone)
    s.last_us = call('ZRANGE', s.key, '-1', '-1', 'WITHSCORES')[2] + 0
  end
  call('ZADD', s.key, '-' .. now_text, format('units:%d', s.held))
  expire(s.key, reset_after(s), is_new)
end

-- Holds `cost` units under the permit; none only tie what is stored to now.
local function charge(s, cost)
  if cost > 0 then
    local ends_us = now_us + s.lease_us
    local member = format('%s:%d:%d', s.permit, cost, s.lease_us)
    s.last_us = math.max(s.last_us, ends_us)
    if call('ZADD', s.key, format('%d', ends_us), member) == 1 then
      s.held = s.held + cost
    else
      -- A permit is never granted twice; one that were would hold its units once.
      s.held = 0
      local live = call('ZRANGEBYSCORE', s.key, '(' .. now_text, '+inf')
      for nth = 1, #live do
        s.held = s.held + units_of(live[nth])
      end
    end
  end
  tidy(s)
end

local function take(s, units)
  if units then
    charge(s, units)
  end
  local left = s.max_in_flight - s.held
  return left > 0 and left or 0, reset_after(s)
end

if AMENDS then
  -- The permit's member of the set, if it is held.
  local function find(s)
    -- Most hold one unit, for the lease time that the limit has now.
    local likely = format('%s:1:%d', s.permit, s.lease_us)
    local expires_us = call('ZSCORE', s.key, likely)
    if expires_us then
      return expires_us + 0 > now_us and likely
    end
    local live = call('ZRANGEBYSCORE', s.key, '(' .. now_text, '+inf')
    for at = 1, #live do
      if string.match(live[at], '^%x+') == s.permit then
        return live[at]
      end
    end
  end

  -- Gives the permit back; the units that it held.
  function release(s)
    local member = find(s)
    if not member then
      return 0
    end
    local units = units_of(member)
    s.held = s.held - units
    if s.held == 0 then
      call('DEL', s.key)
      return units
    end
    tidy(s, member)
    return units
  end

  -- Lets a held permit last a whole lease from now; the units that it holds.
  function renew(s)
    local member = find(s)
    if not member then
      return 0
    end
    local units = units_of(member)
    if s.is_stale then
      tidy(s)
    end
    -- Begins with a removal: it holds no more than before, and may go on if the server is full.
    call('ZREMRANGEBYSCORE', s.key, '-inf', now_text)
    local ends_us = now_us + s.lease_us
    local renewed = format('%s:%d:%d', s.permit, units, s.lease_us)
    call('ZADD', s.key, format('%d', ends_us), renewed)
    s.last_us = math.max(s.last_us, ends_us)
    -- Its text is another if the lease time is.
    tidy(s, renewed ~= member and member)
    return units
  end
end
