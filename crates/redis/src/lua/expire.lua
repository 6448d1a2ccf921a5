-- The life of a set, which is written in several steps and does not say until when it lives.

-- Lets a key live until `us` from now.
local function expire(key, us, is_new)
  if not is_new and not is_virtual then
    -- A busy key is given half as much again, and then left alone while that is enough and not twice
    -- too much. A millisecond is what the server may have rounded off.
    local left_us = 1000 * call('PTTL', key)
    if left_us >= us + 1000 and left_us <= us * 2 then
      return
    end
    us = us * 1.5
  end
  call(life_command, key, format('%d', ceil((life_from_us + us) / 1000)))
end
