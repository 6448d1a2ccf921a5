-- How many units of a bucket are out: core's file of this name says why, and counts alike.
--
-- ARGV[7]: how many may be out, the length of a turn, and three numbers for each turn that something has
-- become of: which it is, the units spent, and those not wanted.
-- KEYS[2] holds the length of a turn, which one it is, when it began, and what is out of it and of each
-- turn before.

local TURNS = 4

-- The loans as they are now, without what came back; how many more may be lent; and the units that come
-- back to the bucket.
function loans_of()
  local most_out, period_us, at = numbers('<dd', ARGV[7])
  local loans
  local function out()
    return loans[4] + loans[5] + loans[6] + loans[7]
  end
  local found = stored(KEYS[2], 2, 56)
  if found then
    loans = { numbers('<ddddddd', found) }
    local gone = math.floor(math.max(0, now_us - loans[3]) / loans[1])
    loans[2] = loans[2] + gone
    loans[3] = math.min(now_us, loans[3] + gone * loans[1])
    for nth = 3 + TURNS, 4, -1 do
      loans[nth] = nth - gone > 3 and loans[nth - gone] or 0
    end
  end
  if not found or out() == 0 then
    loans = { period_us, math.floor(now_us / period_us), now_us, 0, 0, 0, 0 }
  end
  loans[1] = math.max(loans[1], period_us)
  local all_unspent = 0
  for _ = 1, TURNS do
    local turn, spent, unspent
    turn, spent, unspent, at = numbers('<ddd', ARGV[7], at)
    local age = loans[2] - turn
    if age >= 0 and age < TURNS then
      local left = math.max(0, loans[4 + age] - spent)
      unspent = math.min(left, unspent)
      loans[4 + age] = left - unspent
      all_unspent = all_unspent + unspent
    end
  end
  return loans, math.max(0, most_out - out()), all_unspent
end

-- Writes them down with so many more; for how long these may be spent.
function keep_loans(loans, units)
  loans[4] = loans[4] + units
  local life_us = loans[3] + TURNS * loans[1] - now_us
  keep(KEYS[2], packed('<ddddddd', unpack(loans, 1, 7)), life_us)
  return life_us
end
