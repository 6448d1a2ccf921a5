-- The life of states that are written in several steps.

-- Lets a key live until `us` from now, rounded up to the server's milliseconds. The moment is given
-- and not the distance: the server would count that from a time that it has rounded down.
local function expire(key, us, is_new)
  if is_virtual then
    -- Virtual time does not pass for the server: what it keeps must outlive the run.
    call('PEXPIRE', key, format('%d', math.max(ceil(us / 1000), 86400000)))
    return
  end
  if not is_new then
    -- A busy key is given half as much again, and then left alone while that is enough and not twice
    -- too much. A millisecond is what the server may have rounded off.
    local left_us = 1000 * call('PTTL', key)
    if left_us >= us + 1000 and left_us <= us * 2 then
      return
    end
    us = us * 1.5
  end
  call('PEXPIREAT', key, format('%d', ceil((now_us + us) / 1000)))
end
