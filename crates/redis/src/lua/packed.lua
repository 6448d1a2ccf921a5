-- States that are one string: whole numbers as doubles of eight bytes, the least byte first. It is
-- read in one step, and written in one with its life, for less than what the fields of a hash cost.

-- What is under the keys of a call for several, if each comes once.
local fetched
if KEYS[2] and not AMENDS and not ARGV[7] then
  fetched = call('MGET', unpack(KEYS))
end

-- The string of `size` bytes under a key, the one at `place`.
local function stored(key, place, size)
  local found = fetched and fetched[place] or call('GET', key)
  if found and #found ~= size then
    -- It is somebody else's. This fails, and says that it is of the wrong type.
    call('LLEN', key)
  end
  return found
end

-- Keeps a state until `us` from now; without a time it is written over what was found, which lives on
-- as it was to (SET with KEEPTTL would do the same, and answer by a table). The moment is given and
-- not the distance: the server would count that from a time that it has rounded down.
local function keep(key, state, us)
  if not us then
    call('SETRANGE', key, '0', state)
  elseif is_virtual then
    call('SET', key, state, 'PX', format('%d', math.max(ceil(us / 1000), 86400000)))
  else
    call('SET', key, state, 'PXAT', format('%d', ceil((now_us + us) / 1000)))
  end
end
