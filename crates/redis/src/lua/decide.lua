-- Decides one request: looks at every limit, then charges all or none.
--
-- ARGV: now or '', permit or '', life of the reservation in µs or '', then for each limit its
-- algorithm, cost, shadow (0 or 1) and five parameters.
-- KEYS: for each limit its state; then, if there is a reservation, for each its record.
-- Answers: now, charged (0 or 1), then for each limit admits (0 or 1), retry (-1 is never), delay,
-- remaining, reset.

local permit = ARGV[2]
local life = tonumber(ARGV[3])
local count = (#ARGV - 3) / 8
local checks = {}
local admitted = true

for nth = 1, count do
  local at = 4 + (nth - 1) * 8
  local A = algorithms[ARGV[at]]
  local check = { A = A, key = KEYS[nth], cost = tonumber(ARGV[at + 1]), shadow = ARGV[at + 2] == '1' }
  check.q = A.quota(at + 3)
  check.s = A.read(check.key, check.q)
  check.admits, check.retry, check.delay = A.admit(check.q, check.s, check.cost)
  if not check.admits and not check.shadow then
    admitted = false
  end
  checks[nth] = check
end

local charged = 0
local answer = { now, 0 }
for nth = 1, count do
  local check = checks[nth]
  local A, q, s = check.A, check.q, check.s
  if check.cost > 0 then
    if admitted and check.admits then
      A.charge(check.key, q, s, check.cost, permit)
      charged = 1
      if life then
        local record = KEYS[count + nth]
        redis.call('HSET', record, 'units', text(check.cost), 'charged_at', text(now),
          'expires', text(now + life))
        expire(record, life)
      end
    else
      A.anchor(check.key, q, s)
    end
  end
  answer[#answer + 1] = check.admits and 1 or 0
  answer[#answer + 1] = check.retry
  answer[#answer + 1] = check.delay
  answer[#answer + 1] = A.remaining(q, s)
  answer[#answer + 1] = A.reset_after(q, s)
end
answer[2] = charged
return answer
