-- What every script begins with: exact whole numbers, and the time.
-- Lua's numbers are doubles, exact below 2^53; text of them is made with %.0f, never with `..`.

local MOST = 9007199254740991

local function text(n)
  return string.format('%.0f', n)
end

-- floor(a * b / c) and the remainder, exact, for a < 2^53, b < 2^53 and c < 2^52. Past MOST the
-- quotient is MOST.
local function mul_div(a, b, c)
  local product = a * b
  if product <= MOST then
    local quotient = math.floor(product / c)
    return quotient, product - quotient * c
  end
  -- Bit by bit from the top: quotient and remainder are doubled, and a is added where b has a bit.
  local a_quotient = math.floor(a / c)
  local a_remainder = a - a_quotient * c
  local quotient, remainder = 0, 0
  local bit = 4503599627370496
  while bit >= 1 do
    quotient = quotient * 2
    remainder = remainder * 2
    if remainder >= c then
      remainder = remainder - c
      quotient = quotient + 1
    end
    if b >= bit then
      b = b - bit
      quotient = quotient + a_quotient
      remainder = remainder + a_remainder
      if remainder >= c then
        remainder = remainder - c
        quotient = quotient + 1
      end
    end
    if quotient > MOST then
      return MOST, 0
    end
    bit = bit / 2
  end
  return quotient, remainder
end

local function mul_div_ceil(a, b, c)
  local quotient, remainder = mul_div(a, b, c)
  if remainder > 0 then
    quotient = quotient + 1
  end
  return quotient
end

-- A virtual time is passed as text; without one it is the server's own, read once.
local virtual = ARGV[1] ~= ''
local now
if virtual then
  now = tonumber(ARGV[1])
else
  local time = redis.call('TIME')
  now = tonumber(time[1]) * 1000000 + tonumber(time[2])
end

-- Virtual time does not pass for the server: what it keeps must outlive the run.
local LONG_MS = 86400000

-- Lets a key live until `us` from now, rounded up to the server's milliseconds. The moment is given
-- and not the distance: the server would count that from a time that it has rounded down.
local function expire(key, us)
  if virtual then
    redis.call('PEXPIRE', key, text(math.max(math.ceil(us / 1000), LONG_MS)))
  else
    redis.call('PEXPIREAT', key, text(math.ceil((now + us) / 1000)))
  end
end

-- Each algorithm is a table of functions of a key, a quota (q) and a state (s) that `read` brought.
local algorithms = {}
