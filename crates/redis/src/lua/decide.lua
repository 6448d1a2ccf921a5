-- Decides one request: looks at every limit, then charges all or none.
--
-- ARGV: now or ''; for each limit its cost and its parameters; then, if the request is more than
-- that, 'with', the life of its reservation in µs or '', and a digit for each limit, 1 for a shadow.
-- KEYS: for each limit its state; then, if there is a reservation, for each its record.
-- Answers: now; then for each limit when to retry (0: it admits, -1: never), delay, remaining, reset.

local answer, admitted = { now_us, 0, 0, 0, 0 }, true
local count, at = 0, 2
while ARGV[at] and ARGV[at] ~= 'with' do
  count = count + 1
  if use then
    at = use(count, at)
  end
  local s, after = read(KEYS[count], at)
  local retry_after_us, delay_us = admit(s, s.cost)
  if retry_after_us ~= 0 then
    admitted = false
  end
  -- The state stands in the place of its numbers until they are known.
  local to = 4 * count - 2
  answer[to], answer[to + 1], answer[to + 2], answer[to + 3] = retry_after_us, delay_us, s, 0
  at = after
end

local life_us, shadows = ARGV[at] and tonumber(ARGV[at + 1]), ARGV[at + 2]
if shadows and not admitted then
  -- A shadow never denies.
  admitted = true
  for nth = 1, count do
    if answer[4 * nth - 2] ~= 0 and string.sub(shadows, nth, nth) == '0' then
      admitted = false
    end
  end
end
if life_us then
  -- A record that cannot be written is to fail before anything is.
  for nth = 1, count do
    redis.call('HLEN', KEYS[count + nth])
  end
end

for nth = 1, count do
  local to = 4 * nth - 2
  local s = answer[to + 2]
  if use then
    use(nth)
  end
  if s.cost > 0 then
    if admitted and answer[to] == 0 then
      charge(s, s.cost)
      if life_us then
        local record = KEYS[count + nth]
        redis.call('HSET', record, 'units', string.format('%.0f', s.cost), 'charged_at', now_text,
          'expires', string.format('%.0f', now_us + life_us))
        expire(record, life_us, true)
      end
    elseif s.is_stale then
      -- Anchors what is later than now, or of another size, to now.
      charge(s, 0)
    end
  end
  answer[to + 2], answer[to + 3] = remaining(s), reset_after(s)
end
return answer
