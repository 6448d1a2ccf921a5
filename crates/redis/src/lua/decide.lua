-- Decides requests of the same limits, one after another: looks at every limit, then charges all or
-- none.
--
-- ARGV: now or ''; for each limit its cost and its parameters; then, if the requests are more than
-- that, 'with', the life of the reservation in µs or '', and a digit for each limit, 1 for a shadow.
-- KEYS: for each request, for each limit its state; then, if there is a reservation, which is of one
-- request, for each its record.
-- Answers: now; then for each request, for each limit when to retry (0: it admits, -1: never), delay,
-- remaining, reset. One of several that failed has what happened in the place of its first number.

local limits, count, at = {}, 0, 2
while ARGV[at] and ARGV[at] ~= 'with' do
  count = count + 1
  if use then
    at = use(count, at)
  end
  limits[count], at = limit(at)
end
local life_us, shadows = ARGV[at] and tonumber(ARGV[at + 1]), ARGV[at + 2]
local answer, final = { now_us, 0, 0, 0, 0 }, life_us and 0 or #KEYS - count

-- The keys of a request are those behind `from`.
for from = 0, final, math.max(count, 1) do
  local admitted, problem = true, nil
  for nth = 1, count do
    if use then
      use(nth)
    end
    local s, at = limits[nth], 4 * (from + nth) - 2
    if final == 0 then
      read(s, KEYS[nth])
    elseif not problem then
      -- A key that holds a value of somebody else is the affair of its own request.
      local is_read, why = pcall(read, s, KEYS[from + nth])
      problem = not is_read and why
    end
    if problem then
      answer[at], answer[at + 1], answer[at + 2], answer[at + 3] = 0, 0, 0, 0
    else
      local retry_after_us, delay_us = admit(s, s.cost)
      answer[at], answer[at + 1], answer[at + 2], answer[at + 3] = retry_after_us, delay_us, 0, 0
      -- A shadow never denies.
      if retry_after_us ~= 0 and (not shadows or string.sub(shadows, nth, nth) == '0') then
        admitted = false
      end
    end
  end
  if problem then
    -- Old servers tell a text, new ones a table.
    answer[4 * from + 2] = type(problem) == 'table' and problem.err or 'ERR ' .. problem
  else
    if life_us then
      -- A record that cannot be written is to fail before anything is.
      for nth = 1, count do
        call('HLEN', KEYS[count + nth])
      end
    end
    for nth = 1, count do
      if use then
        use(nth)
      end
      local s, at = limits[nth], 4 * (from + nth) - 2
      local cost = s.cost
      if cost > 0 then
        if admitted and answer[at] == 0 then
          charge(s, cost)
          if life_us then
            local record = KEYS[count + nth]
            call('HSET', record, 'units', format('%d', cost), 'charged_at', now_text,
              'expires', format('%d', now_us + life_us))
            expire(record, life_us, true)
          end
        elseif s.is_stale then
          -- Anchors what is later than now, or of another size, to now.
          charge(s, 0)
        end
      end
      answer[at + 2], answer[at + 3] = remaining(s), reset_after(s)
    end
  end
end
return answer
