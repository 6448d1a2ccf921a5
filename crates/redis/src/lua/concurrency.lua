-- Concurrency: at most L units held at the same time, in a sorted set: permit:units:lease → expiry.

do local A = {}
algorithms.cc = A

function A.quota(at)
  return { l = tonumber(ARGV[at]), lease = tonumber(ARGV[at + 1]) }
end

function A.limit(q)
  return q.l
end

function A.read(key, q)
  local found = redis.call('ZRANGE', key, 0, -1, 'WITHSCORES')
  local s = { leases = {}, held = 0, moved = false, absent = #found == 0 }
  for at = 1, #found, 2 do
    local member, expires = found[at], tonumber(found[at + 1])
    local permit, units, lease = string.match(member, '^(%x+):(%d+):(%d+)$')
    -- Never further away than the lease time, so that a clock that stepped back locks nobody.
    local ends = math.min(expires, now + tonumber(lease))
    if expires > now then
      s.held = s.held + tonumber(units)
      s.leases[#s.leases + 1] =
        { member = member, permit = permit, units = tonumber(units), ends = ends }
      s.moved = s.moved or ends ~= expires
    end
  end
  if s.moved then
    table.sort(s.leases, function(one, other) return one.ends < other.ends end)
  end
  return s
end

function A.admit(q, s, cost)
  if cost > q.l then
    return false, -1, 0
  end
  local excess = s.held + cost - q.l
  if excess <= 0 then
    return true, 0, 0
  end
  local seen = 0
  for at = 1, #s.leases do
    seen = seen + s.leases[at].units
    if seen >= excess then
      return false, s.leases[at].ends - now, 0
    end
  end
  return false, 0, 0
end

-- Writes the leases as they are seen now.
function A.write(key, q, s)
  redis.call('ZREMRANGEBYSCORE', key, '-inf', text(now))
  if #s.leases == 0 then
    redis.call('DEL', key)
    return
  end
  if s.moved then
    for at = 1, #s.leases do
      redis.call('ZADD', key, text(s.leases[at].ends), s.leases[at].member)
    end
    s.moved = false
  end
  expire(key, A.reset_after(q, s))
end

function A.charge(key, q, s, cost, permit)
  local lease = { permit = permit, units = cost, ends = now + q.lease }
  lease.member = permit .. ':' .. text(cost) .. ':' .. text(q.lease)
  redis.call('ZADD', key, text(lease.ends), lease.member)
  s.leases[#s.leases + 1] = lease
  s.held = s.held + cost
  A.write(key, q, s)
end

function A.anchor(key, q, s)
  if s.moved then
    A.write(key, q, s)
  end
end

function A.remaining(q, s)
  return math.max(0, q.l - s.held)
end

function A.reset_after(q, s)
  local last = now
  for at = 1, #s.leases do
    last = math.max(last, s.leases[at].ends)
  end
  return last - now
end

-- Takes a permit out; how many units it held.
function A.take_out(key, s, permit)
  local units = 0
  for at = #s.leases, 1, -1 do
    if s.leases[at].permit == permit then
      units = units + s.leases[at].units
      redis.call('ZREM', key, s.leases[at].member)
      table.remove(s.leases, at)
    end
  end
  s.held = s.held - units
  return units
end

function A.release(key, q, s, permit)
  if A.take_out(key, s, permit) == 0 then
    return false
  end
  A.write(key, q, s)
  return true
end

function A.renew(key, q, s, permit)
  local units = A.take_out(key, s, permit)
  if units == 0 then
    return false
  end
  A.charge(key, q, s, units, permit)
  return true
end
end
