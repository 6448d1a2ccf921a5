-- Decides requests of the same limits, one after another: looks at every limit, then charges all or
-- none.
--
-- ARGV: now or ''; the numbers of the limits; and if there is more to say, a letter for the algorithm
-- of each limit if they have several, the permit, the life of the reservation in µs, a digit for each
-- limit, 1 for a shadow, all of them or ''; and anything if a key comes more than once.
-- KEYS: for each request, for each limit its state; then, if there is a reservation, which is of one
-- request, for each its record.
-- Answers: now; then for each request, for each limit when to retry (0: it admits, -1: never), delay,
-- remaining, reset. One of several that failed has what happened in the place of its first number.

-- Tables as long as most will be: to grow is dear.
local limits, count, at, last = { 0, 0, 0, 0 }, 0, 1, #ARGV[2]
-- Where they have several algorithms, the functions of each; neighbours of one share theirs.
local looks, takes, made, letters, sub
if algorithm then
  looks, takes, letters, sub = { 0, 0, 0, 0 }, { 0, 0, 0, 0 }, ARGV[3], string.sub
end
while at < last do
  count = count + 1
  if algorithm then
    local letter = sub(letters, count, count)
    if letter ~= made then
      made, limit, look, take = letter, algorithm(letter)
    end
    looks[count], takes[count] = look, take
  end
  limits[count], at = limit(at)
end
local answer
if KEYS[2] then
  answer = { now_us, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 }
else
  answer = { now_us, 0, 0, 0, 0 }
end
local life_us, shadows = tonumber(ARGV[5] or ''), ARGV[6] or ''
local keys = KEYS
local final = life_us and 0 or #keys - count

-- The keys of a request are those behind `from`.
for from = 0, final, math.max(count, 1) do
  local admitted, problem, at = true, nil, 4 * from + 2
  for nth = 1, count do
    local place, retry_after_us, delay_us = from + nth, nil, nil
    if looks then
      look = looks[nth]
    end
    if final == 0 then
      retry_after_us, delay_us = look(limits[nth], keys[place], place)
    elseif not problem then
      -- A key that holds a value of somebody else is the affair of its own request.
      local is_read
      is_read, retry_after_us, delay_us = pcall(look, limits[nth], keys[place], place)
      problem = not is_read and retry_after_us
    end
    if problem then
      answer[at], answer[at + 1], answer[at + 2], answer[at + 3] = 0, 0, 0, 0
    else
      answer[at], answer[at + 1] = retry_after_us, delay_us
      -- A shadow never denies.
      if retry_after_us ~= 0 and string.sub(shadows, nth, nth) ~= '1' then
        admitted = false
      end
    end
    at = at + 4
  end
  at = 4 * from + 2
  if problem then
    -- Old servers tell a text, new ones a table.
    answer[at] = type(problem) == 'table' and problem.err or 'ERR ' .. problem
  else
    if life_us then
      -- A record that cannot be written is to fail before anything is.
      for nth = 1, count do
        call('HLEN', keys[count + nth])
      end
    end
    for nth = 1, count do
      local s, units = limits[nth], nil
      local cost = s.cost
      if cost > 0 then
        if admitted and answer[at] == 0 then
          units = cost
        elseif s.is_stale then
          -- Anchors what is later than now, or of another size, to now.
          units = 0
        end
      end
      if takes then
        take = takes[nth]
      end
      answer[at + 2], answer[at + 3] = take(s, units)
      if life_us and units and units > 0 then
        local record = keys[count + nth]
        call('HSET', record, 'units', format('%d', units), 'charged_at', format('%d', now_us),
          'expires', format('%d', now_us + life_us))
        call(life_command, record, format('%d', ceil((life_from_us + life_us) / 1000)))
      end
      at = at + 4
    end
  end
end
return answer
