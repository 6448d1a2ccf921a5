-- a * b / c rounded down, and rounded up, exact, for a < 2^53, b < 2^53 and c < 2^52. Past 2^53 - 1
-- both are that.
local function mul_div(a, b, c)
  local MOST = 9007199254740991
  local product = a * b
  if product <= MOST then
    local remainder = product % c
    local quotient = (product - remainder) / c
    if remainder > 0 then
      return quotient, quotient + 1
    end
    return quotient, quotient
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
    if quotient >= MOST then
      return MOST, MOST
    end
    bit = bit / 2
  end
  if remainder > 0 then
    return quotient, quotient + 1
  end
  return quotient, quotient
end
