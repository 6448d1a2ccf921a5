-- Limits of several algorithms in one request. Before one is asked, the functions become those of its
-- algorithm, whose name comes before its cost.

local limit, read, admit, charge, remaining, reset_after
local algorithms = {}

function use(nth, at)
  local A = algorithms[nth]
  if not A then
    local name = ARGV[at]
    A = algorithms[name] or algorithm(name)
    algorithms[nth], algorithms[name] = A, A
  end
  limit, read, admit = A.limit, A.read, A.admit
  charge, remaining, reset_after = A.charge, A.remaining, A.reset_after
  return at and at + 1
end
