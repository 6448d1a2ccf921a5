-- Limits of several algorithms in one request. Each has the functions of its own, which are made for
-- it here.

looks, takes = { 0, 0, 0, 0 }, { 0, 0, 0, 0 }

local function limit(at, nth)
  local its_limit
  its_limit, looks[nth], takes[nth] = algorithm(string.sub(ARGV[3], nth, nth))
  return its_limit(at)
end

local look, take
