-- States that are one string: whole numbers as doubles of eight bytes, the least byte first. It is
-- read in one step, and written in one with its life, for less than what the fields of a hash cost.
-- The second number of each is what the others are counted in: a whole one from 1 to 2^53, which the
-- bytes of somebody else hardly are.

-- What is under the keys of a call for several, if each comes once.
local fetched
if KEYS[2] and not AMENDS and not ARGV[7] then
  fetched = call('MGET', unpack(KEYS))
end

-- The string of `size` bytes under a key, the one at `place`. MGET tells a value of another type as
-- none, so what it has not found is asked for by GET, which fails: SET would write over it.
local function stored(key, place, size)
  local found = fetched and fetched[place] or call('GET', key)
  if found and #found ~= size then
    -- It is somebody else's. This fails, and says that it is of the wrong type.
    call('LLEN', key)
  end
  return found
end

-- Keeps a state until `us` from now; without a time it is written over what was found, which lives on
-- as it was to (SET with KEEPTTL would do the same, and answer by a table).
local function keep(key, state, us)
  if us then
    call('SET', key, state, life_option, format('%d', ceil((life_from_us + us) / 1000)))
  else
    call('SETRANGE', key, '0', state)
  end
end
